"""The pace of an attempt: how long its steps take now, beside how long they usually take.

Step times are heavy-tailed, wander with the length of sequences, drift, and follow day and night. So they are compared
on a log scale, in blocks of some steps whose middle counts; the usual pace is that of the last blocks but those that
are held back for judgement, and its own spread says what is no news. Costs the same for each step, whatever came
before; nothing here grows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

from relance.domain.limits import SlowdownLimits
from relance.domain.progress import StepSeen
from relance.domain.replacing import replace

WARM_UP: Final = 5
"""First reports, and after a step back, that say nothing: programs compile, and read for the first time."""
PARTS: Final = 4
"""The fewest blocks that a change is told of: each has a share of the steps and of the time that the limits ask for."""
SAMPLES: Final = 8
"""Samples of a block, at most: where steps are short one sample is several of them."""
USUAL: Final = 16
"""Blocks that the usual pace is taken of: with the shipped limits some 200 steps, and 6 minutes at least."""
HELD: Final = 12
"""Blocks held back from the usual pace until it is clear whether they are slow."""
LEAST_USUAL: Final = 3
"""With fewer blocks the usual pace is not known."""
WELL_KNOWN: Final = 8
"""With fewer blocks it is not known well, and a change has to be so much larger."""
SPREADS: Final = 5.0
"""A change has to be so many times as large as blocks usually are off."""
ERRORS: Final = 64
"""Over so many blocks, about, it is remembered how far they were off from the usual pace when they came."""
RAISED: Final = 0.75
"""Every block of a change is raised by at least this share of what is asked for of their middle."""
LEAST_SPREAD: Final = 0.004
_TRIMMED_FROM, _MEDIAN_FROM = 5, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some steps in a row: `log_s` is the logarithm of the time that one took, in the middle, in seconds.

    `off` is how far that was from the usual pace when the block came.
    """

    log_s: float
    off: float
    first_step: int
    began_at: datetime
    steps: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Steps that take longer, lastingly: from which step on, since when, and how long a step took before and since."""

    first_step: int
    began_at: datetime
    usual_s: float
    step_s: float

    @property
    def times(self) -> float:
        """How many times as long."""
        return self.step_s / self.usual_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What is known of an attempt's pace.

    `skip` reports are still to be left out; `paused` says that a save, an evaluation or another phase came since the
    last report. `sample_s` and `sample_steps` are of the sample under way, `samples` (logarithms), `block_s` and
    `block_steps` of the block under way, whose first step is `block_first`, at `block_at`. `usual` are the levels of
    the blocks that the usual pace is taken of, `level` and `spread` what came of them, `error` how far the
    `learned` blocks were off.
    """

    version: int = 1
    step: int | None = None
    before: int | None = None
    at: datetime | None = None
    skip: int = WARM_UP
    paused: bool = False
    sample_s: float = 0.0
    sample_steps: int = 0
    samples: tuple[float, ...] = ()
    block_s: float = 0.0
    block_steps: int = 0
    block_first: int = 0
    block_at: datetime | None = None
    usual: tuple[float, ...] = ()
    level: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    learned: int = 0
    held: tuple[Block, ...] = ()
    slow: Slowness | None = None

    def after_all(self, steps: Iterable[StepSeen], limits: SlowdownLimits) -> Pace:
        """With several more reports: the same as with one after the other."""
        fold = Fold(self, limits)
        for seen in steps:
            fold.take(seen)
        return fold.pace()

    def interrupted(self, *, anew: bool = False) -> Pace:
        """After a save, an evaluation or another phase.

        `anew`: after a start or a compilation, whose first steps say nothing, and after which another pace may be
        usual. While it is slow the pace before that stays what is usual.
        """
        if anew and self.slow is None:
            return Pace(step=self.step, before=self.before, at=self.at, paused=True)
        skip = WARM_UP if anew else self.skip
        return self if self.paused and self.skip == skip else replace(self, paused=True, skip=skip)


