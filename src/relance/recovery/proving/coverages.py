"""Figure (d): how much of what ran was seen, by GPU-hours or node-hours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.events import AttemptMeasured
from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey
from relance.domain.records import AttemptRecord
from relance.recovery.proving.misses import Run
from relance.recovery.proving.values import CoverageRow

EVERY = "all"
"""The name of the row over all partitions."""
MEASURED_WITHIN = timedelta(minutes=10)
"""A watcher reads an attempt's logs for 2 minutes after its end, and hands over what it has when the server is back."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """The run of one attempt inside the window. `measure` is None for one that was not followed to its end."""

    partition: str
    hours: float
    nodes: int
    gpus: int | None
    is_known: bool
    measure: AttemptMeasured | None


def coverage(
    runs: Iterable[Run], seen: Mapping[AttemptKey, AttemptMeasured], since: datetime, now: datetime
) -> tuple[CoverageRow, ...]:
    """Coverage by partition, and of all; the part of a run outside the window does not count.

    hours = run time x GPUs where the GPUs of every attempt of the row are known, else run time x nodes. An attempt that
    ended and was not measured was not followed; one that ended before measures were kept or a few minutes ago, and one
    that runs and of which nothing is seen yet, is not known and counts in `hours` alone.
    """
    pieces = [piece for run in runs if (piece := _piece(run, seen, since, now)) is not None]
    names = sorted({piece.partition for piece in pieces})
    rows = [_row(name, [piece for piece in pieces if piece.partition == name]) for name in names]
    return (*rows, _row(EVERY, pieces))


def run_within(run: Run, since: datetime, now: datetime) -> float:
    """Seconds that an attempt ran inside the window."""
    attempt = run[1]
    if attempt.started_at is None or (attempt.outcome is not None and attempt.ended_at is None):
        return 0.0
    return max(0.0, (min(attempt.ended_at or now, now) - max(attempt.started_at, since)).total_seconds())


def _piece(run: Run, seen: Mapping[AttemptKey, AttemptMeasured], since: datetime, now: datetime) -> _Piece | None:
    record, attempt = run
    run_s = run_within(run, since, now)
    if run_s == 0:
        return None
    measure = attempt.measure or seen.get(attempt.attempt)
    return _Piece(
        partition=record.partition,
        hours=run_s / _HOUR_S,
        nodes=len(attempt.nodes) or record.node_count,
        gpus=attempt.gpu_count,
        is_known=measure is not None or _is_too_late(attempt, now),
        measure=measure,
    )


def _is_too_late(attempt: AttemptRecord, now: datetime) -> bool:
    """Whether a measure of it would be here by now, had anybody followed it."""
    return attempt.is_measured and attempt.ended_at is not None and now - attempt.ended_at > MEASURED_WITHIN


def _row(partition: str, pieces: list[_Piece]) -> CoverageRow:
    gpus = [piece.gpus for piece in pieces if piece.gpus is not None]
    by_gpu = bool(pieces) and len(gpus) == len(pieces) and sum(gpus) > 0

    def total(chosen: Iterable[_Piece]) -> float:
        return sum(piece.hours * ((piece.gpus or 0) if by_gpu else piece.nodes) for piece in chosen)

    return CoverageRow(
        partition=partition,
        attempts=len(pieces),
        unit="GPU" if by_gpu else "node",
        hours=total(pieces),
        known=total(piece for piece in pieces if piece.is_known),
        read=total(piece for piece in pieces if piece.measure and piece.measure.log is Sight.SEEN),
        progress=total(piece for piece in pieces if piece.measure and piece.measure.steps_seen > 0),
        kernel=total(piece for piece in pieces if piece.measure and piece.measure.kernel is Sight.SEEN),
    )
