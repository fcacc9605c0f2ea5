"""A site's command for evidence: run with bounds, and never taken for a person at work or for the job's training."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relance.controllers.local import LocalScheduler
from relance.controllers.site_commands import collect
from relance.controllers.slurm.presences import somebody_at_work
from relance.controllers.slurm.rows import step_views
from relance.controlling.evidence_commands import EvidencePlan, evidence_effect
from relance.domain.advice import Command
from relance.domain.collecting import EVIDENCE_STEP
from relance.domain.views import JobState, JobView
from relance.ports.clocks import SystemClock
from relance.slurm.commands import marked_step
from relance.slurm.records import AccountedStep, SlurmJob, SlurmStep
from relance.slurm.running import Commands

BYTES = 4096
JOB = JobView(
    raw_id="17",
    first_submitted_at=datetime(2026, 3, 1, tzinfo=UTC),
    submitted_at=datetime(2026, 3, 1, tzinfo=UTC),
    restart_count=0,
    name="llm",
    user="ada",
    owner_uid=1000,
    partition="gpu",
    state=JobState.RUNNING,
    nodes=("n1", "n2"),
)


def local(folder: Path) -> LocalScheduler:
    return LocalScheduler(cluster="c", state_dir=folder, clock=SystemClock())


async def run(*argv: str, limit_s: float = 10.0, most_bytes: int = BYTES) -> tuple[int | None, bytes, bytes, str]:
    found = await collect(Commands(), Command(argv=argv), limit_s, most_bytes)
    return found.exit_code, found.stdout, found.stderr, found.gave_up


async def test_both_outputs_and_the_exit_code_come_back() -> None:
    assert await run("sh", "-c", "echo stacks; echo trouble >&2; exit 3") == (3, b"stacks\n", b"trouble\n", "")


async def test_the_simulated_scheduler_runs_it_on_this_host(tmp_path: Path) -> None:
    scheduler = local(tmp_path)
    found = await scheduler.collect(scheduler.evidence(("echo", "here")), 10, BYTES)
    assert (found.exit_code, found.stdout) == (0, b"here\n")
    await scheduler.close()


async def test_at_its_limit_everything_that_it_started_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"sleep 300 & echo $! > {file}; echo so far; wait"
    code, out, _, why = await run("sh", "-c", script, limit_s=0.5)
    assert (code, out, why) == (None, b"so far\n", "no answer within 0.5 s")
    assert gone(int(file.read_text()))


async def test_a_flood_of_output_is_cut_off_with_its_beginning_kept() -> None:
    code, out, _, why = await run("sh", "-c", "yes stack", most_bytes=100_000)
    assert code is None
    assert out.startswith(b"stack\n")
    assert len(out) <= 100_000
    assert "more than 100000 bytes" in why


async def test_a_program_that_is_not_there_is_told_and_raises_nothing() -> None:
    code, out, _, why = await run("/no/such/program")
    assert (code, out) == (None, b"")
    assert "Cannot start /no/such/program" in why


async def test_when_the_controller_ends_the_command_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    task = asyncio.create_task(run("sh", "-c", f"echo $$ > {file}; exec sleep 300"))
    while not file.exists() or not file.read_text().strip():
        assert not task.done()
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(int(file.read_text()))


def test_its_limit_holds_although_the_controller_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    plan = EvidencePlan(command=("sh", "-c", f"echo $$ > {file}; exec sleep 300", "{job_id}"), limit_s=3)
    (command,) = evidence_effect(plan, JOB, JOB.nodes, local(tmp_path)).commands
    code = (
        "import asyncio; from relance.controllers.site_commands import *;"
        f"asyncio.run(collect(Commands(), Command(argv={command.argv!r}), 20, 4096))"
    )
    controller = subprocess.Popen([sys.executable, "-c", code])
    try:
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip():
            assert controller.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        controller.kill()
        controller.wait()
    assert gone(int(file.read_text()), within_s=60)  # its own limit, and not the 300 s that it would sleep


async def test_it_gets_little_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELANCE_TOKEN", "secret")
    _, out, _, _ = await run("env")
    assert b"secret" not in out


def gone(pid: int, within_s: float = 30) -> bool:
    """Whether a process ends soon; a zombie has ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("argv", "marked"),
    [
        (("srun", "--overlap", "x"), ("srun", f"--job-name={EVIDENCE_STEP}", "--overlap", "x")),
        (("sudo", "/opt/bin/srun", "x"), ("sudo", "/opt/bin/srun", f"--job-name={EVIDENCE_STEP}", "x")),
        (("srun", "--job-name=mine", "x"), ("srun", "--job-name=mine", "x")),
        (("srun", "-J", "mine", "x"), ("srun", "-J", "mine", "x")),
        (("/opt/site/evidence.sh", "17"), ("/opt/site/evidence.sh", "17")),
    ],
)
def test_a_step_that_the_command_starts_bears_our_name(argv: tuple[str, ...], marked: tuple[str, ...]) -> None:
    assert marked_step(argv, EVIDENCE_STEP) == marked


def test_our_step_is_nobody_at_work_and_any_other_of_its_kind_is_somebody() -> None:
    job = SlurmJob(job_id=12, name="llm", uid=1001, user="ada", states=("RUNNING",), nodes=("n1", "n2"))
    train = SlurmStep(job_id="12", step_id="0", name="python", user="ada", started_at=0, nodes=("n1", "n2"))
    ours = SlurmStep(job_id="12", step_id="1", name=EVIDENCE_STEP, user="root", started_at=900, nodes=("n1",))
    theirs = SlurmStep(job_id="12", step_id="1", name="py-spy", user="ada", started_at=900, nodes=("n1",))
    assert somebody_at_work(job, (train, ours)) is None
    assert somebody_at_work(job, (train, theirs)) == "step 1 of ada is py-spy"


def test_a_step_of_ours_that_was_cancelled_at_its_limit_is_nobody_s_decision() -> None:
    train = AccountedStep(job_id=12, step_id="0", name="python", state="RUNNING")
    ours = AccountedStep(job_id=12, step_id="1", name=EVIDENCE_STEP, state="CANCELLED", cancelled_by=1001)
    assert [view.name for view in step_views((train, ours))] == ["0"]