class Fold:
    """Takes reports of steps, without a new value for each."""

    def __init__(self, pace: Pace, limits: SlowdownLimits) -> None:
        self._before_all = pace
        self._limits = limits
        self._part_steps = math.ceil(limits.steps / PARTS)
        self._part_s = limits.for_s / PARTS / 2
        self._sample_s_least = self._part_s / SAMPLES
        self._share = math.log1p(limits.share)
        self._step, self._before, self._at = pace.step, pace.before, pace.at
        self._skip, self._paused = pace.skip, pace.paused
        self._sample_s, self._sample_steps = pace.sample_s, pace.sample_steps
        self._samples = list(pace.samples)
        self._block_s, self._block_steps = pace.block_s, pace.block_steps
        self._block_first, self._block_at = pace.block_first, pace.block_at
        self._usual, self._held = deque(pace.usual, USUAL), deque(pace.held, HELD)
        self._level, self._spread = pace.level, pace.spread
        self._error, self._learned = pace.error, pace.learned
        self.slow = pace.slow

    def take(self, seen: StepSeen) -> None:
        """One more report. A step that is told again, as other ranks or sources do, says nothing."""
        step, last, at = seen.step, self._step, self._at
        if step in (last, self._before):
            return
        if last is not None and at is not None and step < last and seen.at < at:
            return  # late word from another source, not a step back
        self._before, self._step, self._at = last, step, seen.at
        if last is None or at is None:
            return
        if step < last:
            self._begin_anew()
        elif self._paused:
            self._paused = False
            self._sample_s, self._sample_steps = 0.0, 0
        elif self._skip:
            self._skip -= 1
        else:
            steps, told_s = step - last, seen.step_time_s
            took_s = (seen.at - at).total_seconds() if told_s is None else told_s * steps
            if 0.0 <= took_s < math.inf:
                self.add(step, seen.at, steps, took_s)

    def add(self, step: int, at: datetime, steps: int, took_s: float) -> None:
        """So many steps of training, up to this one, took so long in all, in seconds."""
        self._sample_s += took_s
        self._sample_steps += steps
        if self._sample_s < self._sample_s_least or not self._sample_s:
            return
        if not self._samples:
            self._block_first, self._block_at = step - self._sample_steps + 1, at
        self._samples.append(math.log(self._sample_s / self._sample_steps))
        self._block_s += self._sample_s
        self._block_steps += self._sample_steps
        self._sample_s, self._sample_steps = 0.0, 0
        if self._block_steps >= self._part_steps and self._block_s >= self._part_s:
            self._close_block()

    def pace(self) -> Pace:
        """The pace after all that was taken."""
        return replace(
            self._before_all,
            step=self._step,
            before=self._before,
            at=self._at,
            skip=self._skip,
            paused=self._paused,
            sample_s=self._sample_s,
            sample_steps=self._sample_steps,
            samples=tuple(self._samples),
            block_s=self._block_s,
            block_steps=self._block_steps,
            block_first=self._block_first,
            block_at=self._block_at,
            usual=tuple(self._usual),
            level=self._level,
            spread=self._spread,
            error=self._error,
            learned=self._learned,
            held=tuple(self._held),
            slow=self.slow,
        )

    def _begin_anew(self) -> None:
        """After a step back: what was under way is dropped, the usual pace stays."""
        self._skip, self._paused = WARM_UP, False
        self._sample_s, self._sample_steps = 0.0, 0
        self._drop_block()
        if self.slow is None:
            self._held.clear()

    def _drop_block(self) -> None:
        self._samples.clear()
        self._block_s, self._block_steps, self._block_at = 0.0, 0, None

    def _close_block(self) -> None:
        assert self._block_at is not None  # noqa: S101 - set with the first sample
        log_s = _middle(self._samples)
        block = Block(
            log_s=log_s,
            off=log_s - self._level if self._usual else 0.0,
            first_step=self._block_first,
            began_at=self._block_at,
            steps=self._block_steps,
            took_s=self._block_s,
        )
        self._drop_block()
        if self.slow is not None:
            self._held.append(block)
            self._look_for_end()
        elif len(self._usual) < LEAST_USUAL:
            self._learn(block)
        else:
            self._judge(block)

    def _judge(self, block: Block) -> None:
        is_raised = block.log_s >= self._level + RAISED * self._enough()
        if not is_raised and len(self._usual) < WELL_KNOWN:
            for each in (*self._held, block):
                self._learn(each)
            self._held.clear()
            return
        if len(self._held) == HELD:
            self._learn(self._held[0])
        self._held.append(block)
        if is_raised:
            self._look_for_start()

    def _learn(self, block: Block) -> None:
        self._usual.append(block.log_s)
        if self._learned:
            self._error += (abs(block.off) - self._error) / min(self._learned, ERRORS)
        self._learned += 1
        ordered = sorted(self._usual)
        self._level = level = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        # 1.25 times the mean distance is the standard deviation of a normal spread; unlike that of the median
        # distance it does not miss blocks of another length of sequences that come now and then.
        self._spread = max(1.25 * sum(abs(each - level) for each in ordered) / len(ordered), LEAST_SPREAD)

    def _enough(self) -> float:
        """How much longer is slow, as a logarithm."""
        scarcity = max(1.0, WELL_KNOWN / len(self._usual))
        return max(self._share, SPREADS * max(self._spread, 1.25 * self._error)) * scarcity

    def _look_for_start(self) -> None:
        """Whether all of the last blocks are raised, enough of them, and enough in the middle."""
        enough = self._enough()
        raised = self._level + RAISED * enough
        levels, steps, took_s, found = list[float](), 0, 0.0, None
        for block in reversed(self._held):
            if block.log_s < raised:
                break
            levels.append(block.log_s)
            steps, took_s = steps + block.steps, took_s + block.took_s
            is_long = len(levels) >= PARTS and steps >= self._limits.steps and took_s >= self._limits.for_s
            if is_long and median(levels) >= self._level + enough:
                found = (block, median(levels))
        if found is not None:
            block, level = found
            self.slow = Slowness(
                first_step=block.first_step,
                began_at=block.began_at,
                usual_s=math.exp(self._level),
                step_s=math.exp(level),
            )

    def _look_for_end(self) -> None:
        """Whether as many blocks as make a slowdown are usual again; then they are learned from."""
        usual, steps, took_s = self._level + self._enough() / 2, 0, 0.0
        for number, block in enumerate(reversed(self._held), 1):
            if block.log_s >= usual:
                return
            steps, took_s = steps + block.steps, took_s + block.took_s
            if number >= PARTS and steps >= self._limits.steps and took_s >= self._limits.for_s:
                self.slow = None
                self._held.clear()
                return


def _middle(values: list[float]) -> float:
    """The mean without the least and the greatest; of few values their median."""
    if len(values) < _TRIMMED_FROM:
        return median(values) if len(values) >= _MEDIAN_FROM else sum(values) / len(values)
    return (sum(values) - min(values) - max(values)) / (len(values) - 2)
