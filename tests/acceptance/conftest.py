"""The acceptance tests mostly wait for real time: one process of a parallel run takes them all, one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put these tests into one group: others use the cores meanwhile, and none of these is left for the end."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("acceptance"))
