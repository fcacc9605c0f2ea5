"""What runs is not ended on what its logs said long ago."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.advice import Answer
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.limits import Limits
from relance.domain.stages import EndRunning
from relance.policy import Question, decide
from tests.unit.policy.questions import STEPPING, at, question, running, with_

MOST = timedelta(seconds=Limits().logs_max_age_s)


def proven(kind: EndRunning, seen_up_to_s: float) -> Question:
    """A running attempt, proven dead or stuck, of which nothing was read after a time."""
    return with_(
        running(question()),
        verdict__proof=kind,
        verdict__proof_at=at(3598),
        progress=replace(STEPPING, step_at=at(3590), as_of=at(seen_up_to_s)),
    )


@pytest.mark.parametrize("kind", EndRunning)
def test_proof_ends_what_runs_only_while_its_logs_are_read(kind: EndRunning) -> None:
    asked = proven(kind, seen_up_to_s=3695)
    assert decide(asked).ends_running is kind
    later = at(3695) + MOST + timedelta(seconds=1)
    unread = decide(replace(asked, now=later, fleet=replace(asked.fleet, as_of=later)))
    assert (unread.action, unread.ends_running, unread.may_begin) == (Remedy.WAIT, None, False)
    guard = next(guard for guard in unread.guards if guard.name == "attempt_over")
    assert (guard.answer, guard.reason) == (
        Answer.UNKNOWN, "its logs were last read to their end 91 s ago: it may have gone on since",
    )  # fmt: skip


def test_a_person_s_decision_that_only_exit_codes_suggest_waits_for_the_logs() -> None:
    asked = with_(
        question(),
        verdict=replace(question().verdict, domain=FaultDomain.USER, remedy=Remedy.NONE, suspects=()),
        limits=Limits(settle_s=0.0),
    )
    unread = decide(with_(asked, read_to=at(3500), now=at(3601)))
    read = decide(with_(asked, read_to=at(3601), now=at(3602)))
    assert (unread.action, unread.hold) == (Remedy.NONE, True)
    assert (read.action, read.hold) == (Remedy.NONE, False)


@pytest.mark.parametrize(("waited_s", "holds"), [(6.0, True), (100.0, True), (239.0, True), (241.0, False)])
def test_it_waits_for_them_for_as_long_as_a_restart_is_possible(waited_s: float, *, holds: bool) -> None:
    """A watcher that is away for a minute: the line of the death is read when it is back."""
    asked = with_(
        question(),
        verdict=replace(question().verdict, domain=FaultDomain.USER, remedy=Remedy.NONE, suspects=()),
        limits=Limits(settle_s=0.0),
        incident__opened_at=at(3600),
    )
    ended = asked.fleet.job.ended_at if asked.fleet.job is not None else None
    assert ended is not None
    now = ended + timedelta(seconds=waited_s)
    unread = decide(replace(asked, now=now, read_to=at(0), fleet=replace(asked.fleet, as_of=now)))
    assert (unread.action, unread.hold) == (Remedy.NONE, holds)


def test_a_person_s_decision_in_the_scheduler_s_books_waits_for_nothing() -> None:
    asked = question()
    job = replace(asked.fleet.job, cancelled_by=1000) if asked.fleet.job is not None else None
    advice = decide(with_(asked, read_to=at(3500), now=at(3601), fleet=replace(asked.fleet, job=job)))
    assert (advice.action, advice.hold) == (Remedy.NONE, False)


def test_an_end_that_is_heard_of_late_leaves_as_much_time_to_read_the_logs() -> None:
    asked = with_(question(), limits=Limits(settle_s=0.0), incident__opened_at=at(4000), verdict__last_root_at=None)
    unread = decide(with_(asked, read_to=at(0), now=at(4001), fleet=replace(asked.fleet, as_of=at(4001))))
    waited = decide(with_(asked, read_to=at(0), now=at(4006), fleet=replace(asked.fleet, as_of=at(4006))))
    assert (unread.hold, waited.hold) == (True, False)
