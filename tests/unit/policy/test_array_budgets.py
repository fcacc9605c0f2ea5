"""One decision for an array and a cause; and a job near the end of its wall time is not started again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.faults import Remedy
from relance.policy import decide
from tests.unit.policy.questions import ENDED, FIRST, at, question, with_

ASKED = with_(question(), record__array="16", fleet__array_tasks=20)


@pytest.mark.parametrize(
    ("others", "known", "action"),
    [
        pytest.param(0, 20, Remedy.RESTART_EXCLUDING, id="the first"),
        pytest.param(3, 20, Remedy.RESTART_EXCLUDING, id="a fifth is not more than a fifth"),
        pytest.param(4, 20, Remedy.STOP, id="more than a fifth"),
        pytest.param(1, 4, Remedy.RESTART_EXCLUDING, id="half, but two tasks only"),
        pytest.param(2, 0, Remedy.STOP, id="the others are not shown any more"),
    ],
)
def test_what_fails_alike_in_many_tasks_is_not_restarted_in_any(others: int, known: int, action: Remedy) -> None:
    advice = decide(with_(ASKED, fleet__array_failures={"fp-1": others, "fp-2": 9}, fleet__array_tasks=known))
    assert advice.action is action
    assert any("failed in the same way" in reason for reason in advice.reasons) is (action is Remedy.STOP)


def test_a_job_that_is_no_task_is_not_counted() -> None:
    assert decide(with_(question(), fleet__array_failures={"fp-1": 9})).action.restarts


@pytest.mark.parametrize(
    ("ran_s", "restarts"), [pytest.param(10_300, True, id="some left"), pytest.param(10_500, False, id="too little")]
)
def test_a_job_near_the_end_of_its_wall_time_is_not_started_again(ran_s: int, restarts: bool) -> None:
    first = question().record.attempt(FIRST)
    assert first is not None
    began = replace(first, started_at=at(3600 - ran_s))
    advice = decide(
        with_(question(), record__attempts=(began,), job__started_at=at(3600 - ran_s), job__time_limit_s=3600.0)
    )
    assert began.ended_at == ENDED
    assert advice.action.restarts is restarts, advice.reasons
