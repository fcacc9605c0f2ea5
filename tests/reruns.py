"""Tests against real processes that failed are tried once more, with everything they share made anew, and it is told.

A machine may stand still for longer than anybody foresaw, and then a change cannot land for what it has not done. What
computes is not tried again: there a failure that comes and goes is a fault. Nor is a second try silent: the run's end
lists each with what went wrong, and a test that fails twice has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import pytest

REAL: Final = re.compile(
    r"tests/(acceptance|browser|integration)/"
    r"|tests/contract/test_(history_mariadb|loki_double|loki_failures|scheduler_local|scheduler_slurm(_ways)?|signal_pushdown"
    r"|signals_live|signals_metric_stores|source_loki|source_victorialogs|victorialogs_double)\.py"
)
"""Where the tests are that have real servers, schedulers and commands as processes beside them."""

_FAILED: Final = pytest.StashKey[bool]()
_LIMIT: Final = pytest.StashKey[Any]()


def is_tried_again(nodeid: str) -> bool:
    """Whether a test is tried once more when it has failed."""
    return REAL.match(nodeid) is not None


class Reruns:
    """The plugin: which tests, what is made anew for them, and how long the second try may take."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: Iterable[pytest.Item]) -> None:
        """Mark them; whoever looks at a failure with a debugger wants the first."""
        for item in items:
            if is_tried_again(item.nodeid) and not config.getoption("usepdb"):
                item.add_marker(pytest.mark.flaky(reruns=1))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:  # noqa: ANN401 -- whatever pytest makes of it
        """Note what failed before it is taken down."""
        report = yield
        if report.failed:
            item.stash[_FAILED] = True
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """After a failure take down what is shared too: what broke the test may be a server that many tests use."""
        if item.stash.get(_FAILED, False) and is_tried_again(item.nodeid):
            item.stash[_FAILED] = False
            item.session._setupstate.teardown_exact(None)  # noqa: SLF001 -- pytest has no public word for it

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: object) -> None:
        """Remember the limit: a failure ends it, and the second try would have none."""
        item.stash[_LIMIT] = settings

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Give the second try the whole limit again."""
        if getattr(item, "execution_count", 1) > 1 and _LIMIT in item.stash:
            hooks = item.config.hook
            hooks.pytest_timeout_cancel_timer(item=item)
            hooks.pytest_timeout_set_timer(item=item, settings=item.stash[_LIMIT])
