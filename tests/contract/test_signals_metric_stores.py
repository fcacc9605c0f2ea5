"""The contract of signals, on the real Prometheus and the real VictoriaMetrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from relance.domain.findings import Sight
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.testing.manual_clocks import ManualClock
from relance.testing.signal_contract import (
    POLL_S,
    POWER,
    REMAP,
    REMAPPED,
    TEMPERATURE,
    Fleet,
    Measure,
    SignalContract,
    attempt,
    hits,
)
from tests.components.gates import Gate
from tests.components.metric_stores import KINDS, MetricStore, Written, metric_store

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
IDLE_GPU = "metric-one-idle-gpu"
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

    async def test_telemetry_that_stops_everywhere_is_told_as_a_loss_of_sight(self, stage: StoreStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=3)
        seen_at = stage.now()
        fleet.silent |= {f"n{number}" for number in range(6)}
        await fleet.live(source, rounds=12)
        [entry] = source.sight()
        assert entry.sight is Sight.LAGGING
        assert "6 of 6 nodes has stopped" in entry.note
        assert entry.up_to is not None
        assert (entry.up_to - seen_at).total_seconds() <= 150.0
        fleet.silent.clear()
        await fleet.live(source, rounds=3)
        assert [each.sight for each in source.sight()] == [Sight.SEEN]
        assert hits(source.take(mine.attempt).signals) == []

    async def test_what_lasts_has_the_same_place_after_a_restart(self, stage: StoreStage) -> None:
        fleet = Fleet(stage)
        mine = attempt(stage, ["n0", "n1", "n2"])
        source = await stage.open()
        source.assign([mine], frozenset())
        await fleet.live(source, rounds=2)
        fleet.set("n2", REMAP, 1.0)
        fleet.set("n1", TEMPERATURE, 91.0)
        await fleet.live(source, rounds=70)
        first = {(hit.rule, hit.file, hit.offset) for hit in hits(source.take(mine.attempt).signals)}
        again = await stage.open()
        again.assign([mine], frozenset())
        await fleet.live(again, rounds=2)
        told = {(hit.rule, hit.file, hit.offset) for hit in hits(again.take(mine.attempt).signals)}
        assert {rule for rule, _, _ in told} >= {REMAPPED, "metric-hot-gpu"}
        assert told == first

    async def test_a_job_that_differs_as_a_whole_from_all_others_has_no_odd_nodes(self, stage: StoreStage) -> None:
        fleet = Fleet(stage)
        mine, other = attempt(stage, ["n0", "n1"], 1), attempt(stage, ["n2", "n3", "n4", "n5"], 2)
        source = await stage.open()
        source.assign([mine, other], frozenset())
        for node in ("n0", "n1"):
            for gpu in ("0", "1"):
                fleet.set(node, POWER, 70.0, gpu)
        fleet.set("n3", POWER, 70.0, "1")
        await fleet.live(source, rounds=10)
        assert hits(source.take(mine.attempt).signals, IDLE_GPU) == []
        assert [(hit.node, hit.device) for hit in hits(source.take(other.attempt).signals, IDLE_GPU)] == [
            ("n3", "gpu1")
        ]
