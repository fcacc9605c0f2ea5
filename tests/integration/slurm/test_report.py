"""The report on a real cluster: observe sees a training lose a rank, its owner requeues it by hand."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from relance.client.people import ApiClient
from relance.domain.faults import Remedy
from relance.ports.clocks import SystemClock
from relance.recovery.rows import AdviceRow
from relance.testing.clusters import Training
from relance.testing.other_users import open_python, user_of
from relance.testing.roles import RelanceProcesses, account_of
from relance.testing.slurm_trainings import SlurmTrainings
from tests.components.slurm import LeasedNodes

LIMIT_S = 60.0
SEEN_STEP = 5
"""What dies before its first step is not restarted: a typo would look like that."""
HAND_S = 3.0
"""Longer than the whole seconds in which Slurm tells its times."""


class Observed:
    """Trainings of an owner on the leased nodes, and Relance in observe beside them, as the cluster's operator."""

    def __init__(self, nodes: LeasedNodes, folder: Path) -> None:
        self.cluster = nodes.cluster
        operator = user_of(self.cluster.plan.operator)
        python = open_python(folder, operator)
        self.owner = self.cluster.plan.owners[0]
        place = self.cluster.work_dir(self.owner) / folder.name
        self.trainings = SlurmTrainings(self.cluster, place, self.owner, python, partition=nodes.partition)
        site = {
            "name": "alpha",
            "scheduler": {"kind": "slurm", "jobs_s": 0.5, "accounting_s": 5, "partitions": [nodes.partition]},
            "kernel_log": self.trainings.kernel_log,
            "log_roots": [self.cluster.folder],
            "limits": {"grace_after_boot_s": 0},
        }
        settings = {"clusters": [site], "server": {"port": 0}}
        account = account_of(operator, python, self.cluster.env)
        self.relance = RelanceProcesses(folder / "relance", settings, account=account)

    def requeue_by_hand(self, job_id: int) -> None:
        """The owner requeues the job, and lets it start at once."""
        self.cluster.must(self.owner, ["scontrol", "requeue", str(job_id)])
        self.cluster.wait_for_state(job_id, "PENDING")
        time.sleep(1.1)  # one full second after PENDING, or the new attempt may die at launch
        self.cluster.must(self.owner, ["scontrol", "update", f"JobId={job_id}", "StartTime=now"])


def until(happened: Callable[[], object], what: str, story: Callable[[], object] = str) -> None:
    """Wait for something, and not for ever; `story` is told when it does not come."""
    end = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < end, f"not within {LIMIT_S:.0f} s: {what}\n{story()}"
        time.sleep(0.1)


@pytest.fixture
def observed(slurm_nodes: LeasedNodes) -> Iterator[Observed]:
    """Relance in observe on three nodes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # Relance's own user has its folder below it
        made = Observed(slurm_nodes, folder)
        made.trainings.start()
        made.relance.start()
        yield made
        made.relance.stop()
        made.trainings.stop()


@pytest.mark.soak  # a minute of waiting; tests/scenarios/test_report.py has the same on the simulated scheduler
@pytest.mark.timeout(300)
def test_hours_saved_against_a_requeue_by_hand_on_a_real_cluster(observed: Observed) -> None:
    begin = SystemClock().now() - timedelta(hours=1)
    server = observed.relance.server
    with ApiClient(server.url, server.token) as client:

        def wants_restart() -> list[AdviceRow]:
            rows = (row for row in client.advice() if row.job.raw_id == str(job_id))
            return [row for row in rows if row.action.restarts and not row.hold]

        job_id = observed.trainings.submit(Training(name="llm", nodes=2, ranks_per_node=1, steps=300, step_s=0.1))
        until(lambda: any((row.step or 0) >= SEEN_STEP for row in client.jobs()), "steps that Relance has seen")
        observed.trainings.kill_rank(job_id, 1)
        until(wants_restart, "an advice to restart", lambda: (client.advice(), client.history(limit=40)))
        time.sleep(HAND_S)  # how long the owner takes is what is measured
        observed.requeue_by_hand(job_id)
        until(lambda: observed.cluster.job_fields(job_id)["JobState"] == "COMPLETED", "the end of the second attempt")
        until(lambda: client.report(begin).coverage[-1].read == client.report(begin).coverage[-1].hours, "its measure")
        found = client.report(begin)
    (saved,) = found.savings.listed
    assert (saved.how, saved.subject.attempt.job.raw_id) == ("requeued", str(job_id))
    assert HAND_S - 1 <= saved.saved_s <= HAND_S + 2
    assert (found.ends.advised, found.misses.failures, found.misses.missed) == (0, 1, 0)
    row = next(row for row in found.agreement.rows if row.advised is Remedy.RESTART)
    assert (found.agreement.compared, found.agreement.agreed, row.restarted, row.went_on) == (1, 1, 1, 1)
    assert (found.attempts, found.incidents) == (2, 1)
    coverage = found.coverage[-1]
    assert (coverage.unit, coverage.read_share, coverage.progress_share) == ("node", 1.0, 1.0)
