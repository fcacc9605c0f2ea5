"""Stories of many jobs at once, and of agents that fall silent."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.faults import FaultDomain
from relance.domain.stages import Stage
from tests.scenarios import findings
from tests.scenarios.acts import (
    agents_come_seldom,
    controller_falls_silent,
    controller_is_back,
    fails,
    finds,
    submits,
    watcher_falls_silent,
    watcher_is_back,
)
from tests.scenarios.storybooks import crashed, story, story_of_silence
from tests.scenarios.timelines import Timeline

END = e.IncidentEnd


@story
def restarts_of_many_jobs_are_metered() -> Timeline:
    line = Timeline(until_s=200)
    names = [str(20 + i) for i in range(6)]
    for name in names:
        line.at(0, submits(name, user="ada", name=f"train-{name}", node_count=1))
        line.at(60, fails(name))
        line.ends(END.RECOVERED, raw_id=name)
    line.want(74, 79, e.ActionStarted, times=3)
    line.want(74, 89, e.ActionStarted, times=4)
    line.want(74, 130, e.ActionStarted, times=6)
    line.want(60, 62, e.AdviceIssued, lambda event: event.advice.hold, times=6)
    line.never(e.AdviceIssued, lambda event: event.advice.generation > 2)  # held, and then not
    return line


def _lets_go(event: e.ActionStarted) -> bool:
    return event.kind is ActionKind.CONSTRAIN


@story
def many_owners_at_once_are_a_storm_that_parks_and_passes_and_a_canary_goes_first() -> Timeline:
    line = Timeline(until_s=500)
    names = [str(20 + i) for i in range(5)]
    for number, name in enumerate(names):
        line.at(0, submits(name, user=f"user{number}", name=f"train-{name}", node_count=1))
        line.at(60 + number, finds(lambda attempt, world: findings.storage_away(attempt, world.now), name), fails(name))
        line.ends(END.RECOVERED, raw_id=name)
    line.want(62, 70, e.StormOpened, times=1)
    line.want(75, 90, e.ActionStarted, lambda event: event.kind is ActionKind.PARK, times=5)
    line.want(350, 400, e.StormCleared, times=1)
    line.want(350, 371, e.ActionStarted, _lets_go, times=1)  # the canary, to its first step
    line.want(350, 460, e.ActionStarted, _lets_go, times=5)
    line.want(364, 369, e.ActionStarted, lambda event: event.kind is ActionKind.CONSTRAIN, times=1)
    line.want(364, 420, e.ActionStarted, lambda event: event.kind is ActionKind.CONSTRAIN, times=5)
    line.want(366, 370, e.ProgressResumed, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is ActionKind.RESTART)
    line.want(62, 70, e.VerdictReached, lambda event: event.verdict.domain is FaultDomain.STORAGE)
    return line


@story_of_silence
def without_a_controller_nothing_may_begin_and_the_stage_comes_back_by_itself() -> Timeline:
    line = Timeline(until_s=200)
    line.at(0, submits())
    line.at(40, controller_falls_silent())
    line.at(60, fails())
    line.at(120, controller_is_back())
    line.want(70, 73, e.SourceLost, lambda event: event.source == "controller", times=1)
    line.want(70, 73, e.HealthCapped, lambda event: event.cap.stage is Stage.OBSERVE, times=1)
    line.want(120, 122, e.HealthRestored, times=1)
    line.want(120, 122, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story_of_silence
def time_alone_brings_the_decision_when_agents_come_seldom() -> Timeline:
    line = crashed()
    line.at(0, agents_come_seldom(10))
    line.want(75, 75, e.AdviceIssued, lambda event: event.advice.may_begin, times=1)
    line.want(80, 80, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story_of_silence
def an_attempt_that_nobody_sees_is_not_said_to_run() -> Timeline:
    line = crashed()
    line.at(79, controller_falls_silent())
    line.at(100, controller_is_back())
    line.want(78, 79, e.AttemptStarted, times=1)
    line.never(e.AttemptRestarted, before_s=99)
    line.want(100, 101, e.AttemptRestarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story_of_silence
def without_a_watcher_nothing_may_begin_and_the_stage_comes_back_by_itself() -> Timeline:
    line = Timeline(until_s=250)
    line.at(0, submits())
    line.at(40, watcher_falls_silent())
    line.at(80, fails())
    line.at(150, watcher_is_back())
    line.want(70, 73, e.SourceLost, lambda event: event.source == "watcher", times=1)
    line.want(94, 98, e.ActionPrepared, lambda event: event.stage is Stage.OBSERVE)
    line.never(e.ActionStarted, before_s=149)
    line.want(150, 152, e.HealthRestored, times=1)
    line.want(150, 152, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line
