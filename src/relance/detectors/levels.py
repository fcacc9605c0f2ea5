"""The usual level of a figure that varies by factors, such as a loss: on a log scale, by the last values.

Costs about the same for each value: what is usual is reckoned anew every few of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

VALUES: Final = 64
KNOWN_FROM: Final = 32
"""With fewer values the level is not known: a loss falls fast at first."""
EVERY: Final = 16
LEAST_SPREAD: Final = 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The last values, as logarithms; `level` is their median, `spread` how far they lie from it.

    `fresh` values came since these were reckoned.
    """

    version: int = 1
    values: tuple[float, ...] = ()
    level: float = 0.0
    spread: float = 0.0
    fresh: int = 0


UNKNOWN: Final = Level()
"""Nothing known yet."""


class LevelFold:
    """Takes values, without a new `Level` for each."""

    def __init__(self, level: Level) -> None:
        self._values = deque(level.values, VALUES)
        self._fresh = level.fresh
        self.level, self.spread = level.level, level.spread

    def excess(self, value: float | None) -> float:
        """How far a logarithm is above the level; nothing where that cannot be said."""
        return value - self.level if value is not None and len(self._values) >= KNOWN_FROM else 0.0

    def take(self, value: float) -> None:
        """The logarithm of one more value."""
        self._values.append(value)
        self._fresh += 1
        count = len(self._values)
        if self._fresh < EVERY and count != KNOWN_FROM:
            return
        self._fresh = 0
        ordered = sorted(self._values)
        self.level = level = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
        self.spread = max(1.25 * sum(abs(each - level) for each in ordered) / count, LEAST_SPREAD)

    def forget(self) -> None:
        """Know nothing any more."""
        self._values.clear()
        self._fresh, self.level, self.spread = 0, 0.0, 0.0

    def state(self) -> Level:
        """What is known after all that was taken."""
        return Level(values=tuple(self._values), level=self.level, spread=self.spread, fresh=self._fresh)
