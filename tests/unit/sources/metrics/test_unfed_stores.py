"""A store that answers and gets no samples: it does not know that steps no longer come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource, ProgressSeries
from relance.testing.manual_clocks import ManualClock
from tests.unit.sources.metrics.scripted_stores import NOW, Reply, ScriptedStore, scripted_store, vector

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
BEGUN = datetime.fromtimestamp(NOW, UTC)
NODES = ("n1", "n2")
JOB = Assignment(
    attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="1", submitted_at=BEGUN), restart_count=0),
    owner_uid=1000,
    nodes=NODES,
    log_paths=(),
    started_at=BEGUN - timedelta(hours=1),
)


class Site:
    """A store at which steps of a job and temperatures of nodes came last at some times."""

    def __init__(self, store: ScriptedStore) -> None:
        self.clock = ManualClock(BEGUN)
        self.stepped_at: float | None = NOW
        self.measured_at: float | None = NOW
        store.answer = self._answer
        settings = MetricSettings(
            exchange=ExchangeSettings(url=store.url), progress=ProgressSeries(step="train_step"), requests_per_s=1e6
        )
        self.source = MetricSource(settings, RULES, self.clock)
        self.source.assign([JOB], frozenset())

    async def known_to_s(self, after_s: float) -> float | None:
        """Up to when the source says that it knows, in seconds from the beginning, after a look at a time."""
        self.clock.advance(after_s - (self.clock.now() - BEGUN).total_seconds())
        self.source.hurry()
        await self.source.look()
        (stands,) = self.source.sight()
        return None if stands.up_to is None else (stands.up_to - BEGUN).total_seconds()

    def _answer(self, query: str, over: bool) -> Reply | None:
        now = self.clock.now().timestamp()
        if query == "time()":
            return vector(({}, str(now)), at=now)
        if "train_step" in query and self.stepped_at is not None:
            rows = {"value": "7", "at": str(self.stepped_at)}
            return vector(*(({"job_id": "1", "relance_ask": tag}, told) for tag, told in rows.items()), at=now)
        if "timestamp(" in query and not over and self.measured_at is not None:
            rows = {"at": str(self.measured_at), "count": "8"}
            told = [({"Hostname": node, "relance_ask": tag}, row) for node in NODES for tag, row in rows.items()]
            return vector(*told, at=now)
        return None


@pytest.fixture
def site() -> Iterator[Site]:
    with scripted_store("train_step", "DCGM_FI_DEV_GPU_TEMP") as store:
        yield Site(store)


async def test_silence_of_steps_counts_no_further_than_the_newest_sample_of_all(site: Site) -> None:
    assert await site.known_to_s(0.0) == 0.0
    assert await site.known_to_s(45.0) == 0.0
    assert await site.known_to_s(120.0) == 0.0
    site.stepped_at = site.measured_at = None  # too old for the store to tell of them
    assert await site.known_to_s(400.0) == 0.0


async def test_silence_of_steps_counts_while_other_samples_come(site: Site) -> None:
    await site.known_to_s(0.0)
    site.measured_at = NOW + 110.0

    assert await site.known_to_s(120.0) == 60.0


async def test_a_store_of_which_no_sample_was_ever_seen_tells_of_no_silence(site: Site) -> None:
    site.stepped_at = site.measured_at = None

    assert await site.known_to_s(0.0) is None
    assert site.source.sight()[0].sight is Sight.SEEN


async def test_steps_of_a_job_that_is_followed_no_longer_hold_nobody_up(site: Site) -> None:
    site.measured_at = None
    await site.known_to_s(0.0)
    site.source.assign([], frozenset())
    site.stepped_at = None

    assert await site.known_to_s(400.0) is None
