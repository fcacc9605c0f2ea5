"""The real stores scrape an exporter that the test drives, in real time; and jobs export their own progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import StepSeen
from relance.domain.views import Assignment
from relance.ports.clocks import SystemClock
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource, ProgressSeries
from relance.testing.manual_clocks import ManualClock
from tests.components.metric_stores import KINDS, Kind, Written, metric_store

RULES = load_pack({"metrics.yaml": read_texts()["metrics.yaml"]}).metrics
LIMIT_S = 60.0


class Exporter:
    """Values by series as an exporter prints them; the test sets them."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.address = ""

    def page(self) -> bytes:
        """What is scraped."""
        return "".join(f"{series} {value}\n" for series, value in self.values.items()).encode()


@contextmanager
def exporter() -> Iterator[Exporter]:
    made = Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(made.page())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def attempt(nodes: tuple[str, ...], begun: datetime, number: int = 7, restart_count: int = 0) -> Assignment:
    key = AttemptKey(job=JobKey(cluster="alpha", raw_id=str(number), submitted_at=begun), restart_count=restart_count)
    return Assignment(attempt=key, owner_uid=0, nodes=nodes, log_paths=(), started_at=begun)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_xid_that_is_scraped_is_told_within_seconds(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = SystemClock()
    with exporter() as exported, metric_store(kind, tmp_path_factory.mktemp("store"), exported.address) as store:
        xid = 'DCGM_FI_DEV_XID_ERRORS{Hostname="n1.example.org",gpu="2"}'
        exported.values[xid] = 0.0
        settings = MetricSettings(exchange=ExchangeSettings(url=store.url), poll_s=0.5, requests_per_s=1e6)
        made = MetricSource(settings, RULES, clock)
        mine = attempt(("n1",), clock.now() - timedelta(seconds=1))
        made.assign([mine], frozenset())
        begun = time.monotonic()
        found: list[RuleHit] = []
        changed_at = 0.0
        calm_looks = 0
        while time.monotonic() - begun < LIMIT_S and not found:
            await made.look()
            found = [
                each
                for each in made.take(mine.attempt).signals
                if isinstance(each, RuleHit) and each.rule == "metric-xid-off-bus"
            ]
            if not changed_at and "DCGM_FI_DEV_XID_ERRORS" not in made.names:
                made.hurry()
            elif calm_looks < 4:  # two scrapes of what it was
                calm_looks += 1
            elif not changed_at:
                changed_at = clock.now().timestamp()
                exported.values[xid] = 79.0
        await made.close()
    [hit] = found
    assert (hit.node, hit.device) == ("n1", "gpu2")
    # A store stamps a sample with the time at which it began to scrape, which may be just before the change.
    assert -1.0 <= hit.when.timestamp() - changed_at <= 20.0
    assert hit.at is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_progress_that_jobs_export_comes_as_steps(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> None:
    begun = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
    clock = ManualClock(begun)
    progress = ProgressSeries(job_label="job", job_value="job-{raw_id}", step="train_step", loss="train_loss")
    with metric_store(kind, tmp_path_factory.mktemp("store")) as store:
        settings = MetricSettings(exchange=ExchangeSettings(url=store.url), requests_per_s=1e6, progress=progress)
        made = MetricSource(settings, (), clock, store_time=lambda: clock.now().timestamp())
        jobs = [attempt(("n1",), begun, number) for number in (7, 8)]
        made.assign(jobs, frozenset())
        told: list[StepSeen] = []
        for number in range(1, 6):
            at = clock.advance(15.0).timestamp()
            ranks = [
                Written(name=name, labels={"job": "job-7", "rank": str(rank)}, samples=[(at - 2.0, value)])
                for rank in range(2)
                for name, value in (("train_step", 10.0 * min(number, 4)), ("train_loss", 2.0 / number))
            ]
            store.write([*ranks, Written(name="train_step", labels={"job": "job-9"}, samples=[(at, 5.0)])])
            await made.look()
            told += [each for each in made.take(jobs[0].attempt).signals if isinstance(each, StepSeen)]
            assert made.take(jobs[1].attempt).signals == ()
        await made.close()
    assert [seen.step for seen in told] == [10, 20, 30, 40]
    assert told[1].at == begun + timedelta(seconds=28)
    assert told[1].step_time_s == pytest.approx(1.5)
    assert told[1].loss == pytest.approx(1.0)
    [entry] = made.sight()
    assert entry.up_to == clock.now() - timedelta(seconds=2)
