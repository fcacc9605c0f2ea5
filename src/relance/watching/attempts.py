"""One followed attempt: its memory, what is to be handed over of it, and what trouble there was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from relance.domain.findings import Coverage, Finding, Sight
from relance.domain.observations import Attachment, WatcherBatch
from relance.domain.replacing import replace
from relance.domain.views import Assignment
from relance.ports.signals import Signals
from relance.ports.sources import Reading
from relance.watching.checkpoints import Checkpoint, to_text
from relance.watching.pipelines import Memory, Pipeline, after_clock_step
from relance.watching.settings import WatcherSettings


class Attempt:
    """An attempt that is followed. Its lock is held by whoever changes it."""

    def __init__(
        self, assignment: Assignment, pipeline: Pipeline, checkpoint: Checkpoint, settings: WatcherSettings
    ) -> None:
        """Begin from a checkpoint."""
        self.assignment = assignment
        self.lock = asyncio.Lock()
        self.positions: dict[str, Mapping[str, object]] = dict(checkpoint.positions)
        self.trouble = ""
        """What went wrong with reading this attempt, in words; nobody else's reading stops for it."""
        self.retry_s = 0.0
        self.retry_at = 0.0
        self.sent_at = -1e9
        """When something was handed over last, by the monotonic clock."""
        self.kept_at = -1e9
        """The same of a checkpoint."""
        self.has_finding = False
        self.left_at: float | None = None
        self._pipeline = pipeline
        self._settings = settings
        self._memory: Memory = checkpoint.memory
        self._seen: dict[str, datetime] = {}
        self._heard: dict[str, datetime] = {}
        """Up to when the sources of signals are known by which its steps come."""
        self._coverage: dict[str, tuple[Coverage, ...]] = {}
        self._findings: list[Finding] = []
        self._ahead_bytes = 0
        self._noticed = False
        self._read_to_end = False
        self._end_told = False
        self._tails_kept: set[tuple[str, int, int]] = set()
        self._tails_at_start = False
        self._tails_at_end = False

    def take(self, readings: Sequence[tuple[str, Reading]], sources: int) -> None:
        """Take what one round of reading gave; silence counts once all of so many sources were read to their end."""
        for name, reading in readings:
            self.positions[name] = reading.positions
            self._coverage[name] = reading.coverage
            self._ahead_bytes += sum(len(block.data) for block in reading.blocks)
            if reading.seen is not None:
                self._seen[name] = reading.seen.at
        seen = self._seen | self._heard if len(self._seen) == sources else {}
        if not self._memory.steps_from <= self._heard.keys():
            seen = {}  # its steps come as signals, and it is not known up to when
        before, ended_at = self._memory.watermark, self.assignment.ended_at
        outcome = self._pipeline.take(self._memory, readings, seen, self.assignment)
        self._keep(outcome.memory, outcome.findings)
        moved = outcome.memory.watermark > before
        self._read_to_end = self._read_to_end or (moved and ended_at is not None and self._is_over)
        self._noticed = self._noticed or outcome.noticed

    def hear(self, name: str, signals: Signals, up_to: datetime | None) -> None:
        """Take what a source of signals has new; `up_to` is up to when that source is known.

        A silence of steps that come as signals counts only as far as these are known.
        """
        self._coverage[name] = signals.coverage
        outcome = self._pipeline.hear(self._memory, name, signals.signals, self.assignment)
        self._keep(outcome.memory, outcome.findings)
        self._noticed = self._noticed or outcome.noticed
        if up_to is not None and name in self._memory.steps_from:
            self._heard[name] = up_to

    @property
    def is_in_doubt(self) -> bool:
        """Whether more is to be asked about it: an incident is open, something was found, or it may hang."""
        return self.assignment.keep_tail or self.has_finding or self._memory.watch.hang.suspected

    @property
    def save_folder(self) -> str | None:
        """Where its lines say that it saves: a folder whose growth is life."""
        return self._memory.save_folder

    @property
    def learned(self) -> str | None:
        """The pattern of lines by which its steps were learned; None: they are of a known format, or not known."""
        shape = self._memory.reader.learning.shape
        return None if shape is None else shape.pattern

    def clock_stepped(self, by: timedelta) -> None:
        """The wall clock was set forward by so much, or back."""
        self._memory = after_clock_step(self._memory, by)
        self._seen = {name: at + by for name, at in self._seen.items()}
        self._heard = {name: at + by for name, at in self._heard.items()}

    def finish(self, now: datetime) -> None:
        """The attempt is over and is read no more: what is still held back is told."""
        case = replace(self.assignment, ended_at=self.assignment.ended_at or now)
        at = max(now, self._memory.watermark + timedelta(microseconds=1))
        outcome = self._pipeline.take(self._memory, (), {"end": at}, case)
        self._keep(outcome.memory, outcome.findings)
        self._read_to_end = self._noticed = True

    @property
    def is_far_ahead(self) -> bool:
        """Whether so much waits to be handed over that no more may be read."""
        settings = self._settings
        return self._ahead_bytes >= settings.ahead_bytes or len(self._findings) >= settings.findings_ahead

    def is_due(self, now: float) -> bool:
        """Whether to hand over now, by the monotonic clock."""
        if now < self.retry_at:
            return False
        if self._read_to_end and not self._end_told:
            return True  # a decision may wait for the word that the logs were read to the attempt's end
        since_s = now - self.sent_at
        watched_closely = self._noticed or self.has_finding or self.assignment.keep_tail
        return bool(self._findings) or since_s >= (
            self._settings.submit_s if watched_closely else self._settings.heartbeat_s
        )

    def wants_checkpoint(self, now: float) -> bool:
        """Whether the checkpoint goes with what is handed over now, by the monotonic clock.

        It always goes with findings, which came of it; while nothing is wrong, now and then.
        """
        news = bool(self._findings) or (self._read_to_end and not self._end_told) or self.left_at is not None
        old = now - self.kept_at >= self._settings.checkpoint_s or self._ahead_bytes >= self._settings.unkept_bytes
        return news or old or self.is_in_doubt

    def batch(self, holder: str, now: datetime, *, with_checkpoint: bool = True) -> WatcherBatch:
        """All that is to be handed over, and the checkpoint of now."""
        kept = to_text(Checkpoint(positions=self.positions, memory=self._memory)) if with_checkpoint else None
        return WatcherBatch(
            attempt=self.assignment.attempt,
            holder=holder,
            as_of=now,
            findings=tuple(self._findings),
            progress=self._memory.progress.progress,
            checkpoint=kept,
            coverage=self.coverage(),
            read_to_end=self._read_to_end,
        )

    def handed_over(self, batch: WatcherBatch, now: float) -> None:
        """The server has this batch."""
        sent = {finding.id for finding in batch.findings}
        self._findings = [finding for finding in self._findings if finding.id not in sent]
        if batch.checkpoint is not None:
            self._ahead_bytes, self.kept_at = 0, now
        self._noticed = False
        self._end_told = batch.read_to_end
        self.retry_s = self.retry_at = 0.0
        self.sent_at = now

    def failed(self, now: float) -> None:
        """The server could not be reached: later again, and later each time."""
        settings = self._settings
        self.retry_s = min(max(self.retry_s * 2, settings.retry_first_s), settings.retry_most_s)
        self.retry_at = now + self.retry_s

    @property
    def tells_its_end(self) -> bool:
        """Whether what is handed over next says that its logs were read to the attempt's end: a restart may follow."""
        return self._read_to_end and not self._end_told

    @property
    def wants_tails(self) -> bool:
        """Whether the last parts of its logs are to be kept now: once when something was found, once at the end."""
        if not (self.has_finding or self.assignment.keep_tail):
            return False
        return not self._tails_at_start or (self._is_over and not self._tails_at_end)

    def new_tails(self, tails: Sequence[Attachment]) -> list[Attachment]:
        """Those that were not kept already, as they are."""
        return [each for each in tails if _place_of(each) not in self._tails_kept]

    def tails_taken(self, tails: Sequence[Attachment]) -> None:
        """They have been handed over."""
        self._tails_kept |= {_place_of(each) for each in tails}
        self._tails_at_start = True
        self._tails_at_end = self._is_over

    def coverage(self) -> tuple[Coverage, ...]:
        """What was seen of each source, and what went wrong here."""
        own = []
        if self.trouble:
            own.append(Coverage(source="watcher", sight=Sight.LAGGING, note=self.trouble, scope=None))
        if self._pipeline.problem:
            own.append(
                Coverage(source="progress pattern", sight=Sight.REFUSED, note=self._pipeline.problem, scope=None)
            )
        if note := self._memory.reader.learned_note:
            own.append(Coverage(source="progress", sight=Sight.SEEN, note=note, scope=None))
        return (*own, *(entry for entries in self._coverage.values() for entry in entries))

    @property
    def _is_over(self) -> bool:
        ended_at = self.assignment.ended_at
        return ended_at is not None and self._memory.watermark >= ended_at

    def _keep(self, memory: Memory, findings: tuple[Finding, ...]) -> None:
        self._memory = memory
        coverage = self.coverage()
        self._findings += [replace(finding, coverage=coverage) for finding in findings]
        self.has_finding = self.has_finding or bool(findings)


def _place_of(attachment: Attachment) -> tuple[str, int, int]:
    return attachment.file, attachment.start_offset, len(attachment.data)
