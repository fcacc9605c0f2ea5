"""What is parked, until when, and what waits for its turn instead."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from relance.domain.advice import ActionKind, Advice, Answer, Effect
from relance.domain.faults import Remedy
from relance.domain.incidents import Action, IncidentState
from relance.domain.quiet_hours import Quiet
from relance.domain.stages import EndRunning
from relance.policy import Question, decide
from tests.unit.policy.questions import (
    NO_PROGRESS,
    REQUEUED,
    STEPPING,
    at,
    guard,
    question,
    restarted,
    running,
    with_,
)

ASKED = question()
PROVEN = with_(
    running(ASKED),
    verdict__proof=EndRunning.DEAD_RANK,
    verdict__proof_at=at(3610),
    progress=replace(STEPPING, step_at=at(3612), as_of=at(3690)),
)


def _parked_before(until: datetime) -> Question:
    """A job that we parked until a time, as the scheduler shows it."""
    asked = with_(ASKED, job=replace(REQUEUED, eligible_at=until))
    effect = Effect(summary="park", commands=(), digest="d")
    action = Action(
        id="act", advice_id="adv", generation=1, kind=ActionKind.PARK, effect=effect, holder="c", stage="act",
        started_at=at(3650), parks=True, end="ActionSucceeded",
    )  # fmt: skip
    advice = replace(decide(asked), park=True, park_until=until)
    incident = replace(asked.incident, state=IncidentState.SETTLED, advice=advice, action=action)
    return replace(asked, incident=incident)


def decided(**changes: Any) -> Advice:  # noqa: ANN401 - any field of a question
    return decide(with_(ASKED, **changes))


def test_a_pause_beyond_the_schedulers_memory_is_waited_for_in_the_queue() -> None:
    pause = replace(ASKED.limits.restarts, backoff_first_s=250.0)
    asked = with_(
        ASKED, verdict__remedy=Remedy.RESTART, verdict__suspects=(), earlier=(restarted(0),), progress=NO_PROGRESS,
        now=at(3616), fleet__as_of=at(3616), limits__restarts=pause,
    )  # fmt: skip
    advice = decide(asked)
    assert (advice.park, advice.hold, advice.park_until) == (True, False, at(3616 + 1800))
    assert decide(with_(asked, limits__restarts=replace(pause, backoff_first_s=150.0))).hold


WAITS: dict[str, tuple[int, bool]] = {
    "its turn comes soon": (3, False),
    "its turn comes too late": (30, True),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_job_whose_turn_comes_when_the_scheduler_has_forgotten_it_is_parked(name: str) -> None:
    ahead, parked = WAITS[name]
    advice = decided(
        fleet__permit_free_at=at(3625), fleet__restarts_ahead=ahead, now=at(3616), fleet__as_of=at(3616)
    )  # fmt: skip
    assert (advice.park, advice.hold) == (parked, not parked)


def test_as_many_recoveries_as_there_may_be_hold_the_next_and_park_it_in_time() -> None:
    full: dict[str, Any] = {"fleet__recoveries": 16}
    early = decided(**full, now=at(3616), fleet__as_of=at(3616))
    assert (early.hold, guard(early, "permit_free").answer) == (True, Answer.NO)
    assert "16 of at most 16" in guard(early, "permit_free").reason
    late = decided(**full, now=at(3815), fleet__as_of=at(3815))
    assert (late.park, late.hold) == (True, False)


QUIET = Quiet(until=at(40_000), words="quiet hours until 2026-05-02 22:06 UTC")


def test_in_quiet_hours_an_ended_job_is_parked_beyond_their_end_however_long_they_are() -> None:
    advice = decided(fleet__quiet=QUIET)
    assert (advice.park, advice.hold, advice.park_until) == (True, False, at(40_000 + 1800))
    assert guard(advice, "no_quiet_hours").ask_again_at == QUIET.until


def test_in_quiet_hours_what_still_runs_is_left_alone() -> None:
    advice = decide(with_(PROVEN, fleet__quiet=QUIET))
    assert (advice.ends_running, advice.hold, advice.park) == (EndRunning.DEAD_RANK, True, False)
    assert not decide(PROVEN).hold


def test_a_job_that_waits_parked_is_decided_on_again_when_the_quiet_hours_end() -> None:
    waits = _parked_before(at(40_000 + 1800))
    meanwhile = decide(with_(waits, fleet__quiet=QUIET))
    assert (meanwhile.hold, meanwhile.park, meanwhile.decide_again_at) == (True, False, QUIET.until)
    assert decide(waits).may_begin


def test_a_job_parked_for_less_than_the_quiet_hours_is_renewed_to_their_end() -> None:
    advice = decide(with_(_parked_before(at(3900)), fleet__quiet=QUIET))
    assert (advice.park, advice.park_until) == (True, at(40_000 + 1800))
