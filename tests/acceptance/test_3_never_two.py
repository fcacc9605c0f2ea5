"""Acceptance test 3: never two of one work, whoever starts the second.

The fixture shows all four cases on one cluster at once. A witness looks at the queue five times in a second; what is
shorter than that it may miss. Shortened: the settle time (1 s), the intervals at which the queue is read, and the time
after which one job's silence is a hang (4 s, its owner's own wish).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

import pytest

from bench.rigs import NO_STORM
from bench.sites import TooLateError
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.client.errors import ServerRefusedError
from relance.domain.events import IncidentEnd
from relance.domain.stages import EndRunning, Stage
from relance.recovery.rows import AdviceRow
from relance.simulation import node_faults
from relance.simulation.private_slurm import ClusterPlan, PartitionPlan, RunningCluster
from relance.testing.clusters import Training
from tests.acceptance.stands import LIMIT_S, happened, relance_on, told, until, witness

LIMITS = {"settle_s": 1, "grace_after_boot_s": 0, "storms": NO_STORM, "exclusions": {"per_partition_share": 1}}
PLAN: Final = ClusterPlan(
    node_count=9,
    partitions=(
        PartitionPlan(name="chain", nodes=("gpu001", "gpu002", "gpu003")),
        PartitionPlan(name="usual", nodes=("gpu004", "gpu005", "gpu006", "gpu007"), options="Default=YES"),
        PartitionPlan(name="asked", nodes=("gpu008", "gpu009")),
    ),
)


class Cases:
    """The four cases, each begun and then looked at, so that they run side by side."""

    def __init__(self, site: SlurmSite) -> None:
        self.site = site
        self.cluster: RunningCluster = site.cluster

    def training(self, name: str, partition: str, *options: str, comment: str = "") -> Training:
        """A training of two ranks."""
        return Training(
            name=name, nodes=2, ranks_per_node=1, steps=2000, step_s=0.2, partition=partition, comment=comment,
            submit_options=options,
        )  # fmt: skip

    def begin_chain(self) -> tuple[list[int], int]:
        """A chain of three, and behind its first member a job that will take one of the nodes for a while."""
        chain = [
            self.site.trainings.submit(self.training("chain", "chain", "--dependency=singleton")) for _ in range(3)
        ]
        self.site.wait_for_step(chain[0], 5, LIMIT_S)
        crowd = self.cluster.submit(
            self.site.owner, "#!/bin/sh\nsleep 600\n",
            options=["--partition=chain", "--nodes=3", "--exclusive", "--job-name=crowd"],
        )  # fmt: skip
        self.cluster.must("root", ["scontrol", "update", f"JobId={crowd}", "Priority=4000000000"])
        return chain, crowd

    def begin_trap(self) -> int:
        """A script that, told to end, submits a copy of itself; its silence counts as a hang after 4 s."""
        training = self.training("trap", "usual", comment='{"relance": {"hang_after_s": 4}}')
        body = self.site.trainings.script(training).replace("\nexec srun", "\nsrun")
        place = self.site.trainings.work_dir / "trap.sh"
        copy = shlex.join(
            ["sbatch", "--job-name=trap", "--partition=usual", "--nodes=2", "--ntasks-per-node=1", str(place)]
        )
        lines = body.rstrip("\n").splitlines()
        lines[-1] = f"trap '{copy} && exit 1' TERM\n{lines[-1]} &\nwait\nwait"
        place.write_text("\n".join(lines) + "\n")
        for each in ("trap", "trap/checkpoints", "trap/scenarios"):
            self.cluster.must(self.site.owner, ["mkdir", "-p", str(self.site.trainings.work_dir / each)])
        done = self.cluster.run_as(
            self.site.owner,
            [
                "sbatch", "--parsable", "--job-name=trap", "--partition=usual", "--nodes=2", "--ntasks-per-node=1",
                f"--comment={training.comment}", str(place),
            ],
            cwd=self.site.trainings.work_dir,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def begin_requeuer(self) -> int:
        """A script that requeues its own job when its training failed."""
        training = self.training("requeuer", "usual")
        script = self.site.trainings.script(training).replace("\nexec srun", "\nsrun")
        self.cluster.must(self.site.owner, ["mkdir", "-p", str(self.site.trainings.scenario_dir("requeuer"))])
        self.cluster.must(
            self.site.owner, ["mkdir", "-p", str(self.site.trainings.work_dir / "requeuer" / "checkpoints")]
        )
        return self.cluster.submit(
            self.site.owner,
            f"{script}status=$?\n[ $status = 0 ] || scontrol requeue $SLURM_JOB_ID\nexit $status\n",
            options=["--job-name=requeuer", "--partition=usual", "--nodes=2", "--ntasks-per-node=1"],
            cwd=self.site.trainings.work_dir,
        )

    def asked(self, job: int) -> AdviceRow | None:
        """The advice on this job that waits for a person's yes."""
        rows = self.site.client.advice()
        return next((row for row in rows if row.job.raw_id == str(job) and row.needs_approval and not row.hold), None)

    def copy_of_trap(self, job: int) -> int | None:
        """The id of the copy that the trap submitted."""
        shown = self.cluster.must("root", ["squeue", "--noheader", "--name=trap", "--format=%i"])
        ids = [int(each) for each in shown.split() if int(each) != job]
        return ids[0] if ids else None


