"""The steps and announcements of one block, turned into marks one after the other."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

from relance.domain.log_texts import LogText, line_start
from relance.domain.log_times import dated
from relance.domain.observations import LogBlock
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, ProgressMark, StepSeen
from relance.domain.replacing import replace
from relance.progress.dialects import SAME, StepText, Told
from relance.progress.marks import MarkText

_TIME_BYTES: Final = 110
"""How far before a mark its time may stand."""
_MOST_DIGITS: Final = 15
_OTHER_BARS: Final = 1000
"""So many bars of another length without one of the known length, and theirs is the one that tells steps."""
_STAMP = re.compile(rb"[^\d\[]{0,2}\d{0,6}[^\d\[]{0,3}\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{6}|\.\d{3})?)\] *")
"""A time in brackets with nothing before it that could be another one; such as Megatron-LM writes before a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What marks need to know of those before them.

    `number` is the last step that a line bore. `saving` is the step at which a save began that the next step proves
    whole, `saving_step` and `saving_path` are what its line named. `bar_total` is the length of the bar that tells
    steps, `other_bars` counts those of another length since.
    """

    number: int | None = None
    saving: int | None = None
    saving_step: int | None = None
    saving_path: str | None = None
    bar_total: int | None = None
    other_bars: int = 0


NOTHING_CARRIED: Final = Carried()
"""Before the first block."""


class Fold:
    """The marks of one block."""

    def __init__(self, block: LogBlock, log: LogText, zone: tzinfo, *, is_learned: bool) -> None:
        self.marks: list[ProgressMark] = []
        self.last: int | None = None
        """The step of the last mark, if that was a step."""
        self.counted = 0
        self.loading_step: int | None = None
        self.loading_path: str | None = None
        self.loaded = False
        self._block, self._log, self._zone = block, log, zone
        self._is_learned = is_learned
        self._number: int | None = None
        self._saving: int | None = None
        self._saving_step: int | None = None
        self._saving_path: str | None = None
        self._bar_total: int | None = None
        self._other_bars = 0
        self._total_text: bytes | None = None
        self._total: int | None = None
        """The last total, which is mostly the same."""

    def resume(self, carried: Carried, last: int | None, counted: int) -> None:
        """Go on from where the block before ended."""
        self.last, self.counted = last, counted
        self._number = carried.number
        self._saving, self._saving_step, self._saving_path = carried.saving, carried.saving_step, carried.saving_path
        self._bar_total, self._other_bars = carried.bar_total, carried.other_bars

    def load(self, step: int | None, path: str | None, *, loaded: bool) -> None:
        """Go on with a load that was announced."""
        self.loading_step, self.loading_path, self.loaded = step, path, loaded

    def carried(self) -> Carried:
        """What the next block needs."""
        return Carried(
            number=self._number,
            saving=self._saving,
            saving_step=self._saving_step,
            saving_path=self._saving_path,
            bar_total=self._bar_total,
            other_bars=self._other_bars,
        )

    def take_step(self, position: int, told: StepText) -> None:
        """Take a line that tells a step, or more of the one before it."""
        text = told.step
        if text == SAME or (not text and self._number is not None):
            self._more(position, told)
            return
        if not text:
            step: int | None = self.counted + 1
        elif told.is_bar and not self._is_ours(position, told):
            return
        else:
            step = _whole(text)
        if step is None or step == self.last:
            if told.is_more and step is not None:
                self._more(position, told)
            return
        if text:
            self._number = step
        else:
            self.counted = step
        seen = self._seen(position, told, step)
        if self._saving is not None:
            self._prove_saved(step, seen.at)
        self.marks.append(seen)
        self.last = step

    def take_mark(self, position: int, mark: MarkText) -> None:
        """Take a line that announces something."""
        step, path = _whole(mark.values.get("step")), _text(mark.values.get("path"))
        at, _ = self._where(position)
        self.last = None
        told = mark.told
        if told is Told.STARTS_AT:
            if not self.loaded and step == 1:
                self.marks.append(CheckpointSeen(at=at, event=CheckpointEvent.COLD))
            self.marks.append(PhaseSeen(at=at, phase=Phase.STARTING))
        elif told is Told.SAVES:
            self._saving = self._number if self._number is not None else self.counted
            self._saving_step, self._saving_path = step, path
            self.marks.append(CheckpointSeen(at=at, event=CheckpointEvent.BEGUN, step=step, path=path))
        elif told is Told.LOADING:
            self.loading_step, self.loading_path = step, path
            self.marks.append(PhaseSeen(at=at, phase=Phase.LOADING))
        elif isinstance(told.value, Phase):
            self.marks.append(PhaseSeen(at=at, phase=told.value))
        else:
            self._checkpoint(CheckpointEvent(told.value), step, path, at)

    def _checkpoint(self, event: CheckpointEvent, step: int | None, path: str | None, at: datetime) -> None:
        if event is CheckpointEvent.LOADED:
            step, path = step if step is not None else self.loading_step, path or self.loading_path
            self.loading_step, self.loading_path, self.loaded = None, None, True
        elif event is CheckpointEvent.DURABLE:
            step = step if step is not None or self._saving is None else self._saving_step
            self._saving = None
        self.marks.append(CheckpointSeen(at=at, event=event, step=step, path=path))

    def _prove_saved(self, step: int, at: datetime) -> None:
        """A save for which the program had stopped is whole once a step comes after it."""
        if self._saving is not None and step > max(self._saving, self._saving_step or 0):
            self.marks.append(
                CheckpointSeen(at=at, event=CheckpointEvent.DURABLE, step=self._saving_step, path=self._saving_path)
            )
            self._saving = None

    def _is_ours(self, position: int, told: StepText) -> bool:
        """Whether a bar is the one that tells steps; one of another length, such as of an evaluation, is not."""
        total = _whole(told.total)
        known = self._bar_total
        if total == known:
            self._other_bars = 0
            return True
        self._other_bars += 1
        is_over = known is None or (self._number is not None and self._number >= known)
        if is_over or self._other_bars >= _OTHER_BARS:
            self._bar_total, self._other_bars = total, 0
            return True
        if self._other_bars == 1:
            self.marks.append(PhaseSeen(at=self._where(position)[0], phase=Phase.EVALUATING))
            self.last = None
        return False

    def _more(self, position: int, told: StepText) -> None:
        """Add what a line tells to the step before it, or tell that step again if it was handed out already."""
        if self._number is None:
            return
        before = self.marks[-1] if self.marks else None
        if isinstance(before, StepSeen) and before.step == self._number:
            self.marks[-1] = _filled(before, self._seen(position, told, self._number))
        elif self.last == self._number:
            self.marks.append(self._seen(position, told, self._number))

    def _seen(self, position: int, told: StepText, step: int) -> StepSeen:
        _, total, loss, grad_norm, step_time_s, step_time_ms, throughput, unit, per_s, _, _ = told
        if step_time_ms is not None and (time_ms := _real(step_time_ms)) is not None:
            time_s: float | None = time_ms / 1000.0
        elif per_s is not None and step_time_s is None and (rate := _real(per_s)):
            time_s = 1.0 / rate
        else:
            time_s = _real(step_time_s)
        if total != self._total_text:
            self._total_text, self._total = total, _whole(total)
        at, offset = self._where(position)
        return StepSeen(
            at=at,
            step=step,
            total=self._total,
            step_time_s=time_s if time_s is not None and 0.0 < time_s < math.inf else None,
            loss=None if loss is None else _real(loss),
            grad_norm=None if grad_norm is None else _real(grad_norm),
            file=self._block.file,
            offset=offset,
            throughput=None if throughput is None else _real(throughput),
            throughput_unit=unit,
            is_learned=self._is_learned,
        )

    def _where(self, position: int) -> tuple[datetime, int]:
        """When a mark was written, and the byte in the file at which its line begins.

        The time is the one with a full date right before the mark, else that of reading, and never later than that.
        """
        text, zone, read_at = self._log.text, self._zone, self._block.read_at
        start = line_start(text, position)
        before = text[max(start, position - _TIME_BYTES) : position]
        found = _stamped(before) if zone is UTC else None
        if found is None:
            found = dated(before, zone=zone)
        at = found if found is not None and found < read_at else read_at
        return at, self._block.offset + self._log.raw_start(start)


def _filled(seen: StepSeen, more: StepSeen) -> StepSeen:
    """A step with what another line tells of it too; what is known already stays."""
    return replace(
        seen,
        total=seen.total if seen.total is not None else more.total,
        step_time_s=seen.step_time_s if seen.step_time_s is not None else more.step_time_s,
        loss=seen.loss if seen.loss is not None else more.loss,
        grad_norm=seen.grad_norm if seen.grad_norm is not None else more.grad_norm,
        throughput=seen.throughput if seen.throughput is not None else more.throughput,
        throughput_unit=seen.throughput_unit if seen.throughput is not None else more.throughput_unit,
    )


def _stamped(before: bytes) -> datetime | None:
    """The time of a stamp that is all there is before a mark; quicker than looking for one in any shape."""
    stamp = _STAMP.fullmatch(before)
    if stamp is None:
        return None
    try:
        return datetime.fromisoformat(f"{stamp[1].decode('ascii')}+00:00")
    except ValueError:
        return None


def _whole(text: bytes | None) -> int | None:
    if not text:
        return None
    digits = text.replace(b",", b"") if b"," in text else text
    return int(digits) if len(digits) <= _MOST_DIGITS and digits.isdigit() else None


def _real(text: bytes | None) -> float | None:
    if not text:
        return None
    try:
        return float(text.replace(b",", b"").rstrip(b".") if b"," in text else text)
    except ValueError:
        return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
