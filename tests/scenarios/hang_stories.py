"""Stories of attempts that run on and make no steps, or only seem to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from relance.domain import events as e
from relance.domain.findings import Certainty, Finding, Sign
from relance.domain.keys import AttemptKey
from relance.domain.stages import EndRunning
from tests.scenarios import findings
from tests.scenarios.acts import (
    cancels,
    completes,
    controller_gives_up,
    controller_hesitates,
    fails,
    finds,
    goes_on,
    hangs,
    submits,
)
from tests.scenarios.storybooks import story
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import World

END = e.IncidentEnd


def _hanging(end_running: frozenset[EndRunning] = frozenset()) -> Timeline:
    """A job that hangs after a minute; the owner's limit confirms it a minute later."""
    line = Timeline(end_running=end_running, until_s=250)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(75, finds(lambda attempt, world: findings.silence(attempt, world.now, since=world.at(60))))
    line.at(120, finds(_confirmed_silence))
    return line


def _confirmed_silence(attempt: AttemptKey, world: World) -> Finding:
    return findings.silence(attempt, world.now, Certainty.CONFIRMED, Sign.OWNER_LIMIT, since=world.at(60))


@story
def a_hang_without_consent_is_told_and_not_ended() -> Timeline:
    line = _hanging()
    line.at(200, cancels())
    line.want(120, 122, e.AdviceIssued, lambda event: event.advice.ends_running is EndRunning.HANG)
    line.want(120, 122, e.ActionPrepared)
    line.never(e.ActionStarted)
    line.ends(END.LEFT)
    return line


@story
def a_hang_with_consent_is_ended_and_comes_back() -> Timeline:
    line = _hanging(end_running=frozenset({EndRunning.HANG}))
    line.never(e.ActionStarted, before_s=119)
    line.want(120, 140, e.ActionStarted, times=1)
    line.want(122, 150, e.AttemptRestarted, lambda event: event.by_us, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def what_was_begun_once_and_came_to_nothing_is_not_begun_again() -> Timeline:
    line = _hanging(end_running=frozenset({EndRunning.HANG}))
    line.at(110, controller_gives_up())
    line.at(180, fails())
    line.want(120, 122, e.ActionAbandoned, times=1)
    line.want(180, 250, e.IncidentOpened, times=1)
    line.never(e.AdviceIssued, lambda event: event.advice.may_begin, after_s=123)
    line.ends(END.LEFT, END.LEFT)
    return line


@story
def what_has_begun_is_not_called_off_because_the_hang_goes_by() -> Timeline:
    line = _hanging(end_running=frozenset({EndRunning.HANG}))
    line.at(110, controller_hesitates(20))
    line.at(125, goes_on())
    line.want(120, 122, e.ActionStarted, times=1)
    line.never(e.IncidentClosed, before_s=141)
    line.want(141, 160, e.AttemptRestarted, lambda event: event.by_us, times=1)
    line.ends(END.RECOVERED)
    return line


@story
def a_hang_that_is_only_suspected_is_never_acted_on() -> Timeline:
    line = Timeline(end_running=frozenset(EndRunning))
    line.at(0, submits())
    line.at(60, hangs())
    line.at(80, finds(lambda attempt, world: findings.silence(attempt, world.now, since=world.at(60))))
    line.at(150, completes())
    line.want(80, 81, e.IncidentOpened, times=1)
    line.never(e.ActionStarted)
    line.ends(END.JOB_ENDED)
    return line


@story
def a_suspicion_that_training_outlives_closes_by_itself() -> Timeline:
    line = Timeline()
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.silence(attempt, world.now, since=world.at(59))))
    line.want(62, 70, e.IncidentClosed, lambda event: event.end is END.RECOVERED, times=1)
    line.never(e.ActionStarted)
    line.ends(END.RECOVERED)
    return line


@story
def a_frightening_line_in_a_training_that_goes_on_ends_nothing() -> Timeline:
    line = Timeline(end_running=frozenset(EndRunning))
    line.at(0, submits())
    line.at(60, finds(lambda attempt, world: findings.own_bug(attempt, world.now)))
    line.never(e.ActionStarted)
    line.ends(END.RECOVERED)
    return line


@story
def a_dead_rank_in_a_job_that_lingers_is_ended_only_with_consent() -> Timeline:
    line = Timeline(end_running=frozenset({EndRunning.DEAD_RANK}))
    line.at(0, submits())
    line.at(60, hangs(), finds(lambda attempt, world: findings.killed_rank(attempt, world.now)))
    line.never(e.ActionStarted, before_s=119)
    line.want(119, 126, e.ActionStarted, times=1)
    line.ends(END.RECOVERED)
    return line


