"""Acceptance test 1: on a plain account Relance cannot act, and asks little.

The fixture shows half a minute, in the soak five, in place of a day, on a cluster where jobs run, fail and hang; not
the calls to a file system. Everything is as shipped, but for the port, and for the minutes after the scheduler's start.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from bench.slurm_sites import SlurmSetup, SlurmSite
from relance.client.errors import ServerRefusedError
from relance.controlling.sights import SUSPECTED_S
from relance.domain.stages import Stage
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.testing.clusters import Training
from relance.testing.other_users import user_of
from tests.acceptance.stands import LIMIT_S, command, decides_nothing, happened, relance_on, told, until

PLAIN: Final = "relance"
PLAN: Final = ClusterPlan(
    node_count=3,
    cpus_per_node=8,
    operator="relance-op",
    owners=("owner1", "owner2", PLAIN),
    extra_lines=("DebugFlags=Protocol",),
)
"""The account that Relance runs as has no admin level, and is nobody's coordinator."""
RPC: Final = re.compile(r"received opcode (\S+) from .* uid (\d+)")
QUEUE: Final = ("REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO", "REQUEST_JOB_INFO_SINGLE", "REQUEST_NODE_INFO")
"""What squeue and sinfo ask for, by the names of their messages; others that they send ride on these."""
MOST_PER_MINUTE: Final = 8.0
CHANGES: Final = re.compile(
    r"UPDATE|REQUEUE|CANCEL|KILL|SUSPEND|CREATE|DELETE|SUBMIT|SIGNAL|RECONFIGURE|REBOOT|SHUTDOWN|ALLOCATION"
)


LASTING = {"lasting_min_s": 15, "lasting_times": 1}
"""A suspected hang is an incident sooner than as shipped, so that the test need not wait for it."""


def requests(cluster: RunningCluster, uid: int) -> Counter[str]:
    """The requests of a user in the scheduler's own log, by kind."""
    text = cluster.layout.log("slurmctld").read_text(encoding="utf-8", errors="replace")
    return Counter(kind for kind, who in RPC.findall(text) if int(who) == uid)


@pytest.mark.parametrize("watched_s", [30, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.timeout(1500)
def test_a_plain_account_sees_everything_and_sends_nothing_that_changes_anything(
    private_slurm: Callable[[ClusterPlan], RunningCluster], watched_s: int
) -> None:
    """Acceptance test 1: observe as a plain account; no request that changes, few that ask, act refused, no trace."""
    cluster = private_slurm(PLAN)
    uid = user_of(PLAIN).uid
    setup = SlurmSetup(site={"limits": {"grace_after_boot_s": 0, "hang": LASTING}}, stage=Stage.OBSERVE, account=PLAIN)
    with relance_on(cluster, setup) as site:
        runs, fails, hangs = (
            site.trainings.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=9000, step_s=0.5))
            for name in ("runs", "fails", "hangs")
        )
        for job in (runs, fails, hangs):
            site.wait_for_step(job, 2, LIMIT_S)
        assert _too_often(cluster, uid, watched_s) == ""
        site.trainings.kill_rank(fails, 1)
        site.trainings.stop_rank(hangs, 1)
        until(lambda: _wants_restart(site, fails) and bool(site.incidents(hangs)), LIMIT_S, "both incidents")
        if watched_s > SUSPECTED_S:
            time.sleep(SUSPECTED_S)  # what was just seen is read more often, for so long
            assert _too_often(cluster, uid, watched_s) == ""

        with pytest.raises(ServerRefusedError) as refused:
            site.client.set_stage(Stage.ACT, site.name)
        assert PLAIN in str(refused.value), refused.value
        assert "stage" in told(site, fails)
        report = command(site, "report")
        assert re.search(r"log read.*\n(.*\n)*?\s*gpu .*100", report), report
        for job in (runs, fails, hangs):
            assert decides_nothing(site, job) == []
    changing = {kind: count for kind, count in requests(cluster, uid).items() if CHANGES.search(kind)}
    assert changing == {}
    for job in (runs, fails, hangs):
        fields = cluster.job_fields(job)
        assert (fields["Restarts"], fields["ExcNodeList"]) == ("0", "(null)")
        assert fields.get("Comment", "(null)") == "(null)"
    assert "No reservations" in cluster.must("root", ["scontrol", "show", "reservation"])
    assert not cluster.must("root", ["squeue", "--noheader", f"--user={PLAIN}"]).strip()


def _too_often(cluster: RunningCluster, uid: int, watched_s: float) -> str:
    """How a user asks more often than allowed, of what squeue and sinfo ask for; empty when that is not so."""
    before, begun_s = requests(cluster, uid), time.monotonic()
    time.sleep(watched_s)  # how much is asked in so long is what is measured
    minutes = (time.monotonic() - begun_s) / 60
    asked = requests(cluster, uid) - before
    assert asked["REQUEST_JOB_INFO"] > 0, f"the log does not tell who asks: {asked}"
    queue = sum(asked[kind] for kind in QUEUE)
    # A minute that begins with a question has one more than its share.
    return f"{queue} in {minutes:.2f} min: {dict(asked)}" if queue > MOST_PER_MINUTE * minutes + 2 else ""


def _wants_restart(site: SlurmSite, job: int) -> bool:
    return any(row.event == "ActionPrepared" for row in happened(site, job))
