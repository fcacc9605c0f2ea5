"""Parking: an ended job put back into the queue with a start time ahead, so that it outlives the scheduler's memory.

It waits there for what keeps it from starting, and starts by itself if we die (design 8).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from relance.domain.advice import Answer, Guard
from relance.policy.attempts import Place, ended_at, place_of
from relance.policy.guards import GuardRule
from relance.policy.plans import Plan
from relance.policy.questions import Question
from relance.policy.storms import RENEW_BEFORE, park_until

MIN_JOB_AGE_S = 300.0
"""How long Slurm remembers an ended job by default; taken where the scheduler's own facts are not known."""
SHARED_CAUSE = "no_shared_cause"
"""The name of the guard that a storm, or a remedy of wait, answers with no."""
_QUIET = "no_quiet_hours"
_ROOM = "enough_nodes"
_TURNS = frozenset({"permit_free", "backoff_passed"})
"""What holds a job until its turn comes: short, as a rule, and parked only where it would take too long."""
_IN_TIME_S = 60.0
"""So long before the scheduler forgets it a job that waits for its turn is parked: parking has to be claimed too."""


def parks(question: Question, chosen: Plan, held_by: tuple[GuardRule, ...], guards: tuple[Guard, ...]) -> bool:
    """Whether an ended job is parked instead of waiting for what keeps it from starting.

    That is a shared cause, quiet hours, a person who has to choose because there is no room without a node that is
    surely bad, or a turn that would come too late. Waiting would lose the job for good, because the scheduler forgets
    an ended one after a while.
    """
    names = frozenset(rule.name for rule in held_by)
    if any(rule.for_parking for rule in held_by) or chosen.successor or not chosen.action.restarts:
        return False
    place = place_of(question)
    no_room = any(guard.name == _ROOM and guard.answer is Answer.NO for guard in guards)
    waits = bool(names & {SHARED_CAUSE, _QUIET})
    waits = waits or (no_room and bool(chosen.exclude) and _usual_end(question) is not None)
    waits = waits or (bool(names & _TURNS) and (place is not Place.OVER or _comes_too_late(question, guards)))
    if not waits or until(question, held_by) is None:
        return False
    return place is Place.OVER or _wants_renewal(question, place)


def until(question: Question, held_by: Collection[GuardRule]) -> datetime | None:
    """Until when a job is parked; None where it has been parked for the longest time allowed.

    Over quiet hours it is to their end, however long they are, and the usual time beyond it: at their end jobs are let
    go one after another, and only what is not starts by itself then.
    """
    ends = [_usual_end(question)]
    quiet = question.fleet.quiet
    if quiet is not None and any(rule.name == _QUIET for rule in held_by):
        ends.append(quiet.until + timedelta(seconds=question.limits.storms.park_s))
    return max((end for end in ends if end is not None), default=None)


def forgotten_at(question: Question) -> datetime | None:
    """When the scheduler may forget the attempt, which has ended; None where its end is not known."""
    ended, facts = ended_at(question), question.fleet.facts
    if ended is None:
        return None
    return ended + timedelta(seconds=facts.min_job_age_s if facts is not None else MIN_JOB_AGE_S)


def _usual_end(question: Question) -> datetime | None:
    since = ended_at(question) or question.incident.opened_at
    return park_until(since, question.limits.storms, question.now)


def _comes_too_late(question: Question, guards: tuple[Guard, ...]) -> bool:
    """Whether the job's turn comes, or may come, when the scheduler has forgotten it."""
    forgotten = forgotten_at(question)
    if forgotten is None:
        return False
    storms, ahead = question.limits.storms, question.fleet.restarts_ahead
    times = [guard.ask_again_at for guard in guards if guard.name in _TURNS and guard.answer is Answer.NO]
    first = max((at for at in times if at is not None), default=question.now)
    turn = first + timedelta(seconds=ahead * storms.bucket_refill_s)
    spare_s = (
        _IN_TIME_S + question.limits.expiry_margin_s + ahead * storms.park_refill_s
    )  # those ahead are parked first
    return turn + timedelta(seconds=spare_s) >= forgotten


def _wants_renewal(question: Question, place: Place) -> bool:
    """Whether a job that we parked is about to start by itself."""
    job = question.fleet.job
    if place is not Place.REQUEUED or not question.incident.is_parked or job is None or job.eligible_at is None:
        return False
    given = question.incident.advice.park_until if question.incident.advice is not None else None
    if given is not None and given - question.now > RENEW_BEFORE:
        # A look from before our update shows the time of the requeue; an earlier time since then is a person's.
        return False
    return job.eligible_at - question.now <= RENEW_BEFORE
