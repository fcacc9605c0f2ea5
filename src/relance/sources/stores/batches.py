"""Batches: which attempts are asked for together, so that a thousand of them take a handful of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from relance.domain.faults import Scope
from relance.sources.stores.backs import Entry, Selection
from relance.sources.stores.following import Following
from relance.sources.stores.labels import Labels
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import span_ns
from relance.sources.stores.tracks import Track


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """One track in a batch, with the values of the label by which its streams are found."""

    following: Following
    track: Track
    values: tuple[str, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """Tracks of one kind that are read from about the same time on, by one filter."""

    scope: Scope
    lines: str
    seats: list[Seat] = field(default_factory=list)
    names: dict[str, list[Seat]] = field(default_factory=dict)
    size_bytes: int = 0

    @property
    def since_ns(self) -> int:
        """From when on to read."""
        return min(seat.track.floor_ns for seat in self.seats)

    def halves(self) -> tuple[Batch, Batch]:
        """The same in two."""
        parts = Batch(scope=self.scope, lines=self.lines), Batch(scope=self.scope, lines=self.lines)
        for number, seat in enumerate(self.seats):
            parts[2 * number >= len(self.seats)].add(seat)
        return parts

    def add(self, seat: Seat) -> None:
        """Have a track read with the others."""
        self.seats.append(seat)
        for value in seat.values:
            if value not in self.names:
                self.size_bytes += len(value.encode()) + 1
            self.names.setdefault(value, []).append(seat)


def batches_of(seats: Iterable[tuple[Scope, str, Seat]], settings: StoreSourceSettings, names: int) -> list[Batch]:
    """Tracks as batches of at most so many names; each track comes with its kind and its filter."""
    apart_ns = span_ns(settings.apart_s)
    open_now: dict[tuple[Scope, str], Batch] = {}
    found: list[Batch] = []
    for scope, lines, seat in sorted(seats, key=lambda each: each[2].track.floor_ns):
        if seat.track.is_apart:
            found.append(Batch(scope=scope, lines=lines))
            found[-1].add(seat)
            continue
        batch = open_now.get((scope, lines))
        if (
            batch is None
            or seat.track.floor_ns - batch.seats[0].track.floor_ns > apart_ns
            or len(batch.names) + len(seat.values) > names
            or batch.size_bytes + sum(len(value.encode()) + 1 for value in seat.values) > settings.query_bytes
        ):
            batch = open_now[scope, lines] = Batch(scope=scope, lines=lines)
            found.append(batch)
        batch.add(seat)
    return found


def parts_of(
    scope: Scope, values: Sequence[str], lines: str, labels: Labels, limits: tuple[int, int]
) -> list[Selection]:
    """Selections of streams by the values of their label: so many values, and bytes of them, in each."""
    most, most_bytes = limits
    chunks: list[list[str]] = []
    room = 0
    for value in values:
        size = len(value.encode()) + 1
        if not chunks or len(chunks[-1]) >= most or size > room:
            chunks.append([])
            room = most_bytes
        chunks[-1].append(value)
        room -= size
    make = labels.of_kernels if scope is Scope.KERNEL else labels.of_jobs
    return [make(chunk, lines) for chunk in chunks]


def value_of(entry: Entry, scope: Scope, labels: Labels, node_label: str) -> str:
    """The value by which an entry's stream was asked for."""
    return entry.labels.get(node_label, "") if scope is Scope.KERNEL else labels.job_of(entry.labels)
