"""One followed attempt: its tracks in a store, and what a read of it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.observations import SeenUpTo
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.sources.stores.blocks import BlockMaker, Sizes
from relance.sources.stores.labels import Labels
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of, span_ns, time_of
from relance.sources.stores.tracks import Line, Track

VERSION: Final = 1


class Following:
    """An attempt that is followed in a store.

    Args:
        assignment: The attempt.
        positions: Where an earlier source stopped with it; what makes no sense is as nothing.
        labels: How labels name it.
        settings: The settings of the source.
        now: The time, from which on an attempt counts that has not started.
    """

    def __init__(
        self,
        assignment: Assignment,
        positions: Mapping[str, object] | None,
        labels: Labels,
        settings: StoreSourceSettings,
        now: datetime,
    ) -> None:
        self.assignment = assignment
        self.job_value = labels.job_value(assignment.attempt)
        self.told_at = -1e9
        """When it was last told that it has something new, by the monotonic clock."""
        self.progress_at = -1e9
        """When lines that tell of progress were last fetched, by the monotonic clock."""
        self.reads_all = False
        """Whether all its lines travel because the store does not take a pattern of its own."""
        self.sampled_to_ns = 0
        """Up to when samples of all lines were taken."""
        self._samples: list[Line] = []
        self._seen_ns = 0
        self._labels = labels
        self._settings = settings
        self._sizes = Sizes(settings.streams)
        self.own_since_ns = ns_of(self.begins_at(now))
        """From when on the job's lines are this attempt's."""
        self.own = Track(self.own_since_ns, settings.identities)
        """Its own output."""
        self.kernel: Track | None = None
        """The kernel logs of its nodes."""
        if labels.has_kernel_logs:
            since = ns_of(assignment.started_at or now) - span_ns(settings.before_s)
            self.kernel = Track(since, settings.kernel_identities)
        if positions is not None and positions.get("attempt") == str(assignment.attempt):
            self._restore(positions)

    @property
    def tracks(self) -> tuple[Track, ...]:
        """All its tracks."""
        return (self.own,) if self.kernel is None else (self.own, self.kernel)

    def is_news(self, now_s: float) -> bool:
        """Whether it is to be read now, by the monotonic clock."""
        if self.has_more:
            return True
        read_to = self._read_to_ns()
        moved = read_to is None or read_to > self._seen_ns
        return (
            all(track.is_read or track.is_over for track in self.tracks)
            and moved
            and now_s - self.told_at >= self._settings.told_s
        )

    def begins_at(self, now: datetime) -> datetime:
        """From when on the job's lines are this attempt's; `now` counts where it has not started."""
        key = self.assignment.attempt
        since = self.assignment.started_at or (now if key.restart_count else key.job.submitted_at)
        back_s = self._settings.between_s if key.restart_count else self._settings.before_s
        return time_of(ns_of(since) - span_ns(back_s))

    def update(self, assignment: Assignment, next_begins_at: datetime | None) -> None:
        """Take a newer assignment; `next_begins_at` is when the job's next attempt begins, where there is one."""
        self.assignment = assignment
        ended_at = assignment.ended_at
        for track in self.tracks:
            ends = [] if ended_at is None else [ns_of(ended_at) + span_ns(self._settings.after_s)]
            if next_begins_at is not None and track is self.own:
                ends.append(ns_of(next_begins_at))
            track.until_ns = min(ends, default=None)

    @property
    def has_room(self) -> bool:
        """Whether more may be fetched for it."""
        waiting = sum(track.waiting_lines for track in self.tracks)
        size = sum(track.waiting_bytes for track in self.tracks)
        return size < self._settings.pending_bytes and waiting < self._settings.pending_lines

    @property
    def has_more(self) -> bool:
        """Whether a read would give lines."""
        return bool(self._samples) or any(track.has_more for track in self.tracks)

    def take_samples(self, lines: list[Line], to_ns: int) -> None:
        """Take lines of a sample, which count up to a time; what waits of an earlier one has had its time."""
        self._samples = lines
        self.sampled_to_ns = to_ns
        self.own.heard = self.own.heard or bool(lines)

    def read(self, now: datetime) -> Reading:
        """What is there and was not delivered, within the budget of one read."""
        maker = BlockMaker(self._settings, self._sizes, self._place, now)
        left = self._settings.read_bytes
        blocks = maker.blocks(self._samples, Scope.APPLICATION)
        self._samples = []
        for track, scope in zip(self.tracks, (Scope.APPLICATION, Scope.KERNEL), strict=False):
            made = maker.blocks(track.deliver(left), scope) if left > 0 else []
            left -= sum(len(block.data) for block in made)
            blocks += made
        return Reading(
            blocks=tuple(blocks),
            positions=self._positions(),
            coverage=self._coverage(),
            seen=self._seen(now),
            more=self.has_more,
            is_shipped=True,
        )

    def _read_to_ns(self) -> int | None:
        """Up to when its silence is known; None where nothing more can come of it."""
        return min((track.read_to_ns or 0 for track in self.tracks if not track.is_over), default=None)

    def _seen(self, now: datetime) -> SeenUpTo | None:
        if self.has_more or not all(track.is_read or track.is_over for track in self.tracks):
            return None
        read_to = self._read_to_ns()
        if read_to is None:
            read_to = ns_of(now) - span_ns(self._settings.delay_s)
        self._seen_ns = max(read_to, self._seen_ns)
        return SeenUpTo(source=self._settings.name, at=time_of(self._seen_ns))

    def _positions(self) -> dict[str, object]:
        found: dict[str, object] = {
            "version": VERSION,
            "attempt": str(self.assignment.attempt),
            "own": self.own.positions(),
            "sizes": self._sizes.to_json(),
            "sampled_to_ns": self.sampled_to_ns,
        }
        if self.kernel is not None:
            found["kernel"] = self.kernel.positions()
        return found

    def _restore(self, positions: Mapping[str, object]) -> None:
        if positions.get("version") != VERSION or not self.own.restore(positions.get("own")):
            return
        self._sizes.restore(positions.get("sizes"))
        sampled = positions.get("sampled_to_ns")
        self.sampled_to_ns = sampled if isinstance(sampled, int) else 0
        if self.kernel is not None:
            self.kernel.restore(positions.get("kernel"))

    def _coverage(self) -> tuple[Coverage, ...]:
        name = self._settings.name
        entries = [self._entry(name, self.own, "no line of this job was found: see that the label of jobs is right")]
        if not self.own.heard and not self.sampled_to_ns:
            entries = [_unknown_where_filtered(entries[0], self.own)]
        if self.kernel is not None:
            kernel = self._entry(f"{name} kernel logs", self.kernel, "no kernel line of its nodes was found")
            entries.append(replace(_unknown_where_filtered(kernel, self.kernel), scope=Scope.KERNEL))
        return tuple(entries)

    def _entry(self, source: str, track: Track, silent: str) -> Coverage:
        up_to = None if track.read_to_ns is None else time_of(track.read_to_ns)
        if track.trouble:
            return Coverage(source=source, sight=Sight.LAGGING, up_to=up_to, note=track.trouble)
        if up_to is None or not track.is_read:
            return Coverage(source=source, sight=Sight.LAGGING, up_to=up_to, note="not read to its end yet")
        if track.is_apart:
            return Coverage(
                source=source, sight=Sight.LAGGING, up_to=up_to, note="it has more lines than were read yet"
            )
        if not track.heard:
            return Coverage(source=source, sight=Sight.MISSING, up_to=up_to, note=silent)
        return Coverage(source=source, sight=Sight.SEEN, up_to=up_to)

    def _place(self, labels: Mapping[str, str]) -> tuple[str | None, int | None]:
        return self._labels.node_of(labels, self.assignment.nodes), self._labels.rank_of(labels)


def _unknown_where_filtered(entry: Coverage, track: Track) -> Coverage:
    """Of lines that few logs ever have none may have come although all of the log is in the store."""
    if entry.sight is not Sight.MISSING or not track.is_filtered:
        return entry
    note = "none of the lines that rules ask for has come, so it is not known whether any would"
    return replace(entry, sight=Sight.UNKNOWN, note=note)
