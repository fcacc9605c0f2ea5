"""What every test shares: the real components, and an environment without the settings of this machine."""

from __future__ import annotations

import gc
import os

import pytest
import structlog
from hypothesis import settings

from tests.components.mariadb import mariadb_server, mariadb_url
from tests.components.slurm import lease_nodes, private_slurm, slurm_cluster, slurm_nodes
from tests.groups import GroupScheduling, waiting_first
from tests.reruns import Reruns

__all__ = ["lease_nodes", "mariadb_server", "mariadb_url", "private_slurm", "slurm_cluster", "slurm_nodes"]

# A busy machine is slow, not wrong: a test's limit is pytest's timeout, and a failure prints how to repeat it.
settings.register_profile("relance", deadline=None, print_blob=True)
settings.load_profile("relance")

# The default renderer prints the locals of every frame: seconds for one traceback of a big state.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_configure(config: pytest.Config) -> None:
    """Try tests against real processes once more."""
    config.pluginmanager.register(Reruns(), "tests against real processes once more")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a parallel run; chance has ordered them before."""
    if hasattr(config, "workerinput"):
        waiting_first(items)


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of each later search for garbage: a tenth of the run's work."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling | None:
    """Send groups of tests to one process each."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RELANCE_")]:
        monkeypatch.delenv(name)
