"""Acceptance test 9: a restarted job that did not go on from its checkpoint.

The fixture shows all of it but the size: a small training, whose pointer to the newest checkpoint is removed while the
job is down. Shortened: the settle time (1 s), the intervals at which the queue is read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup
from relance.domain.events import IncidentEnd
from relance.simulation.checkpoints import TRACKER
from relance.testing.clusters import Training
from tests.acceptance.stands import LIMIT_S, Postbox, happened, postbox, relance_on, steps_of, told, until
from tests.components.slurm import LeasedNodes

LIMITS = {"settle_s": 1, "grace_after_boot_s": 0, "storms": NO_STORM}


@pytest.mark.timeout(600)
def test_a_job_that_lost_its_checkpoint_alarms_its_owner_and_is_left_alone(
    lease_nodes: Callable[[int], LeasedNodes],
) -> None:
    """Acceptance test 9: a finding within two steps, mail to the owner, no further restart, nothing cancelled."""
    nodes = lease_nodes(2)
    cluster = nodes.cluster
    box = postbox(cluster.work_dir(cluster.plan.owners[0]) / nodes.partition)
    setup = SlurmSetup(
        scheduler={**FAST_POLLS, "partitions": [nodes.partition]},
        site={"limits": LIMITS},
        settings={"notify": {"mail": {"command": [str(box.command), "-t", "-i"], "to": "{user}@example.org"}}},
    )
    with relance_on(cluster, setup, partition=nodes.partition) as site:
        job = site.trainings.submit(
            Training(name="forgetful", nodes=2, ranks_per_node=1, steps=3000, step_s=0.8, checkpoint_every=10)
        )
        site.wait_for_step(job, 13, LIMIT_S)
        saved = site.trainings.work_dir / "forgetful" / "checkpoints"
        durable = int((saved / TRACKER).read_text())
        site.trainings.kill_rank(job, 1)
        cluster.wait_for_state(job, {"FAILED", "PENDING"}, time_limit_s=LIMIT_S)
        (saved / TRACKER).unlink()
        kept = sorted(path.name for path in saved.iterdir())

        until(lambda: site.story(job).alarm, LIMIT_S, "the alarm")  # type: ignore[union-attr]
        opened = next(row.at for row in reversed(happened(site, job)) if row.event == "IncidentOpened")
        early = [step for at, step in steps_of(_second(site.trainings.output(job))) if at <= opened]
        assert max(early, default=0) <= 2, f"found only after step {max(early)}"
        assert "did not resume" in told(site, job).splitlines()[0]
        words = f"starts from the beginning; step {durable} was durable"
        until(lambda: words in told(site, job), LIMIT_S, "what the restarted job lost")
        until(lambda: bool(_alarms(box)), LIMIT_S, "the mail")
        (mail,) = _alarms(box)
        assert f"To: {site.owner}@example.org" in mail
        assert words in mail

        site.trainings.kill_rank(job, 0)  # whatever befalls it now, Relance has no part in it
        cluster.wait_for_state(job, "FAILED", time_limit_s=LIMIT_S)
        site.wait_for_end(job, LIMIT_S)
        fields = cluster.job_fields(job)
        assert (fields["JobState"], fields["Restarts"]) == ("FAILED", "1"), "restarted once, and never again"
        rows = happened(site, job)
        assert sum(row.event == "ActionStarted" for row in rows) == 1, "nothing was done a second time"
        ends = {item.end for item in site.incidents(job)}
        assert IncidentEnd.RECOVERED not in ends, ends
        present = sorted(path.name for path in saved.iterdir())
        assert set(kept) <= set(present), "the checkpoints were touched"


def _alarms(box: Postbox) -> list[str]:
    """The mails that say so; that the job is not restarted later is told by others."""
    return [letter for letter in box.letters if "forgetful did not resume" in letter.partition("\n\n")[0]]


def _second(output: str) -> str:
    """What the second attempt wrote."""
    return output.rpartition("will not load any checkpoints")[2]
