"""What people may ask for is what can be undone, until the site says more; server and controller are told alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from relance.bootstrap.controllers import slurm_settings
from relance.bootstrap.sites import rules_of
from relance.config import ClusterSettings
from relance.config.settings import SlurmSchedulerSettings
from relance.domain.requests import RequestKind

DEFAULT = {RequestKind.HOLD_JOBS, RequestKind.RESERVE_NODES}


@pytest.mark.parametrize(
    ("actions", "kinds"),
    [
        ({}, DEFAULT),
        ({"cancel_jobs": True}, DEFAULT | {RequestKind.CANCEL_JOBS}),
        ({"drain_nodes": True, "hold_jobs": False}, {RequestKind.RESERVE_NODES, RequestKind.DRAIN_NODES}),
        ({"reserve_nodes": False, "hold_jobs": False}, set()),
    ],
)
def test_each_kind_has_its_switch_and_both_sides_are_told(actions: dict[str, bool], kinds: set[RequestKind]) -> None:
    scheduler = SlurmSchedulerSettings(kind="slurm", conf=Path("/etc/slurm/slurm.conf"))
    cluster = ClusterSettings.model_validate({"name": "alpha", "actions": actions})
    assert rules_of(cluster).requests == kinds
    assert slurm_settings(cluster, scheduler).requests == kinds


def test_what_nobody_can_switch_on_is_no_setting() -> None:
    for name in ("arm_jobs", "down_nodes"):
        with pytest.raises(ValueError, match=name):
            ClusterSettings.model_validate({"name": "alpha", "actions": {name: True}})
