"""How outside attribution providers are doing, as metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from relance.recovery.breakers import BreakerState
from relance.recovery.desks import DeskState
from relance.recovery.live import Live

_STATES = {BreakerState.CLOSED: 0, BreakerState.PROBING: 1, BreakerState.OPEN: 2}


class ProviderMetrics:
    """Reads the counts where they are kept, when somebody scrapes."""

    def __init__(self, live: Live | None, registry: CollectorRegistry) -> None:
        """Read the providers of `live`; without one there are none."""
        self._live = live
        self._counted: dict[tuple[str, str], int] = {}
        self._questions = Counter(
            "relance_provider_questions", "Questions to outside providers", ["provider", "result"], registry=registry
        )
        self._state = Gauge(
            "relance_provider_state",
            "0 asked, 1 tried with one question, 2 left alone",
            ["provider"],
            registry=registry,
        )

    def look(self) -> None:
        """Take over what is counted now."""
        for desk in self._live.desks if self._live is not None else ():
            now = desk.state
            self._state.labels(now.name).set(_STATES[now.state])
            for result, number in _counts(now):
                self._questions.labels(now.name, result).inc(number - self._counted.get((now.name, result), 0))
                self._counted[now.name, result] = number


def _counts(state: DeskState) -> tuple[tuple[str, int], ...]:
    return (
        ("opinion", state.opinions),
        ("nothing_said", state.nothing_said),
        ("not_answerable", state.not_answerable),
        ("error", state.errors),
        ("left_out", state.left_out),
    )
