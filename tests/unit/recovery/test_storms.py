"""After a storm one canary goes first; the history tells which, and whether it has stepped."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from relance.domain.advice import ActionKind, Effect
from relance.domain.clocks import Milestones
from relance.domain.events import IncidentEnd
from relance.domain.faults import FaultDomain
from relance.domain.fleet import Storm, Whereabouts
from relance.domain.incidents import Action, Incident, IncidentState
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import StormLimits
from relance.ports.histories import IncidentRow
from relance.recovery.storms import file_systems_of, is_after_storm, members, storm_for, with_canary
from relance.testing import history_values as values
from tests.unit.recovery.situations import AT, at

STORM = Storm(storm_id="s", reason="file system", opened_at=at(0), cleared_at=at(100))
HIT = values.rule_hit(0)
VERDICT = replace(values.verdict_reached().verdict, evidence=(HIT,))
ADVICE = values.advice_issued().advice


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


LUSTRE = replace(STORM, storm_id="fs", cleared_at=None, file_system="/lustre")
GPU = replace(STORM, storm_id="gpu", cleared_at=None, partition="gpu")
WHOLE = replace(STORM, storm_id="all", cleared_at=None)


def _where(partitions: str = "gpu", file_systems: str = "") -> Whereabouts:
    return Whereabouts(partitions=frozenset(partitions.split()), file_systems=frozenset(file_systems.split()))


def test_a_storm_concerns_what_lies_in_its_place_alone() -> None:
    assert storm_for((GPU,), _where("gpu")) == GPU
    assert storm_for((GPU,), _where("cpu")) is None
    assert storm_for((GPU,), _where("cpu gpu")) == GPU
    assert storm_for((LUSTRE,), _where("gpu", "/home")) is None
    assert storm_for((LUSTRE, GPU), _where("cpu", "/home /lustre")) == LUSTRE
    assert storm_for((LUSTRE, WHOLE), _where("cpu", "/home")) == WHOLE


def test_one_that_is_open_goes_before_one_that_has_cleared() -> None:
    cleared = replace(GPU, storm_id="old", cleared_at=at(90))
    assert storm_for((cleared, WHOLE), _where("gpu")) == WHOLE
    newer = replace(WHOLE, storm_id="newer", cleared_at=at(95))
    assert storm_for((cleared, newer), _where("gpu")) == newer


def test_the_file_systems_of_a_failure_are_those_that_its_evidence_names_then_its_own() -> None:
    hit = replace(
        HIT, domain=FaultDomain.STORAGE, excerpt="OSError: [Errno 116] Stale file handle: '/lustre/proj/ckpt/1.pt'"
    )
    verdict = replace(VERDICT, domain=FaultDomain.STORAGE, evidence=(hit,))
    assert file_systems_of(verdict, ("/home/ada/run", ""), ()) == ("/lustre", "/home")
    assert file_systems_of(verdict, ("/home/ada/run",), ("/lustre/proj", "/home/ada")) == ("/lustre/proj", "/home/ada")
    other = replace(verdict, domain=FaultDomain.APPLICATION)
    assert file_systems_of(other, ("/home/ada/run",), ()) == ("/home",)


def test_the_jobs_of_a_storm_are_those_that_opened_it_that_it_holds_and_that_fail_in_its_place() -> None:
    limits = StormLimits()
    storm = replace(GPU, partition="p", opened_at=at(100), incidents=(FIRST.incident.id,))
    elsewhere = replace(SECOND, partition="cpu")
    assert members(storm, (FIRST, SECOND, elsewhere), limits) == (FIRST, SECOND)
    assert members(replace(storm, cleared_at=at(0)), (FIRST, SECOND), limits) == (FIRST,)
    held = _with(elsewhere, advice=replace(ADVICE, storm=storm.storm_id))
    assert members(storm, (held,), limits) == (held,)
    cancelled = _with(SECOND, verdict=replace(VERDICT, domain=FaultDomain.USER))
    assert members(storm, (cancelled,), limits) == ()