def _with_odd_one(*signs: Sign) -> Timeline:
    """A hang that is confirmed by signs on one node, in a job that may be ended for it."""
    line = Timeline(end_running=frozenset({EndRunning.HANG}), until_s=250)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(75, finds(lambda attempt, world: findings.silence(attempt, world.now, since=world.at(60))))
    line.at(
        120,
        finds(lambda attempt, world: findings.standstill_of(attempt, world.now, *signs, node="n2", since=world.at(60))),
    )
    line.ends(END.RECOVERED)
    return line


@story
def a_hang_goes_on_without_the_node_whose_device_failed() -> Timeline:
    line = _with_odd_one(Sign.DEVICE, Sign.NODE_SILENT)
    line.want(120, 140, e.AdviceIssued, lambda event: event.advice.exclude == ("n2",) and not event.advice.hold)
    line.want(122, 150, e.AttemptRestarted, lambda event: event.by_us, times=1)
    return line


@story
def a_hang_in_which_one_node_s_stacks_differ_comes_back_with_all_nodes() -> Timeline:
    line = _with_odd_one(Sign.STACKS)
    line.never(e.AdviceIssued, lambda event: bool(event.advice.exclude))
    line.want(122, 150, e.AttemptRestarted, lambda event: event.by_us, times=1)
    return line


@story
def a_node_that_only_shows_a_sign_of_failing_is_left_out_once_the_attempt_has_ended() -> Timeline:
    line = Timeline(end_running=frozenset(EndRunning), until_s=250)
    line.at(0, submits())
    line.at(40, finds(lambda attempt, world: findings.failing_node(attempt, "n2", world.now)))
    line.at(100, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)), fails(exit_code=137))
    line.never(e.IncidentOpened, before_s=99)
    line.never(e.ActionStarted, before_s=99)
    line.want(100, 125, e.AdviceIssued, lambda event: event.advice.exclude == ("n2",) and not event.advice.hold)
    line.ends(END.RECOVERED)
    return line


@story
def a_node_that_shows_a_sign_of_failing_is_no_reason_to_touch_a_job_that_goes_on() -> Timeline:
    line = Timeline(end_running=frozenset(EndRunning), until_s=150)
    line.at(0, submits())
    line.at(40, finds(lambda attempt, world: findings.failing_node(attempt, "n2", world.now)))
    line.never(e.IncidentOpened)
    line.never(e.AdviceIssued)
    line.never(e.ActionStarted)
    return line


def _pause_with_a_fright(until_s: float = 420) -> Timeline:
    """A healthy job that may be ended for anything pauses for three minutes, in which its own code complains."""
    line = Timeline(end_running=frozenset(EndRunning), until_s=until_s)
    line.at(0, submits())
    line.at(100, hangs(), finds(lambda attempt, world: findings.own_bug(attempt, world.now)))
    line.at(280, goes_on())
    line.never(e.ActionStarted)
    line.never(e.AdviceIssued, lambda event: bool(event.advice.exclude))
    return line


@story
def what_a_node_told_while_the_job_went_on_is_no_proof_of_a_death_in_a_later_pause() -> Timeline:
    line = _pause_with_a_fright()
    for second, sign in ((40, Sign.NODE_DOWN), (41, Sign.PROCESS_DEATH), (42, Sign.DEVICE), (43, Sign.NODE_SILENT)):
        line.at(second, finds(_node_that_goes_on(sign)))
    return line


def _node_that_goes_on(sign: Sign) -> Callable[[AttemptKey, World], Finding]:
    return lambda attempt, world: replace(findings.failing_node(attempt, "n2", world.now), signs=frozenset({sign}))


@story
def a_death_that_the_job_lived_on_after_is_no_proof_in_a_later_pause() -> Timeline:
    line = _pause_with_a_fright()
    line.at(30, finds(lambda attempt, world: findings.killed_rank(attempt, world.now)))
    return line


@story
def a_slow_and_diverging_job_that_pauses_is_never_touched() -> Timeline:
    line = Timeline(end_running=frozenset(EndRunning), until_s=420)
    line.at(0, submits())
    line.at(40, finds(lambda attempt, world: findings.slow(attempt, world.now)))
    line.at(50, finds(lambda attempt, world: findings.diverging(attempt, world.now)))
    line.at(55, finds(lambda attempt, world: findings.failing_node(attempt, "n2", world.now)))
    line.at(100, hangs())
    line.at(115, finds(_passing))
    line.at(250, finds(lambda attempt, world: findings.silence(attempt, world.now, since=world.at(100))))
    line.at(300, goes_on())
    line.never(e.ActionStarted)
    line.never(e.AdviceIssued, lambda event: event.advice.action.restarts or bool(event.advice.exclude))
    return line


def _passing(attempt: AttemptKey, world: World) -> Finding:
    found = findings.silence(attempt, world.now, since=world.at(100))
    return replace(found, id=f"{found.id}-passing", is_passing=True)
