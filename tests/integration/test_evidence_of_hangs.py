"""Relance's own processes, from a rank that stands still to stacks that confirm the hang and a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.rigs import PARTITION, Rig, Setup, rig, until
from relance.domain.stages import EndRunning, Stage
from relance.recovery.rows import HistoryRow
from relance.testing.backend_contract_evidence import STACKS
from relance.testing.clusters import Training

RANKS = 8
LIMITS = {
    "settle_s": 0,
    "grace_after_boot_s": 0,
    "hang": {
        "suspected_min_s": 4, "lasting_min_s": 5, "lasting_times": 1, "signed_min_s": 8, "signed_medians": 3,
        "gpu_min_s": 12,  # a rank that loads data is what a healthy pause shows, too
    },
}  # fmt: skip
WITHIN_S = 90.0


def setup(file: Path, *, collect: bool) -> Setup:
    """A cluster whose command for evidence prints a file, in place of stacks of ranks that do no Python."""
    command = ["sh", "-c", f"echo job {{job_id}} on {{nodes}} >&2; cat {file}"]
    return Setup(
        cluster={"nodes": 5, "kill_wait_s": 1.0},
        site={"limits": LIMITS, "evidence": {"command": command, "collect": collect}, "poll_s": 1.0},
        stage=Stage.ACT,
        end_running=frozenset({EndRunning.HANG}),
    )


def hung_job(made: Rig) -> int:
    """A training of eight ranks, the fifth of which is stopped."""
    job = made.cluster.submit(Training(name="llama", partition=PARTITION, steps=400, step_s=0.2))
    made.wait_for_step(job, 25)
    made.cluster.stop_rank(job, 5)
    return job


def rows(made: Rig, job: int, event: str) -> list[HistoryRow]:
    return [row for row in made.client.job_history(str(job)) if row.event == event]


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    file = tmp_path / "stacks"
    file.write_bytes(STACKS)
    return file


@pytest.mark.timeout(240)
def test_collected_stacks_confirm_a_hang_that_nothing_else_would(stacks: Path) -> None:
    with rig(setup(stacks, collect=True)) as made:
        job = hung_job(made)
        (collected,) = until(lambda: rows(made, job, "EvidenceCollected"), WITHIN_S, "evidence")
        assert "Rank 5 is loading data" in collected.detail
        until(lambda: rows(made, job, "ActionStarted"), WITHIN_S, "a restart")
        before = [row.event for row in made.client.job_history(str(job))]
        assert before.index("EvidenceCollected") < before.index("ActionStarted")
        assert len(rows(made, job, "EvidenceStarted")) == 1
        until(lambda: rows(made, job, "ProgressResumed"), WITHIN_S, "the next attempt")


@pytest.mark.timeout(240)
def test_switched_off_the_command_is_told_and_the_hang_is_only_suspected(stacks: Path) -> None:
    with rig(setup(stacks, collect=False)) as made:
        job = hung_job(made)
        (shown,) = until(lambda: rows(made, job, "EvidencePrepared"), WITHIN_S, "what would be run")
        assert "the site has not switched it on" in shown.detail
        story = made.story(job)
        assert story is not None
        (note,) = [note for note in story.notes if "evidence" in note]
        assert note == "evidence of the hang could be collected: the site has not switched it on"
        assert rows(made, job, "EvidenceStarted") == []


@pytest.mark.timeout(240)
def test_a_controller_that_is_killed_while_it_collects_tells_of_it_and_runs_nothing_again(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    slow = replace(setup(tmp_path / "none", collect=True), apart=True)
    command = ["sh", "-c", f"echo {{job_id}} >> {marks}; sleep 12; echo late >> {marks}"]
    slow = replace(slow, site={**slow.site, "evidence": {"command": command, "collect": True, "limit_s": 20}})
    with rig(slow) as made:
        job = hung_job(made)
        until(marks.exists, WITHIN_S, "the command")
        made.relance.role("controller").kill()
        made.relance.start_role("controller")
        (failed,) = until(lambda: rows(made, job, "EvidenceFailed"), WITHIN_S, "the end of it")
        assert "it is not run again" in failed.detail
        assert len([line for line in marks.read_text().splitlines() if line == str(job)]) == 1
