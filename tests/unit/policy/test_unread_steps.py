"""Accounting that was not read: a step that a person cancelled cannot be ruled out, so nothing is decided for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.advice import Answer
from relance.domain.stages import EndRunning
from relance.domain.views import JobState
from relance.policy import decide
from tests.unit.policy.questions import REQUEUED, STEPPING, at, guard, question, running, with_

DEAD_RANK = with_(
    running(question()),
    verdict__proof=EndRunning.DEAD_RANK,
    verdict__proof_at=at(3610),
    progress=replace(STEPPING, step_at=at(3612), as_of=at(3690)),
)


def test_a_running_attempt_is_not_ended() -> None:
    assert decide(DEAD_RANK).may_begin
    held = decide(with_(DEAD_RANK, job__steps=None))
    assert (guard(held, "nobody_decided").answer, held.hold, held.may_begin) == (Answer.UNKNOWN, True, False)
    assert "a cancelled step cannot be ruled out" in guard(held, "nobody_decided").reason


@pytest.mark.parametrize("state", [state for state in JobState if state.is_failure])
def test_a_failed_attempt_is_not_restarted(state: JobState) -> None:
    held = decide(with_(question(), job__state=state, job__steps=None))
    assert (guard(held, "nobody_decided").answer, held.may_begin) == (Answer.UNKNOWN, False)


def test_an_attempt_that_has_not_begun_has_no_steps_to_be_read() -> None:
    advice = decide(with_(question(), job=replace(REQUEUED, steps=None)))
    assert guard(advice, "nobody_decided").answer is Answer.YES
