"""Acceptance test 6: a bad node that cannot be left, as there is no other.

The fixture shows all three cases on one cluster at once: two nodes in place of six, and a quarter of a minute of
watching in place of an hour; the soak watches for two. Shortened: the settle time (2 s), the intervals at which the
queue is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup
from relance.ports.clocks import SystemClock
from relance.simulation import node_faults
from relance.simulation.private_slurm import ClusterPlan, PartitionPlan, RunningCluster
from relance.testing.clusters import Training
from tests.acceptance.stands import LIMIT_S, Postbox, command, postbox, relance_on, told, until

LIMITS = {"settle_s": 2, "grace_after_boot_s": 0, "storms": NO_STORM, "exclusions": {"per_partition_share": 1}}
PLAN: Final = ClusterPlan(
    node_count=9,
    partitions=(
        PartitionPlan(name="exact", nodes=("gpu001", "gpu002", "gpu003")),
        PartitionPlan(name="named", nodes=("gpu004", "gpu005", "gpu006"), options="Default=YES"),
        PartitionPlan(name="window", nodes=("gpu007", "gpu008", "gpu009")),
    ),
)
ASKS: Final = {
    "exact": ("--reservation=exact",),
    "named": ("--nodelist=gpu004,gpu005",),
    "window": ("--time=24:00:00",),
}


@pytest.mark.parametrize("watched_s", [15, pytest.param(120, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
def test_an_exclusion_without_room_is_not_left_standing_and_the_choices_are_told(
    private_slurm: Callable[[ClusterPlan], RunningCluster], watched_s: int
) -> None:
    """Acceptance test 6: (a) a reservation of exactly the job's size, (b) named nodes, (c) a maintenance window."""
    cluster = private_slurm(PLAN)
    owner = cluster.plan.owners[0]
    cluster.must(
        "root",
        [
            "scontrol", "create", "reservation", "ReservationName=exact", "StartTime=now", "Duration=600",
            f"Users={owner}", "Nodes=gpu001,gpu002",
        ],
    )  # fmt: skip
    operators, owners = (postbox(cluster.work_dir(owner) / who) for who in ("operators", "owners"))
    mail = {"command": [str(owners.command), "-t", "-i"], "to": "{user}@example.org"}
    setup = SlurmSetup(
        scheduler=FAST_POLLS,
        site={"limits": LIMITS},
        settings={"notify": {"command": [str(operators.command)], "mail": mail}},
    )
    with relance_on(cluster, setup) as site:
        jobs = {
            name: site.trainings.submit(
                Training(
                    name=name, nodes=2, ranks_per_node=1, steps=4000, step_s=0.3, partition=name, submit_options=asks
                )
            )
            for name, asks in ASKS.items()
        }
        for job in jobs.values():
            site.wait_for_step(job, 3, LIMIT_S)
        begins = SystemClock().now() + timedelta(hours=2)
        cluster.must(
            "root",
            [
                "scontrol", "create", "reservation", "ReservationName=repairs", "Users=root",
                f"StartTime={begins.astimezone():%Y-%m-%dT%H:%M:%S}", "Duration=120", "Flags=MAINT,IGNORE_JOBS",
                "Nodes=gpu007,gpu008,gpu009",
            ],
        )  # fmt: skip
        bad = {name: str(site.trainings.job(job)["node_list"][1]) for name, job in jobs.items()}
        for node in bad.values():
            site.trainings.break_node(node)
        for job in jobs.values():
            until(lambda job=job: site.state(job) != "RUNNING", LIMIT_S, f"the fault of job {job}")  # type: ignore[misc]
        for node in bad.values():
            node_faults.mend_node(site.trainings.work_dir / "nodes" / node)
        for name in ("exact", "named"):
            words = f"job {jobs[name]} {name}"
            for who in (operators, owners):
                until(lambda who=who, words=words: _with(who, words), LIMIT_S, f"a word on {name}")  # type: ignore[misc]

        # No exclusion that cannot be met is left standing: none is put on the job in the first place.
        unmet_s: dict[str, float] = {}
        end = time.monotonic() + watched_s
        while time.monotonic() < end:
            for name in ("exact", "named"):
                row = site.trainings.job(jobs[name])
                is_unmet = row["state"] == "PENDING" and bad[name] in row["exclude"]
                if is_unmet:
                    unmet_s[name] = unmet_s.get(name, 0.0) + 0.5
            time.sleep(0.5)
        assert unmet_s == {}, f"exclusions that cannot be met, for so many seconds: {unmet_s}"

        for name in ("exact", "named"):
            told_to = [_with(who, f"job {jobs[name]} {name}") for who in (operators, owners)]
            for text in (*told_to, command(site, "explain", site.incidents(jobs[name])[-1].id)):
                assert "free a node, or start it with the suspect" in text, text
            assert bad[name] not in site.trainings.job(jobs[name])["exclude"]
            assert "free a node, or start it with the suspect" in told(site, jobs[name]), told(site, jobs[name])
        item = site.incidents(jobs["window"])[-1]
        story = told(site, jobs["window"]) + command(site, "explain", item.id)
        assert "maintenance repairs" in story, story
        assert f"{begins.astimezone(UTC):%Y-%m-%d %H:%M} UTC" in story, story
        (fits,) = set(re.findall(r"limit of at most (\d+) min", story)) or {"0"}
        assert 110 <= int(fits) < 120, story
        cluster.must("root", ["scontrol", "update", f"JobId={jobs['window']}", f"TimeLimit={fits}"])
        cluster.wait_for_state(jobs["window"], "RUNNING", time_limit_s=LIMIT_S)
        assert bad["window"] not in site.trainings.job(jobs["window"])["node_list"]


def _with(box: Postbox, words: str) -> str:
    """All that somebody was told about this."""
    return "\n".join(letter for letter in box.letters if words in letter)
