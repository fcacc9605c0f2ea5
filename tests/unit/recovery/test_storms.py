"""After a storm one canary goes first; the history tells which, and whether it has stepped."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from relance.domain.advice import ActionKind, Effect
from relance.domain.clocks import Milestones
from relance.domain.events import IncidentEnd
from relance.domain.fleet import Storm
from relance.domain.incidents import Action, Incident, IncidentState
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import StormLimits
from relance.ports.histories import IncidentRow
from relance.recovery.storms import is_after_storm, with_canary
from tests.unit.recovery.situations import AT, at

STORM = Storm(storm_id="s", reason="file system", opened_at=at(0), cleared_at=at(100))


def _row(number: int, began: datetime, kind: ActionKind = ActionKind.CONSTRAIN, *, parks: bool = False) -> IncidentRow:
    job = JobKey(cluster="alpha", raw_id=str(number), submitted_at=AT)
    incident = Incident(
        id=f"inc-{number}",
        attempt=AttemptKey(job=job, restart_count=0),
        state=IncidentState.ACTING,
        opened_at=at(1),
        times=Milestones(),
        findings=(),
        action=Action(
            id="a", advice_id="v", generation=1, kind=kind, effect=Effect(summary="", commands=(), digest=""),
            holder="h", stage="act", started_at=began, parks=parks,
        ),
    )  # fmt: skip
    return IncidentRow(job=job, name="n", user="u", partition="p", workflow="w", incident=incident)


def _with(row: IncidentRow, **changes: object) -> IncidentRow:
    return replace(row, incident=replace(row.incident, **changes))  # type: ignore[arg-type]


NOW = at(200)
FIRST, SECOND = _row(1, at(101)), _row(2, at(107))


def test_before_anything_is_let_go_there_is_no_canary() -> None:
    parked = (_row(1, at(50), ActionKind.PARK, parks=True), _row(2, at(120), parks=True), _row(3, at(20)))
    assert with_canary(STORM, parked, NOW).canary is None


def test_the_first_that_is_let_go_is_the_canary_until_it_steps() -> None:
    storm = with_canary(STORM, (SECOND, FIRST), NOW)
    assert (storm.canary, storm.canary_stepped) == (str(FIRST.incident.attempt), False)
    assert with_canary(STORM, (SECOND, _with(FIRST, resumed_step=41)), NOW).canary_stepped


@pytest.mark.parametrize("end", [IncidentEnd.RECOVERED, IncidentEnd.RUNNING_UNPROVEN, IncidentEnd.JOB_ENDED])
def test_a_canary_that_ended_well_has_proved_the_way(end: IncidentEnd) -> None:
    assert with_canary(STORM, (_with(FIRST, state=IncidentState.CLOSED, end=end),), NOW).canary_stepped


def test_a_canary_that_came_to_nothing_gives_its_place_to_the_next() -> None:
    failed = _with(FIRST, state=IncidentState.CLOSED, end=IncidentEnd.RELAPSED)
    assert with_canary(STORM, (failed,), NOW).canary is None
    assert with_canary(STORM, (failed, SECOND), NOW).canary == str(SECOND.incident.attempt)


def test_after_a_canary_that_came_to_nothing_the_next_waits_a_minute() -> None:
    failed = _with(FIRST, state=IncidentState.CLOSED, end=IncidentEnd.RELAPSED)
    assert with_canary(STORM, (failed,), at(101 + 59)).canary == str(FIRST.incident.attempt)
    assert with_canary(STORM, (failed,), at(101 + 60)).canary is None


def test_the_slow_rate_lasts_for_a_while_only() -> None:
    limits = StormLimits()
    assert is_after_storm(STORM, limits, at(100 + limits.after_storm_s - 1))
    assert not is_after_storm(STORM, limits, at(100 + limits.after_storm_s))
    assert not is_after_storm(replace(STORM, cleared_at=None), limits, at(200))
