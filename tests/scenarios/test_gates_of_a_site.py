"""Quiet hours and the number of recoveries at once, from the failure to the next attempt."""

from __future__ import annotations

from dataclasses import replace
from datetime import time

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.limits import Limits, RestartLimits
from relance.domain.quiet_hours import QuietHours, QuietWeek
from tests.scenarios import findings
from tests.scenarios.acts import fails, finds, submits
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import World

END = e.IncidentEnd
QUIET = QuietWeek(hours=(QuietHours(begins=time(11, 1), ends=time(11, 8)),))
"""From the first to the eighth minute of a story."""


def _parks(event: e.ActionStarted) -> bool:
    return event.kind is ActionKind.PARK


def _lets_go(event: e.ActionStarted) -> bool:
    return event.kind is ActionKind.CONSTRAIN


async def test_what_fails_in_quiet_hours_outlives_the_schedulers_memory_and_starts_when_they_end() -> None:
    line = Timeline(until_s=520, world=World(quiet=QUIET))
    line.at(0, submits())
    line.at(70, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)), fails(exit_code=137))
    line.want(84, 90, e.ActionStarted, _parks, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.PARK, before_s=479)
    line.want(480, 483, e.ActionStarted, _lets_go, times=1)
    line.want(480, 490, e.AttemptRestarted, times=1)
    line.never(e.AdviceIssued, lambda event: event.advice.generation > 4)
    line.ends(END.RECOVERED)
    await line.play()
    parked = next(
        item.event.advice
        for item in await line.world.told()
        if isinstance(item.event, e.AdviceIssued) and item.event.advice.park
    )
    assert parked.park_until == line.world.at(480 + 1800), "if we die it starts by itself, and not in quiet hours"


async def test_no_more_jobs_are_brought_back_at_once_than_there_may_be() -> None:
    limits = Limits(settle_s=0, restarts=replace(RestartLimits(), at_once=1))
    line = Timeline(until_s=160, world=World(limits))
    for name in ("20", "21", "22"):
        line.at(0, submits(name, name=f"train-{name}", node_count=1))
        line.at(60, fails(name))
        line.ends(END.RECOVERED, raw_id=name)
    line.world.controller.hesitates_s = 10.0
    line.want(60, 62, e.ActionStarted, times=1)
    line.want(60, 76, e.ActionStarted, times=2)
    line.want(60, 100, e.ActionStarted, times=3)
    await line.play()
    told = await line.world.told()
    under_way, most = set[str](), 0
    for item in told:
        if isinstance(item.event, e.ActionStarted):
            under_way.add(item.event.action_id)
        elif isinstance(item.event, e.ActionSucceeded):
            under_way.discard(item.event.action_id)
        most = max(most, len(under_way))
    assert most == 1
