"""Reservations and maintenance ahead: said with the choices, and never held against a node."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from relance.domain.advice import Answer
from relance.domain.faults import Remedy
from relance.domain.views import Window
from relance.policy import decide
from tests.unit.policy.questions import NODES, NOW, WEAK, at, guard, question, with_

ASKED = question()
EXACT = Window(name="exact", starts_at=at(0), ends_at=at(90_000), nodes=("n1", "n2", "n3", "n4"))
UPGRADE = Window(
    name="upgrade",
    starts_at=NOW + timedelta(hours=2),
    ends_at=NOW + timedelta(hours=6),
    nodes=NODES,
    is_maintenance=True,
)


def test_a_maintenance_within_the_time_limit_is_said_with_the_limit_that_fits_and_the_job_goes_into_the_queue() -> None:
    advice = decide(with_(ASKED, fleet__windows=(UPGRADE,), job__time_limit_s=86400.0))
    assert (advice.action, advice.exclude, advice.hold) == (Remedy.RESTART_EXCLUDING, ("n2",), False)
    assert any("maintenance upgrade begins" in text and "TimeLimit=119" in text for text in advice.reasons)
    assert "at most 119 min" in guard(advice, "enough_nodes").reason


def test_in_a_reservation_of_exactly_its_size_weak_evidence_gives_way() -> None:
    weak = (replace(WEAK, before=(at(-86400),)),)
    advice = decide(with_(ASKED, fleet__windows=(EXACT,), job__reservation="exact", verdict__suspects=weak))
    assert (advice.action, advice.exclude, advice.may_begin) == (Remedy.RESTART, (), True)
    assert any("too few nodes would remain" in reason for reason in advice.reasons)


def test_in_a_reservation_of_exactly_its_size_hard_evidence_asks_a_person() -> None:
    advice = decide(with_(ASKED, fleet__windows=(EXACT,), job__reservation="exact"))
    told = guard(advice, "enough_nodes")
    assert (told.answer, advice.park) == (Answer.NO, True)
    assert "in reservation exact without n2; a person has to choose" in told.reason