@pytest.mark.timeout(600)
def test_no_work_ever_runs_twice_whoever_starts_the_second(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    """Acceptance test 3: (a) a chain, (b) a trap that submits, (c) a resubmit before a yes, (d) a self-requeue."""
    cluster = private_slurm(PLAN)
    setup = SlurmSetup(scheduler=FAST_POLLS, site={"limits": LIMITS}, end_running=frozenset(EndRunning))
    with relance_on(cluster, setup) as site, witness(cluster) as seen:
        site.client.set_stage(Stage.APPROVE, site.name, "asked")
        cases, owner = Cases(site), site.owner
        chain, crowd = cases.begin_chain()
        trap = cases.begin_trap()
        requeuer = cases.begin_requeuer()
        asked = site.trainings.submit(cases.training("asked", "asked"))
        for job in (trap, requeuer, asked):
            site.wait_for_step(job, 5, LIMIT_S)

        # What befalls them, all at once.
        bad = str(site.trainings.job(chain[0])["node_list"][1])
        site.trainings.break_node(bad)
        site.trainings.stop_rank(trap, 1)
        site.trainings.kill_rank(requeuer, 1)
        site.trainings.kill_rank(asked, 1)

        # (c) Somebody submits it again by hand; whoever says yes to the old one is told of the new one.
        advice = until(lambda: cases.asked(asked), LIMIT_S, "an advice to approve")
        again = site.trainings.submit(cases.training("asked", "asked"))
        cluster.wait_for_state(again, "RUNNING", time_limit_s=LIMIT_S)
        refusal = _refused(site, advice)
        assert str(again) in refusal or _names_the_twin(site, asked, again), refusal

        # (a) The next of the chain is the next attempt: it is kept off the bad node while it waits.
        until(lambda: bad in site.trainings.job(chain[1])["exclude"], LIMIT_S, "the exclusion on the successor")
        node_faults.mend_node(site.trainings.work_dir / "nodes" / bad)
        assert site.state(chain[1]) == "PENDING"
        cluster.must("root", ["scancel", str(crowd)])
        cluster.wait_for_state(chain[1], "RUNNING", time_limit_s=LIMIT_S)
        assert bad not in site.trainings.job(chain[1])["node_list"]
        assert site.trainings.job(chain[0])["restart_count"] == 0
        assert site.state(chain[2]) == "PENDING"

        # (b) The copy goes on, our pending record of the old one is taken back.
        copy = until(lambda: cases.copy_of_trap(trap), LIMIT_S, "the copy that the trap submits")
        cluster.wait_for_state(trap, {"CANCELLED", "FAILED"}, time_limit_s=LIMIT_S)
        cluster.wait_for_state(copy, "RUNNING", time_limit_s=LIMIT_S)

        # (d) Its own requeue is adopted.
        cluster.must(owner, ["scontrol", "update", f"JobId={requeuer}", "StartTime=now"])  # not two minutes later
        site.wait_for_end_of_incident(requeuer, LIMIT_S)
        assert site.trainings.job(requeuer)["restart_count"] == 1
        assert not [row for row in happened(site, requeuer) if row.event == "ActionStarted"]
        ends = {item.end for item in site.incidents(requeuer)}
        assert ends <= {IncidentEnd.LEFT, IncidentEnd.RECOVERED}, told(site, requeuer)

        for job in (chain[0], trap, asked):
            site.wait_for_end_of_incident(job, LIMIT_S)
        assert seen.looks > 30
        assert seen.together == []
        assert {str(chain[0]), str(chain[1])} <= seen.seen[f"{owner} chain"]
        assert {str(trap), str(copy)} <= seen.seen[f"{owner} trap"]
        assert {str(asked), str(again)} <= seen.seen[f"{owner} asked"]


def _refused(site: SlurmSite, advice: AdviceRow) -> str:
    """What is said when the yes comes too late; the words of the story when there is nothing left to say yes to."""
    try:
        site.client.approve(advice.id, advice.generation, advice.effect_digest)
    except ServerRefusedError as error:
        return str(error)
    return ""


def _names_the_twin(site: SlurmSite, job: int, twin: int) -> bool:
    """Whether the story says which job stands in the way."""

    def is_named() -> bool:
        return any(f"job {twin}" in f"{row.title} {row.detail}" for row in happened(site, job))

    try:
        return until(is_named, LIMIT_S, "the twin's id")
    except TooLateError:
        return False
