"""Slurm counts the restart while the attempt that a requeue ends is still ending."""

from __future__ import annotations

from dataclasses import replace

from relance.controllers.slurm.queues import still_ending
from relance.slurm.records import SlurmJob

RUNNING = SlurmJob(
    job_id=17, name="train", uid=1000, states=("RUNNING",), submitted_at=100, started_at=110, restart_count=0
)
ENDING = replace(RUNNING, states=("COMPLETING",), started_at=200, restart_count=1)
NEXT_ENDING = replace(ENDING, submitted_at=200, started_at=203)


def test_a_requeued_job_that_completes_is_the_attempt_that_ends() -> None:
    seen = still_ending(ENDING, RUNNING)
    assert (seen.restart_count, seen.started_at, seen.states) == (0, 110, ("COMPLETING",))


def test_it_stays_so_for_as_long_as_it_completes() -> None:
    assert still_ending(ENDING, still_ending(ENDING, RUNNING)).restart_count == 0


def test_the_next_attempt_that_completes_has_a_submit_time_of_its_own() -> None:
    assert still_ending(NEXT_ENDING, RUNNING) == NEXT_ENDING


def test_pending_again_it_is_the_next_attempt() -> None:
    pending = replace(ENDING, states=("PENDING",), submitted_at=200)
    assert still_ending(pending, still_ending(ENDING, RUNNING)) == pending


def test_cancelled_while_it_completes_it_is_the_attempt_that_ended() -> None:
    cancelled = replace(ENDING, states=("CANCELLED",))
    for former in (RUNNING, still_ending(ENDING, RUNNING)):
        assert (still_ending(cancelled, former).restart_count, still_ending(cancelled, former).started_at) == (0, 110)
    assert still_ending(cancelled, still_ending(cancelled, RUNNING)).restart_count == 0


def test_cancelled_while_it_waits_it_is_the_next_attempt() -> None:
    pending = replace(ENDING, states=("PENDING",), submitted_at=200)
    cancelled = replace(pending, states=("CANCELLED",))
    assert still_ending(cancelled, pending) == cancelled
    assert still_ending(cancelled, RUNNING) == cancelled


def test_a_job_that_was_never_seen_is_taken_as_it_is_shown() -> None:
    assert still_ending(ENDING, None) == ENDING
