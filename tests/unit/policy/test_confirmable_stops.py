"""A stop that one try may confirm: started again once, stopped the second time, and no living attempt for it."""

from __future__ import annotations

from typing import Any

import pytest

from relance.domain.advice import Advice
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.stages import EndRunning
from relance.policy import decide
from tests.unit.policy.questions import NO_PROGRESS, at, question, restarted, running, with_

ASKED = with_(
    question(),
    verdict__domain=FaultDomain.APPLICATION,
    verdict__cause="python_exception",
    verdict__remedy=Remedy.STOP,
    verdict__suspects=(),
    verdict__confirmable=True,
    verdict__restart_limit_without_progress=1,
)


def decided(**changes: Any) -> Advice:  # noqa: ANN401 - any field of a question
    return decide(with_(ASKED, **changes))


def test_it_is_started_again_once_and_the_advice_says_why() -> None:
    advice = decided()
    assert (advice.action, advice.exclude) == (Remedy.RESTART, ())
    assert any("confirms it" in reason for reason in advice.reasons)


def test_a_stop_that_is_certain_is_one_at_once() -> None:
    assert decided(verdict__confirmable=False).action is Remedy.STOP


def test_the_second_time_without_progress_it_is_stopped() -> None:
    again = decided(earlier=(restarted(0),), progress=NO_PROGRESS)
    assert again.action is Remedy.STOP
    assert any("no restart" in reason for reason in again.reasons)


def test_a_job_that_may_not_be_requeued_is_not_tried_either() -> None:
    assert decided(job__requeue_allowed=False).action is Remedy.STOP


def test_a_living_attempt_is_left_alone_while_nothing_proves_that_it_cannot_go_on() -> None:
    advice = decide(with_(running(ASKED), verdict__proven_death=False))
    assert (advice.action, advice.ends_running) == (Remedy.WAIT, None)


@pytest.mark.parametrize("may_cancel", [False, True], ids=["stops cancel nothing", "stops cancel what runs"])
def test_a_dead_one_is_tried_again_only_with_the_consent_to_end_it(may_cancel: bool) -> None:
    dead = with_(
        running(ASKED), verdict__proof=EndRunning.DEAD_RANK, verdict__proof_at=at(3500), progress__step_at=at(3400)
    )
    advice = decide(with_(dead, limits__stop_cancels_running=may_cancel))
    assert (advice.action, advice.ends_running) == (Remedy.RESTART, EndRunning.DEAD_RANK)
    certain = decide(with_(dead, limits__stop_cancels_running=may_cancel, verdict__confirmable=False))
    assert certain.action is (Remedy.STOP if may_cancel else Remedy.WAIT)
