"""The acceptance tests mostly wait for real time, so in a parallel run two processes take them, one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with odd numbers into one group, those with even ones into another.

    Groups are begun first: none of these is left for the end, and the others use the cores meanwhile.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            number = int(item.path.name.split("_")[1])
            item.add_marker(pytest.mark.xdist_group(f"acceptance {'odd' if number % 2 else 'even'}"))
