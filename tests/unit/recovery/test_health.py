"""What lowers the stage by itself, and lifts it again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain import records
from relance.domain.records import ClusterRecord
from relance.domain.stages import Stage, StageSetting
from relance.domain.views import SchedulerFacts
from relance.recovery.health import Pulse, health_events
from relance.recovery.sites import ClusterRules
from tests.unit.recovery.situations import AT, at

RULES = ClusterRules(cluster="alpha")
ACT = ClusterRecord(cluster="alpha", setting=StageSetting(stage=Stage.ACT, set_by="ada", set_at=AT))
RIGHTS = SchedulerFacts(release="25.11.7", may_act=True)


def _after(record: ClusterRecord, facts: SchedulerFacts | None) -> tuple[ClusterRecord, tuple[e.ClusterEvent, ...]]:
    pulse = Pulse(started_at=AT, reported_at=at(9), watched_at=at(9), followed=0, facts=facts)
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
