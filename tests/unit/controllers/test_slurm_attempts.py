"""What is remembered of a job's attempts, and what of it counts once an attempt has ended."""

from __future__ import annotations

from dataclasses import replace

from relance.controllers.slurm.attempts import Attempts
from relance.slurm.records import AccountedJob, AccountedStep
from tests.unit.slurm.recorded import job_with

RUNNING = job_with(submitted_at=100, started_at=110, restart_count=0)
FAILED = replace(RUNNING, states=("FAILED",), ends_at=200)
STEP = AccountedStep(job_id=12, step_id="0", name="python", state="RUNNING")
ROW = AccountedJob(
    job_id=12, shown_id="12", name="llm", uid=1001, state="RUNNING", submitted_at=100, started_at=110, steps=(STEP,)
)


def test_what_steps_showed_while_a_job_ran_tells_nothing_of_who_ended_it() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    assert attempts.learn(RUNNING, [ROW], 0.0).steps
    assert attempts.meet(FAILED).steps is None
    # Neither accounting that is away nor one that lags behind makes it known.
    assert attempts.learn(FAILED, None, 1.0).steps is None
    assert attempts.learn(FAILED, [ROW], 2.0).steps is None
    ended = replace(STEP, state="CANCELLED", cancelled_by=1001, ended_at=200)
    told = attempts.learn(FAILED, [replace(ROW, state="FAILED", ended_at=200, steps=(ended,))], 3.0)
    assert [step.cancelled_by for step in told.steps or ()] == [1001]
