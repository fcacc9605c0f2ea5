"""A training turns slow, and a real metric store knows why or does not: what is told of it, and what is advised."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from relance.attribution import attribute
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.findings import Finding, FindingKind
from relance.domain.verdicts import CaseFile, Verdict
from relance.domain.views import Assignment
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.watching.senses import Senses
from relance.watching.watchers import Watcher
from tests.components.metric_stores import KINDS, MetricStore, Written, metric_store
from tests.unit.watching.rooms import PACK, Room

SCRAPE_S = 30.0
STEP_S = 2.0
NODES = ("n1", "n2", "n3", "n4")
CALM, HEAT = 0.0, 64.0
"""DCGM's reasons for a clock that is held down: none, and the hardware's thermal one."""


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetricStore]:
    with metric_store(request.param, tmp_path / "store") as running:
        yield running


class Site:
    """A training whose log is followed and whose nodes are measured, on a clock of the test's own."""

    def __init__(self, store: MetricStore) -> None:
        self.room = Room()
        self.store = store
        clock = self.room.clock
        self.source = MetricSource(
            MetricSettings(exchange=ExchangeSettings(url=store.url), poll_s=SCRAPE_S, requests_per_s=1e6),
            PACK.metrics,
            clock,
            store_time=lambda: clock.now().timestamp(),
        )
        self.watcher = Watcher(
            backend=self.room.server,
            senses=Senses(logs=(self.room.source,), signals=(self.source,)),
            pack=PACK,
            clock=clock,
            settings=self.room.settings,
        )
        self.job: Assignment = self.room.assignment(nodes=NODES)
        self.hot: frozenset[str] = frozenset()
        self._scraped_at = clock.monotonic() - SCRAPE_S
        self._step = 0

    async def begin(self) -> None:
        self.room.server.want(self.job)
        await self.watcher.refresh()

    async def train(self, steps: int, times: float = 1.0) -> None:
        """Steps go by; metrics are scraped and looked at in between."""
        clock = self.room.clock
        for _ in range(steps):
            clock.advance(STEP_S * times)
            self._step += 1
            self.room.write(self.job, self._line(STEP_S * times))
            await self.watcher.tick(self.job.attempt)
            if clock.monotonic() - self._scraped_at >= SCRAPE_S:
                self._scraped_at = clock.monotonic()
                self._scrape()
                await self.watcher.hear(self.source)
        await self.watcher.deliver()

    @property
    def told(self) -> list[Finding]:
        return [each for each in self.room.server.findings() if each.kind is FindingKind.SLOWDOWN]

    def verdict(self) -> Verdict:
        return attribute(
            CaseFile(
                incident_id="inc",
                attempt=self.job.attempt,
                as_of=self.room.clock.now(),
                nodes=NODES,
                findings=tuple(self.room.server.findings()),
                progress=self.room.server.batches[-1].progress,
            )
        )

    def _scrape(self) -> None:
        at = self.room.clock.now().timestamp()
        self.store.write(
            Written(
                name="DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
                labels={"Hostname": node, "gpu": gpu, "instance": f"{node}:9400"},
                samples=[(at, HEAT if node in self.hot and gpu == "1" else CALM)],
            )
            for node in NODES
            for gpu in ("0", "1")
        )

    def _line(self, took_s: float) -> str:
        return (
            f" [{self.room.clock.now():%Y-%m-%d %H:%M:%S.%f}] iteration {self._step:8d}/   10000 | consumed samples: "
            f"{self._step * 32:12d} | elapsed time per iteration (ms): {1000 * took_s:.1f} | learning rate: 1.0E-04 | "
            "global batch size:    32 | lm loss: 3.2E+00 | grad norm: 1.000 |"
        )


@pytest_asyncio.fixture
async def site(store: MetricStore) -> AsyncIterator[Site]:
    made = Site(store)
    yield made
    await made.source.close()


async def test_a_node_whose_clocks_are_held_down_is_named_and_nothing_is_done(site: Site) -> None:
    await site.begin()
    await site.train(90)
    site.hot = frozenset({"n3"})
    await site.train(60, times=3.0)

    assert {hit.node for each in site.told for hit in each.hits} == {"n3"}
    verdict = site.verdict()
    assert (verdict.cause, verdict.domain, verdict.remedy) == ("gpu_hw_throttle", FaultDomain.HARDWARE, Remedy.NONE)
    assert [each.node for each in verdict.suspects] == ["n3"]
    assert "n3" in verdict.remedy_reason
    assert verdict.to_leave_out == ()


async def test_where_no_metric_says_why_nobody_is_named(site: Site) -> None:
    await site.begin()
    await site.train(90)
    await site.train(60, times=3.0)

    (told,) = site.told
    assert told.hits == ()
    verdict = site.verdict()
    assert (verdict.cause, verdict.remedy, verdict.suspects) == ("slowdown", Remedy.NONE, ())
    assert verdict.remedy_reason.startswith("no node evidence")


async def test_where_all_nodes_show_it_none_stands_out(site: Site) -> None:
    await site.begin()
    await site.train(90)
    site.hot = frozenset(NODES)
    await site.train(60, times=3.0)

    assert len({hit.node for each in site.told for hit in each.hits}) == len(NODES)
    assert site.verdict().suspects == ()


async def test_a_node_that_is_hot_while_the_training_keeps_its_pace_makes_no_slowdown(site: Site) -> None:
    await site.begin()
    await site.train(90)
    site.hot = frozenset({"n3"})
    await site.train(90)

    assert site.told == []
