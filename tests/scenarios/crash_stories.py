"""Stories of attempts that end badly, and of what becomes of them."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.faults import Remedy, RestartHint
from relance.domain.findings import Sign
from relance.domain.stages import Stage
from relance.domain.views import JobState
from tests.scenarios import findings
from tests.scenarios.acts import (
    completes,
    fails,
    finds,
    is_forgotten,
    loses_its_checkpoints,
    node_goes_down,
    submits,
)
from tests.scenarios.storybooks import crashed, story
from tests.scenarios.timelines import Timeline

END = e.IncidentEnd


@story
def a_killed_rank_becomes_a_running_job_again() -> Timeline:
    line = crashed()
    line.want(60, 61, e.IncidentOpened, times=1)
    line.want(60, 62, e.VerdictReached)
    line.want(74, 78, e.AdviceIssued, lambda event: event.advice.action is Remedy.RESTART and not event.advice.hold)
    line.want(74, 78, e.ActionPrepared)
    line.want(74, 78, e.ActionStarted, times=1)
    line.want(78, 82, e.AttemptRestarted, lambda event: event.by_us, times=1)
    line.want(80, 90, e.ProgressResumed, lambda event: not event.beyond, times=1)
    line.want(85, 100, e.ProgressResumed, lambda event: event.beyond, times=1)
    line.never(e.OutsideChangeSeen)
    line.ends(END.RECOVERED)
    return line


@story
def in_observe_everything_is_said_and_nothing_is_done() -> Timeline:
    line = crashed(stage=Stage.OBSERVE, until_s=420)
    line.at(365, is_forgotten())
    line.want(74, 78, e.AdviceIssued, lambda event: event.advice.action is Remedy.RESTART and not event.advice.hold)
    line.want(74, 78, e.ActionPrepared, lambda event: event.stage is Stage.OBSERVE)
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line


@story
def a_bug_of_its_own_is_tried_once_and_then_stopped() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    for second in (60, 86):
        line.at(second, finds(lambda attempt, world: findings.own_bug(attempt, world.now)), fails())
    line.want(60, 200, e.ActionStarted, times=1)
    line.want(86, 87, e.AdviceIssued, lambda event: event.advice.action is Remedy.STOP and event.advice.hold)
    line.want(100, 103, e.IncidentClosed, lambda event: event.end is END.STOPPED)
    line.ends(END.RELAPSED, END.STOPPED)
    return line


@story
def a_bug_that_needs_a_change_is_not_tried_again() -> Timeline:
    line = Timeline(until_s=120)
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.own_bug(attempt, world.now, RestartHint.NO)), fails())
    line.never(e.ActionStarted)
    line.ends(END.STOPPED)
    return line


@story
def what_nobody_understands_is_given_up_after_three_attempts() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    for second in (60, 86, 126):
        line.at(second, fails())
    line.want(60, 300, e.ActionStarted, times=2)
    line.want(115, 122, e.AttemptStarted)
    line.want(126, 127, e.AdviceIssued, lambda event: event.advice.action is Remedy.STOP)
    line.ends(END.RELAPSED, END.RELAPSED, END.STOPPED)
    return line


@story
def a_node_that_lost_its_gpu_is_left_out_at_once() -> Timeline:
    line = Timeline()
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)), fails())
    line.want(74, 78, e.AdviceIssued, lambda event: event.advice.exclude == ("n2",) and not event.advice.hold)
    line.want(78, 90, e.AttemptRestarted, lambda event: "n2" not in event.nodes, times=1)
    line.want(74, 90, e.NodeExcluded, lambda event: event.exclusion.node == "n2", times=1)
    line.want(60, 62, e.NodeSuspected, lambda event: event.suspect.node == "n2", times=1)
    line.ends(END.RECOVERED)
    return line


@story
def a_node_under_weak_suspicion_is_left_out_at_its_second_time() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    for second in (60, 86):
        line.at(second, finds(lambda attempt, world: findings.cuda_error(attempt, "n2", 2, world.now)), fails())
    line.want(74, 78, e.AdviceIssued, lambda event: event.advice.exclude == () and not event.advice.hold)
    line.want(100, 104, e.AdviceIssued, lambda event: event.advice.exclude == ("n2",) and not event.advice.hold)
    line.want(103, 115, e.AttemptRestarted, lambda event: "n2" not in event.nodes, times=1)
    line.ends(END.RELAPSED, END.RECOVERED)
    return line


@story
def a_node_that_goes_down_takes_its_job_along_and_the_job_comes_back() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    line.at(60, node_goes_down("n2"))
    line.at(65, fails(state=JobState.NODE_FAIL))
    line.want(60, 61, e.FindingReported, lambda event: Sign.NODE_DOWN in event.finding.signs)
    line.want(60, 61, e.IncidentOpened, times=1)
    line.never(e.ActionStarted, after_s=0, before_s=124)
    line.want(124, 130, e.ActionStarted, times=1)
    line.want(126, 140, e.AttemptRestarted, lambda event: "n2" not in event.nodes)
    line.ends(END.RECOVERED)
    return line


@story
def an_attempt_that_dies_at_its_start_is_a_new_incident() -> Timeline:
    line = crashed(until_s=300)
    line.at(79, fails())
    line.never(e.AttemptRestarted, before_s=100)
    line.want(60, 81, e.IncidentOpened, times=2)
    line.want(79, 200, e.ActionStarted, times=1)
    line.ends(END.RELAPSED, END.RECOVERED)
    return line


@story
def an_attempt_that_did_not_resume_is_told_and_never_restarted_again() -> Timeline:
    line = crashed(until_s=300)
    line.at(70, loses_its_checkpoints())
    line.at(85, finds(lambda attempt, world: findings.did_not_resume(attempt, world.now)))
    line.at(120, fails())
    line.want(85, 86, e.VerdictReached, lambda event: event.verdict.cause == "did_not_resume")
    line.never(e.ActionStarted, after_s=85)
    line.never(e.IncidentClosed, lambda event: event.end is END.RECOVERED)
    line.ends(END.RELAPSED, END.LEFT)
    return line


@story
def a_job_that_the_scheduler_forgot_is_closed() -> Timeline:
    line = crashed(stage=Stage.OBSERVE)
    line.at(100, is_forgotten())
    line.want(100, 101, e.IncidentClosed, times=1)
    line.ends(END.JOB_ENDED)
    return line


@story
def a_reused_id_is_another_job() -> Timeline:
    line = crashed(stage=Stage.OBSERVE)
    line.at(100, is_forgotten(), submits())
    line.at(150, completes())
    line.want(100, 101, e.IncidentClosed, lambda event: event.end is END.JOB_ENDED, times=1)
    line.want(100, 102, e.JobSeen, times=1)
    return line
