"""Whether a partition may go from observe to act, by figures (operators.md 4, promotion). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.recovery import wordings
from relance.recovery.proving.ends import ends
from relance.recovery.proving.hands import Case
from relance.recovery.proving.misses import Run
from relance.recovery.proving.values import Promotion

ENOUGH_DAYS = 14.0
ENOUGH_INCIDENTS = 30
_DAY_S = 86_400.0


def promotions(
    runs: list[Run],
    cases: list[Case],
    progress: Mapping[AttemptKey, Progress],
    since: datetime,
    now: datetime,
) -> tuple[Promotion, ...]:
    """One answer per partition: 14 days watched, 30 incidents, and no false advice to end a running attempt.

    Days count from the earliest attempt that is known in the window, at most as far as the report looks back.
    """
    names = sorted({record.partition for record, _ in runs} | {case.record.partition for case in cases})
    return tuple(
        _promotion(
            name,
            [run for run in runs if run[0].partition == name],
            [case for case in cases if case.record.partition == name],
            progress,
            (since, now),
        )
        for name in names
    )


def _promotion(
    partition: str,
    runs: list[Run],
    cases: list[Case],
    progress: Mapping[AttemptKey, Progress],
    window: tuple[datetime, datetime],
) -> Promotion:
    since, now = window
    began = min((attempt.started_at for _, attempt in runs if attempt.started_at is not None), default=now)
    days = (now - max(began, since)).total_seconds() / _DAY_S
    found = ends(cases, progress)
    missing: list[str] = []
    looked = (now - since).total_seconds() / _DAY_S
    if days < ENOUGH_DAYS and looked < ENOUGH_DAYS:
        known = f"{days:.0f} of the {looked:.0f} days that this report looks back"
        missing.append(f"it knows {known}, and {ENOUGH_DAYS:.0f} are needed: --since 30d looks further")
    elif days < ENOUGH_DAYS:
        missing.append(f"watched for {days:.0f} of {ENOUGH_DAYS:.0f} days")
    if len(cases) < ENOUGH_INCIDENTS:
        missing.append(f"{len(cases)} of {ENOUGH_INCIDENTS} incidents")
    if found.false:
        times = wordings.count(found.false, "time")
        missing.append(f"{times} it would have ended an attempt that later made a step; none is allowed")
    if found.not_known:
        times = wordings.count(found.not_known, "time")
        missing.append(f"{times} it would have ended an attempt of which no step is known: look at them by hand")
    return Promotion(
        partition=partition,
        days=days,
        incidents=len(cases),
        false_ends=found.false,
        not_known_ends=found.not_known,
        ready=not missing,
        missing=tuple(missing),
    )
