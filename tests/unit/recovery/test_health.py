"""What lowers the stage by itself, and lifts it again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain import records
from relance.domain.faults import FaultDomain
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import JobKey
from relance.domain.limits import StormLimits
from relance.domain.observations import SightReport
from relance.domain.records import ClusterRecord
from relance.domain.stages import EffectiveStage, EndRunning, Stage, StageSetting, Standing, effective_stage
from relance.domain.verdicts import FleetSign
from relance.domain.views import Impairment, SchedulerFacts
from relance.recovery.health import Pulse, health_events, storm_events
from relance.recovery.sites import ClusterRules
from tests.unit.recovery.situations import AT, at

RULES = ClusterRules(cluster="alpha")
ACT = ClusterRecord(cluster="alpha", setting=StageSetting(stage=Stage.ACT, set_by="ada", set_at=AT))
RIGHTS = SchedulerFacts(release="25.11.7", may_act=True)


def _after(
    record: ClusterRecord, facts: SchedulerFacts | None, sights: SightReport | None = None
) -> tuple[ClusterRecord, tuple[e.ClusterEvent, ...]]:
    pulse = Pulse(started_at=AT, reported_at=at(9), watched_at=at(9), followed=0, facts=facts, sights=sights)
    events = health_events(record, pulse, RULES, at(10))
    result: records.Record = record
    for event in events:
        result = records.apply(result, event)
    assert isinstance(result, ClusterRecord)
    return result, events


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(replace(RIGHTS, may_act=False), "may not act on other users' jobs", id="no right"),
        pytest.param(replace(RIGHTS, lacks=("MinJobAge is 10 s; set 300",)), "MinJobAge", id="a setting is missing"),
    ],
)
def test_a_missing_right_caps_the_stage_while_it_lasts(facts: SchedulerFacts, words: str) -> None:
    capped, _ = _after(ACT, facts)
    assert [(cap.name, cap.stage) for cap in capped.caps] == [("rights", Stage.OBSERVE)]
    assert words in capped.caps[0].reason
    assert _after(capped, facts)[1] == ()
    assert _after(capped, None)[1] == ()  # a server that has just started knows nothing yet
    lifted, _ = _after(capped, RIGHTS)
    assert lifted.caps == ()
    assert lifted.setting == ACT.setting


def test_another_missing_right_is_said_and_the_cap_keeps_its_age() -> None:
    capped, _ = _after(ACT, replace(RIGHTS, may_act=False))
    again, events = _after(capped, replace(RIGHTS, lacks=("slurmdbd is away",)))
    assert [cap.reason for cap in again.caps] == ["slurmdbd is away"]
    assert len(events) == 1
    assert again.caps[0].since == capped.caps[0].since


def test_where_nobody_wants_more_than_observe_rights_are_of_no_interest() -> None:
    assert _after(ClusterRecord(cluster="alpha"), replace(RIGHTS, may_act=False))[1] == ()


AWAY_HOST = Impairment(name="connection", reason="login1 cannot be asked: nothing listens there")


def test_a_lost_connection_and_an_expired_token_cap_the_stage_and_come_back_by_themselves() -> None:
    for missing in (AWAY_HOST, Impairment(name="token", reason="the token for Slurm has expired")):
        lost = replace(RIGHTS, impairments=(missing,))
        capped, events = _after(ACT, lost)
        assert [(cap.name, cap.stage, cap.reason) for cap in capped.caps] == [
            (missing.name, Stage.OBSERVE, missing.reason)
        ]
        assert len(events) == 1
        assert _stage(capped).stage is Stage.OBSERVE
        reworded = replace(RIGHTS, impairments=(replace(missing, reason="other words"),))
        assert _after(capped, reworded)[1] == ()
        back, _ = _after(capped, RIGHTS)
        assert (back.caps, _stage(back).stage) == ((), Stage.ACT)


def test_a_token_that_ends_soon_is_told_once_and_lowers_nothing_until_it_has_ended() -> None:
    soon = Impairment(name="token", reason="good until 12:00 only", is_ahead=True)
    told, events = _after(ACT, replace(RIGHTS, impairments=(soon,)))
    assert [(type(event), _stage(told).stage) for event in events] == [(e.HealthCapped, Stage.ACT)]
    assert told.caps[0].effect == "nothing is lowered yet"
    assert _after(told, replace(RIGHTS, impairments=(soon,)))[1] == ()
    ended, _ = _after(told, replace(RIGHTS, impairments=(replace(soon, is_ahead=False),)))
    assert ([cap.stage for cap in ended.caps], _stage(ended).stage) == ([Stage.OBSERVE], Stage.OBSERVE)


SEEN = Coverage(source="loki", sight=Sight.SEEN, up_to=at(8))
AWAY = Coverage(source="loki", sight=Sight.MISSING, up_to=at(-200), note="loki cannot be asked: ConnectError")
CONSENTING = replace(
    ACT, setting=StageSetting(stage=Stage.ACT, end_running=frozenset(EndRunning), set_by="ada", set_at=AT)
)


def _sights(*, logs: tuple[Coverage, ...] = (), signals: tuple[Coverage, ...] = ()) -> SightReport:
    return SightReport(cluster="alpha", holder="watcher-1", as_of=at(9), logs=logs, signals=signals)


def _stage(record: ClusterRecord) -> EffectiveStage:
    job = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
    return effective_stage(record.stages(), Standing(job=job, partition="gpu", opted_in=True))


def test_a_log_store_that_is_away_for_long_caps_the_stage_and_is_told_until_it_is_back() -> None:
    lost, events = _after(CONSENTING, RIGHTS, _sights(logs=(AWAY,)))
    assert [type(event) for event in events] == [e.SourceLost, e.HealthCapped]
    assert _stage(lost).stage is Stage.OBSERVE
    assert "ConnectError" in lost.lost_sources["loki"]
    assert _after(lost, RIGHTS, _sights(logs=(AWAY,)))[1] == ()
    back, events = _after(lost, RIGHTS, _sights(logs=(SEEN,)))
    assert [type(event) for event in events] == [e.SourceBack, e.HealthRestored]
    assert (_stage(back).stage, back.lost_sources, back.setting) == (Stage.ACT, {}, CONSENTING.setting)


def test_a_log_store_that_answers_and_lags_is_lost_all_the_same() -> None:
    late = Coverage(source="loki", sight=Sight.LAGGING, up_to=at(-200))
    lost, _ = _after(ACT, RIGHTS, _sights(logs=(late,)))
    assert "loki" in lost.lost_sources


def test_a_short_outage_is_no_loss() -> None:
    short = replace(AWAY, up_to=at(-60))
    assert _after(ACT, RIGHTS, _sights(logs=(short,)))[1] == ()


def test_without_metrics_ended_attempts_are_acted_on_and_nothing_that_runs_is_ended() -> None:
    away = replace(AWAY, source="prometheus")
    lost, events = _after(CONSENTING, RIGHTS, _sights(logs=(SEEN,), signals=(away,)))
    assert [type(event) for event in events] == [e.SourceLost, e.HealthCapped]
    stage = _stage(lost)
    assert (stage.stage, stage.end_running) == (Stage.ACT, frozenset())
    assert any("ConnectError" in reason for reason in stage.spared)
    back, _ = _after(lost, RIGHTS, _sights(logs=(SEEN,), signals=(replace(SEEN, source="prometheus"),)))
    assert _stage(back).end_running == frozenset(EndRunning)


def test_a_source_that_the_watcher_has_no_longer_is_not_missed() -> None:
    lost, _ = _after(ACT, RIGHTS, _sights(logs=(AWAY,)))
    gone, _ = _after(lost, RIGHTS, _sights())
    assert (gone.lost_sources, gone.caps) == ({}, ())


def test_a_watcher_that_is_lost_says_nothing_of_its_sources() -> None:
    pulse = Pulse(started_at=AT, reported_at=at(99), watched_at=at(9), followed=3, facts=RIGHTS,
                  sights=_sights(logs=(SEEN,)))  # fmt: skip
    events = health_events(ACT, pulse, RULES, at(100))
    assert [event.source for event in events if isinstance(event, e.SourceLost)] == ["watcher"]


def _signs(partition: str, count: int = 4, second: float = 0) -> tuple[FleetSign, ...]:
    return tuple(
        FleetSign(
            incident_id=f"inc-{partition}-{number}",
            owner=f"{partition}{number}",
            workflow="w",
            domain=FaultDomain.INTERCONNECT,
            cause="link_down",
            at=at(second),
            partitions=(partition,),
        )
        for number in range(count)
    )


def _stormy(record: ClusterRecord, signs: tuple[FleetSign, ...], second: float) -> tuple[ClusterRecord, list[str]]:
    """The record after a look at the signs, and what was said."""
    events = storm_events(record, signs, StormLimits(), at(second))
    for event in events:
        changed = records.apply(record, event)
        assert isinstance(changed, ClusterRecord)
        record = changed
    return record, [type(event).__name__ for event in events]


def test_a_storm_in_one_partition_opens_and_clears_beside_one_in_another() -> None:
    record, said = _stormy(ACT, _signs("gpu"), 5)
    assert (said, [storm.partition for storm in record.open_storms]) == (["StormOpened"], ["gpu"])
    record, said = _stormy(record, _signs("gpu") + _signs("cpu", second=50), 60)
    assert (said, [storm.partition for storm in record.open_storms]) == (["StormOpened"], ["gpu", "cpu"])
    assert _stormy(record, _signs("gpu") + _signs("cpu", second=50), 61)[1] == []
    record, said = _stormy(record, _signs("cpu", second=50), 310)
    assert (said, [storm.partition for storm in record.open_storms]) == (["StormCleared"], ["cpu"])
    record, said = _stormy(record, (), 400)
    assert (said, record.open_storms) == (["StormCleared"], ())
    assert [storm.storm_id for storm in record.storms if storm.cleared_by == "relance"] == [
        storm.storm_id for storm in record.storms
    ]


def test_what_fails_in_the_place_of_an_open_storm_opens_no_other_and_a_wider_one_may_open_beside_it() -> None:
    record, _ = _stormy(ACT, _signs("gpu"), 5)
    record, said = _stormy(record, _signs("gpu", 20, second=8), 10)
    assert said == []
    record, said = _stormy(record, _signs("gpu") + _signs("a", 2, 20) + _signs("b", 2, 20), 25)
    assert (said, [storm.place for storm in record.open_storms]) == (
        ["StormOpened"],
        ["in partition gpu", "on the whole cluster"],
    )
