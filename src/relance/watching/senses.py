"""What a watcher sees with: its sources of logs and of signals, and how they stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.observations import SightReport
from relance.ports.signals import SignalSource
from relance.ports.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Senses:
    """The sources of one cluster; they are closed by whoever opened them."""

    logs: tuple[Source, ...]
    signals: tuple[SignalSource, ...] = ()

    def sight(self, cluster: str, holder: str, now: datetime) -> SightReport | None:
        """How the sources stand that can be lost as a whole; None where there are none."""
        logs = tuple(entry for source in self.logs for entry in source.sight())
        signals = tuple(entry for source in self.signals for entry in source.sight())
        if not logs and not signals:
            return None
        return SightReport(cluster=cluster, holder=holder, as_of=now, logs=logs, signals=signals)

    async def close(self) -> None:
        """Close all sources."""
        for source in self.logs:
            await source.close()
        for signals in self.signals:
            await signals.close()
