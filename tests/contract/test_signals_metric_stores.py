"""The contract of signals, on the real Prometheus and the real VictoriaMetrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.testing.manual_clocks import ManualClock
from relance.testing.signal_contract import POLL_S, Measure, SignalContract
from tests.components.gates import Gate
from tests.components.metric_stores import KINDS, MetricStore, Written, metric_store

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
START = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


class StoreStage:
    """Nodes that are measured into a real store, at times of the test's own clock."""

    def __init__(self, store: MetricStore, gate: Gate) -> None:
        self._store = store
        self._gate = gate
        self._clock = ManualClock(START)
        self._opened: list[MetricSource] = []

    async def open(self) -> MetricSource:
        settings = MetricSettings(
            exchange=ExchangeSettings(url=f"http://127.0.0.1:{self._gate.port}", timeout_s=5.0),
            name="metrics",
            node_value="{node}.example.org",
            poll_s=POLL_S,
            requests_per_s=1e6,
        )
        made = MetricSource(settings, RULES, self._clock, store_time=lambda: self._clock.now().timestamp())
        self._opened.append(made)
        return made

    async def measure(self, samples: Sequence[Measure]) -> None:
        at = self._clock.now().timestamp()
        self._store.write(
            Written(
                name=each.name,
                labels={**each.labels, "Hostname": f"{each.node}.example.org", "instance": f"{each.node}:9400"},
                samples=[(at, each.value)],
            )
            for each in samples
        )

    async def lose(self) -> None:
        self._gate.shut()

    async def find(self) -> None:
        self._gate.is_shut = False

    async def pass_time(self, duration_s: float) -> None:
        self._clock.advance(duration_s)

    def now(self) -> datetime:
        return self._clock.now()

    async def close(self) -> None:
        for each in self._opened:
            await each.close()


class TestSignalsOfMetricStores(SignalContract):
    @pytest_asyncio.fixture(params=KINDS)
    async def stage(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> AsyncIterator[StoreStage]:
        with metric_store(request.param, tmp_path_factory.mktemp("store")) as store:
            gate = Gate(int(store.url.rpartition(":")[2]))
            await gate.open()
            made = StoreStage(store, gate)
            yield made
            await made.close()
            await gate.close()
