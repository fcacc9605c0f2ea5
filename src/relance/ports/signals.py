"""The port to sources of signals: metrics, which tell of nodes and devices what no log line says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from relance.domain.findings import Coverage, RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.observations import DevicePicture
from relance.domain.progress import ProgressMark
from relance.domain.views import Assignment

Signal = RuleHit | DevicePicture | ProgressMark
"""What a source of signals may tell of an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What a source has new of one attempt, in the order of time, and what it sees of it.

    A hit tells where it was met by `file` (source, rule, node and device) and `offset` (seconds since 1970 of the
    sample), so that one that is told again after a restart is known to be the same.
    """

    signals: tuple[Signal, ...] = ()
    coverage: tuple[Coverage, ...] = ()


class SignalSource(Protocol):
    """A source of signals. It has no say in how far an attempt's logs were read: that it is silent is no silence."""

    @property
    def name(self) -> str:
        """The source's name in coverage, and among those that can be lost."""
        ...

    def assign(self, assignments: Sequence[Assignment], closely: frozenset[AttemptKey]) -> None:
        """Follow exactly these attempts. `closely` are those that may hang or have an incident: more is asked of them.

        Of attempts looked at closely a `DevicePicture` is told with each look, and all metrics of their nodes are read.
        """
        ...

    async def look(self) -> None:
        """Wait until it is time, then ask once for all attempts. What the store does wrong is told by `sight`."""
        ...

    def take(self, attempt: AttemptKey) -> Signals:
        """What is new of an attempt since it was taken last, each thing once; coverage as it is now."""
        ...

    def sight(self) -> tuple[Coverage, ...]:
        """How the source stands as a whole: `SEEN` with the time of the last whole look, or what is wrong, in words."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
