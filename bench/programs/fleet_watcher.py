"""A whole watcher over a large fleet: `fleet_watcher.py --url URL --nodes N --jobs N --line-s S --warm-s S --run-s S`.

It follows the jobs of a server in memory, with their step lines from a source in memory and signals from the metric
store at the address, and says as JSON what it cost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment, LogBlock, SeenUpTo, WatcherBatch
from relance.domain.views import Assignment
from relance.ports.backends import Assignments
from relance.ports.clocks import Clock, SystemClock
from relance.ports.signals import SignalSource
from relance.ports.sources import Reading
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.simulation.training_lines import StepReport, step_line
from relance.sources.exchanges import ExchangeSettings
from relance.sources.metrics import MetricSettings, MetricSource
from relance.testing.scripted_backends import ScriptedBackend
from relance.watching.senses import Senses
from relance.watching.settings import WatcherSettings
from relance.watching.watchers import Watcher

_IN_DOUBT_EVERY = 100
"""One job in so many has an open incident: it is looked at closely."""


class Server(ScriptedBackend):
    """A server with the same jobs all the time; it counts what is handed over."""

    def __init__(self, clock: Clock, assignments: Sequence[Assignment]) -> None:
        """Begin with these."""
        super().__init__(clock)
        self.counts: Counter[str] = Counter()
        self._clock_of_mine = clock
        self._assignments = tuple(assignments)

    async def assignments(self, cluster: str) -> Assignments:
        return Assignments(assignments=self._assignments, position=1, as_of=self._clock_of_mine.now())

    async def submit(self, batch: WatcherBatch) -> None:
        self.counts["batches"] += 1
        self.counts.update(finding.kind.value for finding in batch.findings)

    async def wait(self, after: int, timeout_s: float) -> int:
        await self._clock_of_mine.sleep(timeout_s)
        return 1


class StepLines:
    """A source in which each job writes a step line at equal intervals, the jobs one after another."""

    def __init__(self, clock: Clock, line_s: float) -> None:
        """Begin without jobs."""
        self.lines = 0
        self._clock = clock
        self._line_s = line_s
        self._due: deque[tuple[float, AttemptKey]] = deque()
        self._written: dict[AttemptKey, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        return "lines"

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        if self._written:
            return
        now = self._clock.monotonic()
        for number, each in enumerate(assignments):
            self._written[each.attempt] = (0, 0)
            self._due.append((now + self._line_s * number / len(assignments), each.attempt))

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        pass

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        pass

    async def read(self, attempt: AttemptKey) -> Reading:
        now = self._clock.now()
        step, offset = self._written[attempt]
        report = StepReport(
            step=step + 1,
            steps=100_000,
            samples=1024 * step,
            elapsed_ms=1000.0 * self._line_s,
            learning_rate=1e-4,
            batch=1024,
            loss=2.0,
            norm=0.7,
        )
        text = step_line(report, now).encode() + b"\n"
        self._written[attempt] = (step + 1, offset + len(text))
        self.lines += 1
        block = LogBlock(file="job.out", offset=offset, data=text, scope=Scope.APPLICATION, read_at=now, line=step + 1)
        return Reading(
            blocks=(block,),
            positions={"job.out": offset + len(text)},
            coverage=(Coverage(source=self.name, sight=Sight.SEEN, up_to=now),),
            seen=SeenUpTo(source=self.name, at=now),
        )

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        return ()

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        await self._clock.sleep(0.1)
        now = self._clock.monotonic()
        found = set()
        while self._due and self._due[0][0] <= now:
            at, attempt = self._due.popleft()
            self._due.append((at + self._line_s, attempt))
            found.add(attempt)
        return frozenset(found)

    def sight(self) -> tuple[Coverage, ...]:
        return ()

    async def close(self) -> None:
        pass


def jobs(count: int, nodes: int, now: datetime) -> list[Assignment]:
    """So many jobs on all nodes."""
    each = nodes // count
    begun = now - timedelta(hours=5)
    return [
        Assignment(
            attempt=AttemptKey(job=JobKey(cluster="fleet", raw_id=str(number), submitted_at=begun), restart_count=0),
            owner_uid=1000,
            nodes=tuple(f"node-{number * each + node:05d}" for node in range(each)),
            log_paths=("job.out",),
            started_at=begun,
            keep_tail=number % _IN_DOUBT_EVERY == 0,
        )
        for number in range(count)
    ]


async def measured(options: argparse.Namespace) -> dict[str, object]:
    """Run for a while, and say what it cost."""
    clock = SystemClock()
    pack = await asyncio.to_thread(lambda: load_pack(read_texts()))
    settings = MetricSettings(exchange=ExchangeSettings(url=options.url, timeout_s=30.0), requests_per_s=20.0)
    signals = MetricSource(settings, pack.metrics, clock)
    server = Server(clock, jobs(options.jobs, options.nodes, clock.now()))
    lines = StepLines(clock, options.line_s)
    chosen: tuple[SignalSource, ...] = (signals,) if options.signals else ()
    watcher = Watcher(
        backend=server,
        senses=Senses(logs=(lines,), signals=chosen),
        pack=pack,
        clock=clock,
        settings=WatcherSettings(cluster="fleet", holder="bench"),
    )
    running = asyncio.create_task(watcher.run())
    await clock.sleep(options.warm_s)
    before, begun = _cpu_s(), time.monotonic()
    asked, written = signals.requests, lines.lines
    first = dict(server.counts)
    late: list[float] = []
    while time.monotonic() - begun < options.run_s:
        at = time.monotonic()
        await clock.sleep(0.25)
        late.append(time.monotonic() - at - 0.25)
    took_s, spent_s = time.monotonic() - begun, _cpu_s() - before
    found = {
        "cores": round(spent_s / took_s, 3),
        "rss_mib": round(_rss_bytes() / 2**20, 1),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "queries_per_s": round((signals.requests - asked) / took_s, 2),
        "lines_per_s": round((lines.lines - written) / took_s, 1),
        "batches_per_s": round((server.counts["batches"] - first.get("batches", 0)) / took_s, 1),
        "found": dict(server.counts),
        "latest_s": round(max(late), 3),
        "sight": signals.sight()[0].sight.value,
        "note": signals.sight()[0].note,
        "took_s": round(took_s, 1),
    }
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await signals.close()
    return found


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    for name in ("nodes", "jobs"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("line-s", "warm-s", "run-s"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--no-signals", dest="signals", action="store_false")
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.stdout.write(json.dumps(asyncio.run(measured(options))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
