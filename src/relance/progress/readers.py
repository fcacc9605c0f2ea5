"""Reads blocks of a log into marks of progress: steps, checkpoints, phases, in the order of the bytes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from operator import itemgetter
from typing import NamedTuple

from relance.domain.log_texts import LogText, line_start
from relance.domain.log_times import dated
from relance.domain.observations import LogBlock
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, ProgressMark, StepSeen
from relance.progress.dialects import DIALECTS, Dialect, StepText, Told, without_marks
from relance.progress.frameworks import FRAMEWORKS
from relance.progress.marks import LineFinders, MarkFinder, MarkText
from relance.progress.own_patterns import OwnPattern

_TIME_BYTES = 110
"""How far before a mark its time may stand."""
_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """What reading carries from block to block, for all files of an attempt.

    `dialect` is the one whose steps were recognised first. `step` is the step of the last mark, if that was a step:
    other ranks say it again. `loading_step` and `loading_path` are of a load that was announced, `loaded` says that one
    was done.
    """

    version: int = 1
    dialect: str | None = None
    step: int | None = None
    loading_step: int | None = None
    loading_path: str | None = None
    loaded: bool = False
    counted: int = 0
    """Reports of steps that bear no number, so far."""


class ProgressReader:
    """Reads marks of progress out of blocks.

    Args:
        own: A step pattern of the site or the job; with it the steps of no other dialect are read.
        zone: The zone of times that bear none.
        finders: Makes what finds the lines of marks; None: RE2 alone.

    Raises:
        PatternError: The pattern cannot be used.
    """

    def __init__(self, own: str | None = None, *, zone: tzinfo = UTC, finders: LineFinders | None = None) -> None:
        self._zone = zone
        self._steps: tuple[Dialect, ...] = (
            (*DIALECTS, *FRAMEWORKS) if own is None else (without_marks("own", OwnPattern(own).find),)
        )
        self._finders = finders
        self._marks: dict[str, MarkFinder] = {}

    def read(
        self, block: LogBlock, state: ReaderState, log: LogText | None = None
    ) -> tuple[ReaderState, tuple[ProgressMark, ...]]:
        """The marks of a block, in the order of the bytes. A step that is told again at once is told once.

        `log` is the text of the block, cleaned already.
        """
        log = log or LogText(block.data)
        new_from = len(LogText(block.data[: block.overlap]).text) if block.overlap else 0
        dialect, steps = self._find_steps(log.text, state.dialect)
        last = state.step
        finder = self._marks_of(dialect)
        others = list(finder.find(log.text))
        found: list[tuple[int, StepText | MarkText]] = [*steps, *others]
        if others:
            found.sort(key=itemgetter(0))
        marks: list[ProgressMark] = []
        for position, told in found:
            if position < new_from:
                continue
            if not isinstance(told, StepText):
                state, new = _told(told, _Place(block, log, position, self._zone), state)
                marks += new
                last = None
            elif (step := _whole(told.step) if told.step else state.counted + 1) is not None and step != last:
                state = state if told.step else replace(state, counted=step)
                marks.append(_step(told, step, _Place(block, log, position, self._zone)))
                last = step
        return replace(state, dialect=dialect, step=last), tuple(marks)

    def _marks_of(self, dialect: str | None) -> MarkFinder:
        """What finds the marks of a dialect; those of all, where it has none of its own or is not known yet."""
        own = {each.name: each.marks for each in DIALECTS}
        name = dialect if dialect in own else ""
        if name not in self._marks:
            every = [mark for marks in own.values() for mark in marks]
            self._marks[name] = MarkFinder(own[name] if name else every, self._finders)
        return self._marks[name]

    def _find_steps(self, text: bytes, known: str | None) -> tuple[str | None, list[tuple[int, StepText]]]:
        """The steps of the known dialect, else of the one whose first step comes first."""
        tried = [dialect for dialect in self._steps if known is None or dialect.name == known]
        results = [(dialect.name, list(dialect.find_steps(text))) for dialect in tried or self._steps]
        with_steps = [(steps[0][0], name, steps) for name, steps in results if steps]
        if not with_steps:
            return known, []
        _, name, steps = min(with_steps, key=lambda each: each[0])
        return name, steps


_STAMP = re.compile(rb"[^\d\[]{0,2}\d{0,6}[^\d\[]{0,3}\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{6}|\.\d{3})?)\] *")
"""A time in brackets with nothing before it that could be another one; such as Megatron-LM writes before a step."""


class _Place(NamedTuple):
    """Where a mark stands."""

    block: LogBlock
    log: LogText
    position: int
    zone: tzinfo

    def where(self) -> tuple[datetime, int]:
        """When it was written, and the byte in the file at which the line begins.

        The time is the one with a full date right before the mark, else that of reading, and never later than that.
        """
        block, log, position, zone = self
        start = line_start(log.text, position)
        before = log.text[max(start, position - _TIME_BYTES) : position]
        found = _stamped(before) if zone is UTC else None
        if found is None:
            found = dated(before, zone=zone)
        at = found if found is not None and found < block.read_at else block.read_at
        return at, block.offset + log.raw_start(start)


def _stamped(before: bytes) -> datetime | None:
    """The time of a stamp that is all there is before a mark; quicker than looking for one in any shape."""
    stamp = _STAMP.fullmatch(before)
    if stamp is None:
        return None
    try:
        return datetime.fromisoformat(f"{stamp[1].decode('ascii')}+00:00")
    except ValueError:
        return None


def _step(told: StepText, step: int, place: _Place) -> StepSeen:
    _, total, loss, grad_norm, step_time_s, step_time_ms = told
    time_s = _real(step_time_s)
    if time_s is None and step_time_ms is not None and (time_ms := _real(step_time_ms)) is not None:
        time_s = time_ms / 1000.0
    at, offset = place.where()
    return StepSeen(
        at=at,
        step=step,
        total=_whole(total),
        step_time_s=time_s if time_s is not None and 0.0 < time_s < math.inf else None,
        loss=_real(loss),
        grad_norm=_real(grad_norm),
        file=place.block.file,
        offset=offset,
    )


def _told(mark: MarkText, place: _Place, state: ReaderState) -> tuple[ReaderState, list[ProgressMark]]:
    step, path = _whole(mark.values.get("step")), _text(mark.values.get("path"))
    at, _ = place.where()
    if mark.told is Told.STARTS_AT:
        starting = PhaseSeen(at=at, phase=Phase.STARTING)
        if state.loaded or step != 1:
            return state, [starting]
        return state, [CheckpointSeen(at=at, event=CheckpointEvent.COLD), starting]
    if mark.told is Told.LOADING:
        return replace(state, loading_step=step, loading_path=path), [PhaseSeen(at=at, phase=Phase.LOADING)]
    if isinstance(mark.told.value, Phase):
        return state, [PhaseSeen(at=at, phase=mark.told.value)]
    if mark.told is Told.LOADED:
        step, path = step if step is not None else state.loading_step, path or state.loading_path
        state = replace(state, loading_step=None, loading_path=None, loaded=True)
    return state, [CheckpointSeen(at=at, event=CheckpointEvent(mark.told.value), step=step, path=path)]


def _whole(text: bytes | None) -> int | None:
    digits = text or b""
    if b"," in digits:
        digits = digits.replace(b",", b"")
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def _real(text: bytes | None) -> float | None:
    if not text:
        return None
    try:
        return float(text.replace(b",", b"").rstrip(b".") if b"," in text else text)
    except ValueError:
        return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
