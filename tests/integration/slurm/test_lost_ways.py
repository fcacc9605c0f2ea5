"""Relance on a real Slurm that it reaches by SSH: what becomes of the stage while the other host is away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.sites import until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.bootstrap.inspections import check_cluster
from relance.config.settings import ClusterSettings
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.scripts import script_text
from relance.testing.other_users import user_of
from relance.testing.ssh_servers import Login, as_account
from tests.components.slurm_ways import sshd

WAIT_S = 60.0


@pytest.mark.soak
def test_a_host_that_is_away_lowers_the_stage_at_once_and_one_that_is_back_lifts_it(
    private_slurm: Callable[[ClusterPlan], RunningCluster], tmp_path: Path
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=2))
    tmp_path.chmod(0o755)
    operator = user_of(cluster.plan.operator)
    text = script_text(slurm_conf=cluster.slurm_conf)
    login = Login(run=as_account(operator.name), client_uid=operator.uid, script=text)
    with sshd(login) as server:
        access = {"access": server.settings}
        site = SlurmSite(cluster, Path(cluster.folder) / "site", SlurmSetup(scheduler={**FAST_POLLS, **access}))

        def caps() -> set[str]:
            return {cap.name for row in site.client.stages(site.name) for cap in row.caps}

        try:
            site.start()
            assert caps() <= {"watcher"}
            server.stop()
            until(lambda: "connection" in caps(), WAIT_S, "the lost connection to be told")
            assert "controller" not in caps()
            server.start()
            until(lambda: "connection" not in caps(), WAIT_S, "the connection to come back")
        finally:
            site.stop()
        settings = ClusterSettings.model_validate({"name": "alpha", "scheduler": {"kind": "slurm", **access}})
        found = check_cluster(settings, SystemClock())
        ways = {point.name: point.level for point in found.points}
        assert (found.account, found.fit_for_observe) == (operator.name, True)
        assert {ways[name] for name in ("access", "script", "allow_list", "key", "account")} == {"ok"}
