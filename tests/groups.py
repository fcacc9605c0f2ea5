"""Which tests one process of a parallel run takes, one after another; every other goes to whoever is free.

By path, not by xdist's mark: with the pytest that we use xdist 3.8 reads no group from a mark.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.reruns import is_tried_again

ACCEPTANCE: Final = re.compile(r"tests/acceptance/test_(\d+)_")
SHARING: Final = (
    "tests/integration/owners/test_banner.py",
    "tests/integration/owners/test_owners_on_a_login_node.py",
    "tests/integration/slurm/test_memories.py",
    "tests/integration/slurm/test_people.py",
    "tests/integration/slurm/test_scenarios.py",
    "tests/integration/slurm/test_shims.py",
    "tests/properties/test_rule_scanning.py",
)
"""Modules whose tests share something that takes long to start, or seconds to compute."""
SIFTING: Final = ("tests/properties/test_pushdown.py", "tests/properties/test_pushed_down_stores.py")
"""Modules that share the filters of log stores, made of all shipped rules."""
_KEPT: Final = 20
"""Groups that a process has done and that are kept in its books: a test that is tried again is told of once more."""


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
    """Put what has real processes beside it first, so that it is found at once; begun last it would end alone."""
    items.sort(key=lambda item: not is_tried_again(item.nodeid))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Sends the tests of a group to one process; to the last of the processes what computes, to the others what waits.

    So the cores have work while clusters start and time passes. Whoever has no more of its kind takes of the other.
    """

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        self._over: set[bool] = set()
        """The kinds of which none is left: looking for one would be looking at all."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:  # noqa: ANN401 -- xdist has no types
        done = self.assigned_work.setdefault(node, {})
        for group in list(done)[:-_KEPT]:  # else each report of a test counts all that this process ever did
            if all(done[group].values()):
                del done[group]
        computes = node is list(self.assigned_work)[-1]
        if computes not in self._over:
            queue = reversed(self.workqueue) if computes else iter(self.workqueue)
            chosen = next((group for group in queue if _waits(group) is not computes), None)
            if chosen is not None:
                self.workqueue.move_to_end(chosen, last=False)
            else:
                self._over.add(computes)
        super()._assign_work_unit(node)


def _waits(group: str) -> bool:
    return group.startswith("acceptance ") or is_tried_again(group)
