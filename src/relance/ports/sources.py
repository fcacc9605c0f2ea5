"""The port to log sources: follow attempts, deliver blocks, and say up to when each was read to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment, LogBlock, SeenUpTo
from relance.domain.views import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one read of an attempt gave.

    `positions` is the source's own state after these blocks, a JSON object that goes into the attempt's checkpoint and
    is handed back to `assign` after a restart: every byte that was in a file at a read is delivered exactly once.
    `seen` is set when everything was read to its end. `more` is True when the byte budget ended the read.
    """

    blocks: tuple[LogBlock, ...]
    positions: Mapping[str, object]
    coverage: tuple[Coverage, ...]
    seen: SeenUpTo | None = None
    more: bool = False
    life: tuple[str, ...] = ()
    """Signs of life that are no lines, such as a checkpoint folder that grows."""
    is_shipped: bool = False
    """Whether the lines come by way of an agent on the node, whose end looks like that of the node."""


class Source(Protocol):
    """A source of logs."""

    @property
    def name(self) -> str:
        """The source's name in coverage and watermarks."""
        ...

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        """Follow exactly these attempts; `positions` gives where to go on for attempts that are new here."""
        ...

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        """Look now and then whether a folder grows, and tell it as `life` of a reading.

        The folder is one that the attempt's lines name for its checkpoints. One that is not the job's own, or may not
        be looked at, is no trouble and no life. An attempt has one: the last that was named. Naming it again, or for an
        attempt that is not followed, changes nothing.
        """
        ...

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        """Deliver lines of this pattern (RE2 syntax), too: progress of the attempt in a format that was learned.

        Nothing changes for a source that delivers all lines.
        """
        ...

    async def read(self, attempt: AttemptKey) -> Reading:
        """Read what is new, within the byte budget of one read."""
        ...

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        """The last part of each followed file, masked, to be kept before a restart can truncate it."""
        ...

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        """Attempts that may have something new, as soon as there are any, or an empty set after the time-out."""
        ...

    def sight(self) -> tuple[Coverage, ...]:
        """How the source stands as a whole, where it can be lost as a whole: a store that answers, or does not.

        Empty for one that cannot, such as files, of which each attempt's coverage tells.
        """
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
