"""Third step of a decision: the guards. All are asked, in this order, and all answers are kept (design 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.advice import NEEDS_A_PERSON, Answer, Guard
from relance.domain.faults import Remedy
from relance.domain.views import JobState
from relance.policy.attempts import Place, ended_at, place_of
from relance.policy.budgets import restarts_since_progress
from relance.policy.endings import ending_of
from relance.policy.fits import fit
from relance.policy.intents import nobody_decided
from relance.policy.plans import Plan
from relance.policy.questions import Question
from relance.policy.storms import park_until
from relance.policy.twins import no_twin

Reply = tuple[Answer, str, datetime | None]
"""An answer, the sentence that explains it, and when time alone may change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a guard is asked about."""

    question: Question
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """A guard: its name, what its yes means, how it is asked, and what follows from another answer.

    `unknown_holds` is False for a guard that is passed after its grace time when the answer is not known. `event` is
    what must happen for the answer to change. `for_parking` says that even parking needs its yes.
    """

    name: str
    yes_means: str
    ask: Callable[[Asked], Reply]
    event: str
    unknown_holds: bool = True
    for_parking: bool = False


def ask_guards(question: Question, plan: Plan) -> tuple[Guard, ...]:
    """Every guard with its answer, in order."""
    answers: list[Guard] = []
    for rule in GUARDS:
        answer, reason, again_at = rule.ask(Asked(question=question, plan=plan))
        answers.append(Guard(name=rule.name, answer=answer, reason=reason, ask_again_at=again_at))
    return tuple(answers)


def blocking(guards: tuple[Guard, ...], now: datetime) -> tuple[GuardRule, ...]:
    """The rules whose answers hold an action back."""
    by_name = {guard.name: guard for guard in guards}
    return tuple(rule for rule in GUARDS if _blocks(rule, by_name[rule.name], now))


def _blocks(rule: GuardRule, guard: Guard, now: datetime) -> bool:
    if guard.answer is Answer.YES:
        return False
    if guard.answer is Answer.NO or rule.unknown_holds:
        return True
    return guard.ask_again_at is not None and now < guard.ask_again_at


def _attempt_over(asked: Asked) -> Reply:
    place = place_of(asked.question)
    if place in (Place.OVER, Place.REQUEUED, Place.REPLACED):
        return Answer.YES, "the attempt is over", None
    if place is Place.LIVING:
        ending = ending_of(asked.question)
        return ending.answer, ending.reason, ending.ask_again_at
    return Answer.UNKNOWN, "whether the attempt is over cannot be read", None


def _view_fresh(asked: Asked) -> Reply:
    as_of, most_s = asked.question.fleet.as_of, asked.question.limits.view_max_age_s
    if as_of is None:
        return Answer.UNKNOWN, "there has been no look at the scheduler yet", None
    if (asked.question.now - as_of).total_seconds() <= most_s:
        return Answer.YES, f"the look at the scheduler is not older than {most_s:.0f} s", None
    return Answer.NO, f"the newest look at the scheduler is older than {most_s:.0f} s", None


def _nobody_decided(asked: Asked) -> Reply:
    books = nobody_decided(asked.question)
    return books.answer, books.reason, None


def _no_twin(asked: Asked) -> Reply:
    if asked.plan.successor:
        return Answer.YES, f"nothing is restarted; job {asked.plan.successor} goes on, and it alone is touched", None
    if asked.question.incident.is_parked:
        return Answer.YES, "the controller looks for a copy before it touches ours, and withdraws ours for it", None
    answer, reason = no_twin(asked.question)
    return answer, reason, None


def _nobody_at_work(asked: Asked) -> Reply:
    job = asked.question.fleet.job
    if job is None:
        return Answer.UNKNOWN, "the scheduler does not show the job", None
    if job.somebody_at_work:
        return Answer.NO, f"somebody is at work in the job: {job.somebody_at_work}", None
    return Answer.YES, "nobody is at work in the job", None


def _verdict_final(asked: Asked) -> Reply:
    until, settle_s = settled_at(asked.question), asked.question.limits.settle_s
    unread = unread_until(asked.question)
    if unread is not None and asked.question.now < unread:
        return Answer.NO, "the logs are not read to the attempt's end yet", max(until, unread)
    if asked.question.now >= until:
        return Answer.YES, f"nothing new came for {settle_s:.0f} s", None
    return Answer.NO, f"late evidence may come until {settle_s:.0f} s after the end or the last new root line", until


def _no_own_requeue(asked: Asked) -> Reply:
    """Whether the job, or the scheduler after a lost node, is about to requeue by itself."""
    ended = ended_at(asked.question)
    if place_of(asked.question) is not Place.OVER or asked.plan.successor:
        return Answer.YES, "there is no requeue to wait for", None
    who = _requeues_by_itself(asked.question)
    if not who:
        return Answer.YES, "nothing shows that it requeues by itself", None
    until = (ended or asked.question.incident.opened_at) + timedelta(seconds=asked.question.limits.self_requeue_grace_s)
    if asked.question.now >= until:
        return Answer.YES, f"{who}, and did not", None
    return Answer.NO, f"{who}: it is given {asked.question.limits.self_requeue_grace_s:.0f} s to do so", until


def _requeues_by_itself(question: Question) -> str:
    job = question.fleet.job
    if job is not None and job.state is JobState.NODE_FAIL and job.requeue_allowed is not False:
        return "after a lost node the scheduler requeues by itself"
    attempts = question.record.attempts
    outcomes = {item.attempt.restart_count: item.outcome for item in attempts}
    # What the scheduler put back after a lost node says nothing of the job's own ways.
    later = [item for item in attempts if outcomes.get(item.attempt.restart_count - 1) not in _PUT_BACK_AFTER]
    by_itself = any(item.attempt.restart_count > 0 and not item.by_us for item in later)
    return "this job has requeued by itself before" if by_itself else ""


def _enough_nodes(asked: Asked) -> Reply:
    room = fit(asked.question, asked.plan.exclude)
    if room.answer is Answer.NO and asked.plan.exclude:
        return room.answer, f"{room.reason}; {NEEDS_A_PERSON}: free a node, or start it with the suspect", None
    job = asked.question.fleet.job
    if room.waits:
        return room.answer, room.reason, None
    own = set(job.nodes if job is not None and not job.state.is_over else ()) - set(asked.plan.exclude)
    if room.answer is Answer.YES and room.idle + len(own) < room.needed:
        return room.answer, f"{room.reason}; only {room.idle} are idle: it may have to queue", None
    return room.answer, room.reason, None


def _no_shared_cause(asked: Asked) -> Reply:
    storm, limits = asked.question.fleet.storm, asked.question.limits.storms
    waited = (
        park_until(ended_at(asked.question) or asked.question.incident.opened_at, limits, asked.question.now) is None
    )
    is_open = storm is not None and storm.cleared_at is None
    if waited and (is_open or asked.plan.awaits):
        return Answer.YES, f"it has waited for {limits.park_max_s / 3600:.0f} h, and is tried all the same", None
    if storm is not None and is_open:
        return Answer.NO, f"a storm is open {storm.place}: {storm.reason}", None
    if asked.plan.awaits:
        return Answer.NO, asked.plan.awaits, None
    if storm is None or storm.canary_stepped or storm.canary in (None, str(asked.question.incident.attempt)):
        return Answer.YES, "no shared cause is open", None
    return Answer.NO, "the storm has cleared; one job goes first, to its first step", None


def _no_quiet_hours(asked: Asked) -> Reply:
    quiet = asked.question.fleet.quiet
    if quiet is None:
        return Answer.YES, "there are no quiet hours now", None
    return Answer.NO, f"{quiet.words}: nothing begins before", quiet.until


def _permit_free(asked: Asked) -> Reply:
    most, count = asked.question.limits.restarts.at_once, asked.question.fleet.recoveries
    if count >= most:
        return Answer.NO, f"{count} of at most {most} recoveries are under way on the cluster", None
    free_at = asked.question.fleet.permit_free_at
    if free_at is None or free_at <= asked.question.now:
        return Answer.YES, "a permit for a restart is free", None
    return Answer.NO, "all permits for restarts are taken for the moment", free_at


def _scheduler_settled(asked: Asked) -> Reply:
    facts, grace_s = asked.question.fleet.facts, asked.question.limits.grace_after_boot_s
    if facts is None or facts.booted_at is None:
        return Answer.UNKNOWN, "the scheduler does not say since when it runs", None
    until = facts.booted_at + timedelta(seconds=grace_s)
    if asked.question.now >= until:
        return Answer.YES, f"the scheduler has run for more than {grace_s:.0f} s", None
    return Answer.NO, f"the scheduler was started less than {grace_s:.0f} s ago", until


def _no_in_job_restarter(asked: Asked) -> Reply:
    seen = asked.question.verdict.in_job_restart_at
    if place_of(asked.question) is not Place.LIVING:
        return Answer.YES, "the attempt is over, and any restarter inside it", None
    if seen is None:
        return Answer.YES, "no restarter inside the job was seen at work", None
    until = seen + timedelta(seconds=asked.question.limits.in_job_restart_grace_s)
    if asked.question.now >= until:
        return Answer.YES, "the restarter inside the job had its time", None
    return Answer.NO, "a restarter inside the job is at work", until


def _backoff_passed(asked: Asked) -> Reply:
    limits, count = asked.question.limits.restarts, restarts_since_progress(asked.question)
    if count == 0 or asked.plan.exclude:
        why = "the nodes change" if asked.plan.exclude else "it is the first restart since it made progress"
        return Answer.YES, why, None
    wait_s = min(limits.backoff_max_s, limits.backoff_first_s * 2.0 ** min(count - 1, 30))
    ended = ended_at(asked.question)
    until = (ended or asked.question.incident.opened_at) + timedelta(seconds=wait_s)
    if asked.question.now >= until:
        return Answer.YES, f"the pause of {wait_s:.0f} s has passed", None
    answer = Answer.UNKNOWN if ended is None else Answer.NO
    return answer, f"after {count} restarts without progress there is a pause of {wait_s:.0f} s", until


def settled_at(question: Question) -> datetime:
    """When the verdict is final: the settle time after the end, or after the last new root line was read."""
    marks = [ended_at(question), question.verdict.last_root_at]
    last = max([mark for mark in marks if mark is not None], default=question.incident.opened_at)
    return last + timedelta(seconds=question.limits.settle_s)


def unread_until(question: Question) -> datetime | None:
    """How long to wait for logs that are followed and not yet read to the attempt's end; None: not at all.

    An end that is heard of late, as after our own restart, leaves the watcher no less time to read. That a person or
    the scheduler decided is said where nothing had gone wrong before: of what is unread that cannot be said, so such a
    verdict waits for as long as a restart is possible at all. What the scheduler's own books say waits for nothing.
    """
    ended = ended_at(question)
    if place_of(question) is not Place.OVER or ended is None or question.read_to is None or question.read_to >= ended:
        return None
    limits, facts = question.limits, question.fleet.facts
    until = max(ended, question.incident.opened_at) + timedelta(seconds=limits.read_wait_s)
    if question.verdict.remedy is not Remedy.NONE or facts is None:
        return until
    # Twice the margin: what the logs say in the end still has to be decided on and carried out.
    return max(until, ended + timedelta(seconds=facts.min_job_age_s - 2 * limits.expiry_margin_s))


_PUT_BACK_AFTER = frozenset({JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED})

GUARDS: tuple[GuardRule, ...] = (
    GuardRule(
        name="attempt_over",
        yes_means="the attempt is over, or confirmed dead",
        ask=_attempt_over,
        event="the attempt ends",
        for_parking=True,
    ),
    GuardRule(
        name="view_fresh",
        yes_means="the look at the scheduler is fresh",
        ask=_view_fresh,
        event="the scheduler is looked at again",
        for_parking=True,
    ),
    GuardRule(
        name="nobody_decided",
        yes_means="the scheduler's books show no decision of a person or of the scheduler",
        ask=_nobody_decided,
        event="the scheduler's books can be read",
        for_parking=True,
    ),
    GuardRule(
        name="no_twin",
        yes_means="no other job is the same work",
        ask=_no_twin,
        event="the other job is gone, or known",
        for_parking=True,
    ),
    GuardRule(
        name="nobody_at_work",
        yes_means="nobody is at work in the job",
        ask=_nobody_at_work,
        event="they have finished",
        for_parking=True,
    ),
    GuardRule(
        name="verdict_final",
        yes_means="the settle time has passed",
        ask=_verdict_final,
        event="the settle time has passed",
        for_parking=True,
    ),
    GuardRule(
        name="no_own_requeue",
        yes_means="the job is not about to requeue by itself",
        ask=_no_own_requeue,
        event="its grace time has passed",
        for_parking=True,
    ),
    GuardRule(
        name="enough_nodes",
        yes_means="enough nodes remain",
        ask=_enough_nodes,
        event="a node becomes free, or a person decides",
    ),
    GuardRule(
        name="no_shared_cause",
        yes_means="no shared cause is open",
        ask=_no_shared_cause,
        event="the shared cause clears",
    ),
    GuardRule(
        name="no_quiet_hours",
        yes_means="there are no quiet hours",
        ask=_no_quiet_hours,
        event="the quiet hours end",
    ),
    GuardRule(
        name="permit_free",
        yes_means="a permit is free",
        ask=_permit_free,
        event="a permit becomes free",
    ),
    GuardRule(
        name="scheduler_settled",
        yes_means="the scheduler has run long enough since its start",
        ask=_scheduler_settled,
        event="its grace time has passed",
        unknown_holds=False,
        for_parking=True,
    ),
    GuardRule(
        name="no_in_job_restarter",
        yes_means="no restarter inside the job is at work",
        ask=_no_in_job_restarter,
        event="the restarter has had its time",
        unknown_holds=False,
    ),
    GuardRule(
        name="backoff_passed",
        yes_means="the back-off has passed",
        ask=_backoff_passed,
        event="the back-off has passed",
        unknown_holds=False,
    ),
)
"""The guards, in the order in which they are asked and shown."""
