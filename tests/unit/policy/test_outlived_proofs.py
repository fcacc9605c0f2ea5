"""What a job has gone on after is no proof that it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.collecting import Silence
from relance.domain.faults import Remedy
from relance.domain.findings import Certainty
from relance.domain.stages import EndRunning
from relance.policy import Question, decide
from tests.unit.policy.questions import STEPPING, at, question, running, with_


def proven(kind: EndRunning, *, proof_s: float, step_s: float, seen_up_to_s: float) -> Question:
    """A running attempt, proven dead or stuck at one time, whose last step was at another."""
    return with_(
        running(question()),
        verdict__proof=kind,
        verdict__proof_at=at(proof_s),
        progress=replace(STEPPING, step_at=at(step_s), as_of=at(seen_up_to_s)),
        now=at(seen_up_to_s),
    )


def ends(asked: Question) -> EndRunning | None:
    fresh = replace(asked, fleet=replace(asked.fleet, as_of=asked.now))
    advice = decide(fresh)
    assert advice.ends_running is not None or advice.action is Remedy.WAIT
    return advice.ends_running


@pytest.mark.parametrize("kind", [EndRunning.DEAD_RANK, EndRunning.NODE_LOST])
@pytest.mark.parametrize(("lived_s", "ended"), [(-30, True), (0, True), (55, True), (65, False), (36_000, False)])
def test_a_death_that_steps_followed_for_long_ends_nothing_in_a_later_pause(
    kind: EndRunning, lived_s: float, ended: bool
) -> None:
    asked = proven(kind, proof_s=3600, step_s=3600 + lived_s, seen_up_to_s=3600 + max(lived_s, 0) + 200)

    assert ends(asked) is (kind if ended else None)


def confirmed(steps: int | None) -> Question:
    """A hang that was confirmed after so many steps, of a job whose clock is behind."""
    asked = proven(EndRunning.HANG, proof_s=3600, step_s=3570, seen_up_to_s=3610)
    attempt = asked.incident.attempt
    told = Silence(
        finding_id="f", attempt=attempt, certainty=Certainty.CONFIRMED, symptom_at=at(3300), steps_seen=steps
    )
    return replace(asked, record=replace(asked.record, silences=(told,)))


@pytest.mark.parametrize(
    ("before", "ended"), [(STEPPING.steps_seen, True), (STEPPING.steps_seen - 1, False), (None, True)]
)
def test_a_hang_is_over_once_steps_are_counted_whatever_their_lines_say_of_the_time(
    before: int | None, ended: bool
) -> None:
    assert ends(confirmed(before)) is (EndRunning.HANG if ended else None)
