"""Slow and diverging attempts go on: their incident ends when what was told is over, not with the next step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.findings import Finding, FindingKind
from relance.domain.progress import Progress
from relance.recovery.intake import finding_events
from relance.recovery.verify import verification
from tests.unit.recovery.situations import RUNNING, at, crash, evidence, folded, seen, with_incident

STEPPING = Progress(
    as_of=at(200), first_step=1, step=90, step_at=at(199), highest_step=90, steps_seen=90, median_step_s=1.0
)


def told(kind: FindingKind, *, over: bool = False) -> Finding:
    return replace(crash(), id=f"{kind.value}-{over}", kind=kind, symptom=kind.value, signs=frozenset(), over=over)


@pytest.mark.parametrize("kind", [FindingKind.SLOWDOWN, FindingKind.DIVERGENCE])
def test_steps_that_go_on_end_no_such_incident_and_the_word_that_it_is_over_does(kind: FindingKind) -> None:
    record = with_incident(seen(RUNNING), told(kind))
    given = replace(evidence(record, RUNNING, at(200), first=STEPPING), kinds=frozenset({kind}))
    assert verification(given) == ()
    (event,) = verification(replace(given, over=frozenset({kind})))
    assert isinstance(event, e.IncidentClosed)
    assert event.end is e.IncidentEnd.RECOVERED


def test_of_two_such_both_have_to_be_over() -> None:
    kinds = frozenset({FindingKind.SLOWDOWN, FindingKind.DIVERGENCE})
    record = with_incident(seen(RUNNING), told(FindingKind.SLOWDOWN))
    given = replace(evidence(record, RUNNING, at(200), first=STEPPING), kinds=kinds)
    assert verification(replace(given, over=frozenset({FindingKind.SLOWDOWN}))) == ()
    assert verification(replace(given, over=kinds)) != ()


def test_beside_a_suspicion_of_another_kind_steps_that_go_on_end_it_as_ever() -> None:
    record = with_incident(seen(RUNNING), told(FindingKind.SLOWDOWN))
    kinds = frozenset({FindingKind.SLOWDOWN, FindingKind.HANG})
    assert verification(replace(evidence(record, RUNNING, at(200), first=STEPPING), kinds=kinds)) != ()


def test_the_word_that_something_is_over_opens_no_incident_and_joins_an_open_one() -> None:
    over = told(FindingKind.SLOWDOWN, over=True)
    record = seen(RUNNING)
    alone = folded(finding_events(record, (over,), at(150)), record)
    assert alone.incidents == ()
    record = with_incident(seen(RUNNING), told(FindingKind.SLOWDOWN))
    joined = folded(finding_events(record, (over,), at(150)), record)
    assert joined.incidents[-1].findings == ("slowdown-False", "slowdown-True")
