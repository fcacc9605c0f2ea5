"""Stories in which somebody else decides: a person, or the scheduler."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import JobState, NodeState
from tests.scenarios import findings
from tests.scenarios.acts import (
    cancels,
    changes,
    disagrees,
    fails,
    finds,
    is_drained,
    is_forgotten,
    is_held,
    is_requeued,
    node_goes_down,
    sets,
    submits,
    switches_off,
)
from tests.scenarios.storybooks import crashed, story, story_at
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import World

END = e.IncidentEnd


@story
def the_scheduler_that_requeues_by_itself_is_left_to_it() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    line.at(60, node_goes_down("n2"))
    line.at(62, fails(state=JobState.NODE_FAIL))
    line.at(64, is_requeued())
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.CONSTRAIN)
    line.want(64, 66, e.OutsideChangeSeen, lambda event: event.change == "requeue", times=1)
    line.want(79, 190, e.AttemptRestarted, lambda event: not event.by_us and "n2" not in event.nodes, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def a_person_who_requeues_first_is_not_overtaken() -> Timeline:
    line = crashed(until_s=300)
    line.at(70, is_requeued())
    line.never(e.ActionStarted)
    line.want(190, 195, e.AttemptRestarted, lambda event: not event.by_us, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def exclusions_are_added_to_what_the_scheduler_requeued() -> Timeline:
    line = Timeline(until_s=300)
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)), fails())
    line.at(65, is_requeued())
    line.want(65, 80, e.AdviceIssued, lambda event: event.advice.exclude == ("n2",) and not event.advice.hold)
    line.want(65, 82, e.ActionStarted, times=1)
    line.want(66, 90, e.AttemptRestarted, lambda event: "n2" not in event.nodes and not event.by_us, times=1)
    line.ends(END.RECOVERED)
    return line


@story_at(61, 70, 75, 76, 77, 78, 79, 80, 82, 86, 88, 150)
def a_job_that_goes_away_by_a_persons_wish_stays_away(second: int) -> Timeline:
    line = crashed()
    line.at(second, cancels())
    line.never(e.AttemptStarted, after_s=second + 1)
    line.ends(END.RECOVERED if second > 90 else END.LEFT)
    return line


@story
def a_held_job_is_left_to_its_holder() -> Timeline:
    line = crashed(until_s=200)
    line.at(62, is_requeued(), is_held())
    line.never(e.ActionStarted)
    line.want(62, 64, e.OutsideChangeSeen, lambda event: event.change == "hold", times=1)
    line.at(150, cancels())
    line.ends(END.LEFT)
    return line


@story
def a_copy_that_its_owner_submitted_goes_first() -> Timeline:
    line = crashed(until_s=120)
    line.at(66, submits("18", node_count=2))
    line.never(e.ActionStarted)
    line.want(66, 66, e.OutsideChangeSeen, lambda event: (event.change, event.who) == ("resubmit", "ada"), times=1)
    line.ends(END.LEFT)
    return line


@story
def a_stage_that_is_lowered_before_the_claim_counts() -> Timeline:
    line = crashed(until_s=420)
    line.at(70, sets(Stage.OBSERVE))
    line.at(365, is_forgotten())
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line


@story
def a_stage_that_is_raised_later_lets_the_same_advice_begin() -> Timeline:
    line = crashed(stage=Stage.OBSERVE, until_s=300)
    line.at(150, sets(Stage.ACT))
    line.never(e.ActionStarted, before_s=149)
    line.want(150, 152, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def what_has_begun_is_finished_whatever_the_stage() -> Timeline:
    line = crashed(until_s=300)
    line.at(77, sets(Stage.OBSERVE))
    line.want(74, 77, e.ActionStarted, times=1)
    line.want(77, 90, e.ActionSucceeded, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def what_is_no_longer_read_is_left_unproven() -> Timeline:
    line = crashed(until_s=800)
    line.at(77, sets(Stage.OFF))
    line.want(677, 685, e.IncidentClosed, times=1)
    line.ends(END.RUNNING_UNPROVEN)
    return line


@story
def an_owner_who_switches_off_is_obeyed() -> Timeline:
    line = crashed(until_s=420)
    line.at(65, switches_off())
    line.at(365, is_forgotten())
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line


@story
def an_owner_who_disagrees_ends_it() -> Timeline:
    line = crashed(until_s=120)
    line.at(65, disagrees())
    line.never(e.ActionStarted)
    line.ends(END.LEFT)
    return line


@story
def a_time_limit_is_nobodys_fault() -> Timeline:
    line = Timeline(until_s=100)
    line.at(0, submits())
    line.at(60, fails(state=JobState.TIMEOUT))
    line.never(e.IncidentOpened)
    line.ends()
    return line


@story
def a_preempted_job_with_a_crash_line_is_left_to_the_scheduler() -> Timeline:
    line = Timeline(until_s=120)
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)),
            fails(state=JobState.PREEMPTED))  # fmt: skip
    line.never(e.ActionStarted)
    line.ends(END.LEFT)
    return line


@story
def a_node_that_is_lost_and_a_requeue_between_two_looks_cost_no_two_minutes() -> Timeline:
    line = Timeline(until_s=120, world=World(Limits(settle_s=0)))
    line.at(0, submits())
    line.at(60, node_goes_down("n2"), fails(state=JobState.NODE_FAIL), is_requeued())
    line.want(60, 60, e.AttemptEnded, lambda event: event.outcome is JobState.NODE_FAIL, times=1)
    line.want(60, 60, e.OutsideChangeSeen, lambda event: event.who == "scheduler", times=1)
    line.want(60, 62, e.ActionStarted, lambda event: event.kind is ActionKind.CONSTRAIN, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.CONSTRAIN)
    line.want(60, 65, e.AttemptRestarted, lambda event: not event.by_us and "n2" not in event.nodes, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def a_preemption_that_only_accounting_tells_blames_no_node_and_its_wait_is_not_cut() -> Timeline:
    line = Timeline(until_s=260)
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.fell_off_the_bus(attempt, "n2", world.now)),
            fails(state=JobState.PREEMPTED), is_requeued())  # fmt: skip
    line.want(60, 60, e.AttemptEnded, lambda event: event.outcome is JobState.PREEMPTED, times=1)
    line.never(e.ActionStarted)
    line.never(e.NodeSuspected)
    line.want(180, 186, e.AttemptRestarted, lambda event: not event.by_us, times=1)
    return line


@story
def a_job_of_a_kind_that_is_only_watched_is_advised_on_and_never_acted_upon() -> Timeline:
    line = crashed(until_s=150)
    line.at(1, changes(only_watched="it is interactive: submit it with sbatch"))
    line.want(75, 80, e.AdviceIssued, lambda event: event.advice.may_begin, times=1)
    line.want(76, 80, e.ActionPrepared, lambda event: event.stage is Stage.OBSERVE)
    line.never(e.ActionStarted)
    return line


@story
def what_people_do_to_nodes_in_the_meantime_is_recorded_once() -> Timeline:
    line = crashed(stage=Stage.OBSERVE, until_s=120)
    line.at(80, is_drained("n2", by="grace", reason="swap the cable"))
    line.want(80, 80, e.OutsideChangeSeen, lambda event: (event.change, event.who) == ("drain", "grace"), times=1)
    line.want(0, 120, e.OutsideChangeSeen, times=1)
    return line


@story
def a_node_that_a_person_took_out_is_no_sign_when_it_goes_down() -> Timeline:
    line = Timeline(until_s=120)
    line.at(0, submits())
    line.at(60, is_drained("n2", by="grace", reason="firmware", state=NodeState.DOWN))
    line.never(e.FindingReported)
    return line
