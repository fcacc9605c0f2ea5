"""Which tests one process of a parallel run takes, one after another; every other goes to whoever is free.

By path, not by xdist's mark: with the pytest that we use xdist 3.8 reads no group from a mark.
"""

from __future__ import annotations

import re
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.reruns import is_tried_again

ACCEPTANCE: Final = re.compile(r"tests/acceptance/test_(\d+)_")
SHARING: Final = (
    "tests/integration/owners/test_banner.py",
    "tests/integration/owners/test_owners_on_a_login_node.py",
    "tests/integration/slurm/test_people.py",
    "tests/integration/slurm/test_shims.py",
    "tests/properties/test_rule_scanning.py",
)
"""Modules whose tests share something that takes long to start, or seconds to compute."""
SIFTING: Final = ("tests/properties/test_pushdown.py", "tests/properties/test_pushed_down_stores.py")
"""Modules that share the filters of log stores, made of all shipped rules."""


def group_of(nodeid: str) -> str:
    """The group of a test; its own id when it may go anywhere.

    Acceptance tests mostly wait for real time: two processes take them, first of all, by odd and even numbers. So none
    is left for the end, and what computes has the cores meanwhile.
    """
    if found := ACCEPTANCE.match(nodeid):
        return f"acceptance {int(found[1]) % 2}"
    path = nodeid.partition("::")[0]
    if path in SIFTING:
        return SIFTING[0]
    return path if path in SHARING else nodeid


def waiting_first(items: list[pytest.Item]) -> None:
    """Put what has real processes beside it first: it takes long, and begun last it would keep one process alone."""
    items.sort(key=lambda item: not is_tried_again(item.nodeid))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends the tests of a group to one process; the largest groups first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
