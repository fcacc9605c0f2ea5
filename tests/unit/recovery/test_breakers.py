"""A circuit breaker: three errors in a row, a pause that doubles, one question that tries."""

from __future__ import annotations

from relance.recovery.breakers import FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker, BreakerState
from relance.testing.manual_clocks import ManualClock


def opened(clock: ManualClock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(3):
        assert breaker.admits()
        breaker.failed()
    return breaker


def test_three_errors_in_a_row_open_it() -> None:
    breaker = opened(ManualClock())
    assert (breaker.state, breaker.left_alone_s, breaker.admits()) == (BreakerState.OPEN, FIRST_PAUSE_S, False)


def test_an_answer_between_errors_keeps_it_closed() -> None:
    breaker = Breaker(ManualClock())
    for _ in range(5):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED


def test_after_the_pause_one_question_tries_and_its_answer_closes_it() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(FIRST_PAUSE_S - 0.1)
    assert not breaker.admits()
    clock.advance(0.1)
    assert (breaker.admits(), breaker.state, breaker.admits()) == (True, BreakerState.PROBING, False)
    breaker.succeeded()
    assert (breaker.state, breaker.admits(), breaker.admits()) == (BreakerState.CLOSED, True, True)


def test_each_try_that_fails_doubles_the_pause_up_to_half_an_hour() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    pauses = []
    for _ in range(8):
        pauses.append(breaker.left_alone_s)
        clock.advance(breaker.left_alone_s)
        assert breaker.admits()
        breaker.failed()
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, LONGEST_PAUSE_S]
    clock.advance(LONGEST_PAUSE_S)
    assert breaker.admits()
    breaker.succeeded()
    for _ in range(3):
        breaker.failed()
    assert breaker.left_alone_s == FIRST_PAUSE_S


def test_errors_of_questions_that_were_on_their_way_lengthen_nothing() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(30)
    breaker.failed()
    assert breaker.left_alone_s == 30


def test_a_try_that_is_taken_back_lets_another_try() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(FIRST_PAUSE_S)
    assert breaker.admits()
    breaker.withdrawn()
    assert breaker.admits()
