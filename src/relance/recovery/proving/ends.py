"""Figure (a): advice to end a RUNNING attempt that later made a step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.recovery.figures import counts
from relance.recovery.proving.hands import Case
from relance.recovery.proving.values import MOST_LISTED, Ends, FalseEnd, subject_of


def ends(cases: Iterable[Case], progress: Mapping[AttemptKey, Progress]) -> Ends:
    """How often such advice was given, and when it was wrong.

    An advice counts once per incident, from its first generation that might begin. It was wrong if the newest step of
    the same attempt has a later time than that. `progress` is asked for attempts that were not measured at their end:
    those that still run. A step whose line has no time of its own has the time at which it was read, so an old step
    that was read late counts against us.
    """
    advised = [case for case in cases if case.incident.advised.end_at is not None]
    wrong: list[FalseEnd] = []
    not_known = 0
    for case in advised:
        step, step_at = _newest_step(case, progress)
        if step_at is None:
            not_known += 1
        elif (false := _false_end(case, step, step_at)) is not None:
            wrong.append(false)
    wrong.sort(key=lambda item: item.advised_at, reverse=True)
    return Ends(
        advised=len(advised),
        kinds=counts(case.incident.advised.end_for.value for case in advised if case.incident.advised.end_for),
        false=len(wrong),
        not_known=not_known,
        listed=tuple(wrong[:MOST_LISTED]),
    )


def _newest_step(case: Case, progress: Mapping[AttemptKey, Progress]) -> tuple[int | None, datetime | None]:
    measure, running = case.attempt.measure, progress.get(case.attempt.attempt)
    known = [(measure.last_step, measure.last_step_at)] if measure else []
    known += [(running.step, running.step_at)] if running else []
    timed = [(step, at) for step, at in known if at is not None]
    return max(timed, key=lambda pair: pair[1], default=(None, None))


def _false_end(case: Case, step: int | None, step_at: datetime) -> FalseEnd | None:
    advised = case.incident.advised
    if advised.end_at is None or advised.end_for is None or step_at <= advised.end_at:
        return None
    return FalseEnd(
        subject=subject_of(case.record, case.attempt.attempt),
        incident_id=case.incident.id,
        advice_id=advised.end_id,
        kind=advised.end_for,
        advised_at=advised.end_at,
        step=step,
        step_at=step_at,
    )
