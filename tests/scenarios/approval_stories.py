"""Stories in which a person is asked first."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.stages import Stage
from tests.scenarios import findings
from tests.scenarios.acts import (
    approves,
    commands_change,
    controller_falls_silent,
    controller_is_back,
    denies,
    finds,
    is_forgotten,
)
from tests.scenarios.storybooks import crashed, story
from tests.scenarios.timelines import Timeline

END = e.IncidentEnd


@story
def a_lost_rank_is_restarted_in_approve_only_by_a_yes() -> Timeline:
    line = crashed(stage=Stage.APPROVE, until_s=420)
    line.at(365, is_forgotten())
    line.want(74, 78, e.ActionPrepared, lambda event: event.stage is Stage.APPROVE)
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line


@story
def an_approved_restart_begins() -> Timeline:
    line = crashed(stage=Stage.APPROVE)
    line.at(80, approves())
    line.never(e.ActionStarted, before_s=79)
    line.want(80, 82, e.ActionStarted, lambda event: event.stage is Stage.APPROVE, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def a_denied_restart_is_left_to_people() -> Timeline:
    line = crashed(stage=Stage.APPROVE)
    line.at(80, denies())
    line.never(e.ActionStarted)
    line.want(80, 82, e.IncidentClosed, lambda event: "grace denied" in event.reason, times=1)
    line.ends(END.LEFT)
    return line


@story
def an_approval_is_good_for_the_commands_that_were_shown() -> Timeline:
    line = crashed(stage=Stage.APPROVE)
    line.at(79, controller_falls_silent())
    line.at(80, approves(), commands_change())
    line.at(85, controller_is_back())
    line.at(100, approves())
    line.never(e.ActionStarted, before_s=99)
    line.want(85, 87, e.ActionPrepared, times=1)
    line.want(100, 102, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def an_approval_is_void_once_something_else_is_advised() -> Timeline:
    line = crashed(stage=Stage.APPROVE)
    line.at(79, controller_falls_silent())
    line.at(80, approves(), finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)))
    line.at(85, controller_is_back())
    line.at(120, approves())
    line.never(e.ActionStarted, before_s=119)
    line.want(120, 122, e.ActionStarted, lambda event: event.generation > 1, times=1)
    line.want(120, 130, e.AttemptRestarted, lambda event: "n2" not in event.nodes)
    line.ends(END.RECOVERED)
    return line


@story
def an_approval_runs_out() -> Timeline:
    line = crashed(stage=Stage.APPROVE)
    line.at(79, controller_falls_silent())
    line.at(80, approves(for_s=4))
    line.at(85, controller_is_back())
    line.at(100, approves())
    line.never(e.ActionStarted, before_s=99)
    line.want(100, 102, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def an_advice_that_expired_is_decided_again_and_asked_again() -> Timeline:
    line = crashed(stage=Stage.APPROVE, until_s=420)
    line.at(365, is_forgotten())
    line.want(329, 332, e.AdviceIssued, lambda event: event.advice.generation > 2, times=1)
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line
