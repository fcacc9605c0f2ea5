"""Sites of each kind of source, with healthy trainings, and ways in which the source can be lost."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

from bench.outage_books import BookedLogs, BookedSignals, Books, Work, WorkersClock
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.rules import Pack
from relance.rules.metric_queries import ASK_LABEL
from relance.sources.exchanges import ExchangeSettings
from relance.sources.files.disks import AbsentError, Disk, Entry, RefusedError, Sighting
from relance.sources.files.settings import FileSettings
from relance.sources.files.sources import FileSource
from relance.sources.metrics import MetricSettings, MetricSource
from relance.sources.metrics.settings import ProgressSeries
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.times import ns_of
from relance.sources.stores.wanted import Wanted, wanted_of
from relance.testing.memory_stores import MemoryStore
from relance.testing.virtual_time import VirtualClock, VirtualTime
from relance.watching.senses import Senses

CLUSTER = "alpha"
JOBS = ("1", "2", "3")
_NODES_EACH = 2
_SHIPPED_LATE_S = 0.5
"""How long an agent on the node takes to bring a line into a store."""
_SCRAPE_S = 15.0
_LOOK_BACK_S = 300.0
"""A store tells of no sample that is older."""
_STEP, _TEMPERATURE = "train_step", "DCGM_FI_DEV_GPU_TEMP"
_COME_BACK_S = 0.1
"""Real time for threads that hung to end what they were at."""


@dataclass(slots=True)
class Room:
    """What all sites have: time, rules, books."""

    time: VirtualTime
    pack: Pack
    books: Books
    work: Work

    @property
    def clock(self) -> VirtualClock:
        """The time."""
        return VirtualClock(self.time)

    def assignments(self, folder: str = "") -> tuple[Assignment, ...]:
        """The jobs, begun just now; with a folder each has its log there."""
        began = self.time.now()
        return tuple(
            Assignment(
                attempt=AttemptKey(job=JobKey(cluster=CLUSTER, raw_id=job, submitted_at=began), restart_count=0),
                owner_uid=os.geteuid(),
                nodes=tuple(f"n{job}{number}" for number in range(_NODES_EACH)),
                log_paths=(f"{folder}/{job}.out",) if folder else (),
                ranks_per_node=2,
                started_at=began,
            )
            for job in JOBS
        )

    def booked(self, attempt: AttemptKey, line: str) -> bytes:
        """A line, written down as written now."""
        data = line.encode()
        self.books.write(attempt, self.time.monotonic(), data)
        return data


class LossyDisk(Disk):
    """A disk that can be lost: every call fails, or hangs until it is there again."""

    def __init__(self, root: str, room: Room, *, hangs: bool) -> None:
        """Read below this root."""
        super().__init__((root,), room.time.monotonic)
        self._hangs = hangs
        self._there = threading.Event()
        self._there.set()

    @property
    def is_hanging(self) -> bool:
        """Whether calls hang now."""
        return self._hangs and not self._there.is_set()

    def lose(self) -> None:
        """It is away."""
        self._there.clear()

    def find(self) -> None:
        """It is there again."""
        self._there.set()

    def _ask(self) -> None:
        if self._hangs:
            self._there.wait()
        elif not self._there.is_set():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _said(self) -> None:
        try:
            self._ask()
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise RefusedError(message) from error

    def looks(self, paths: Sequence[str]) -> list[Sighting | RefusedError | AbsentError]:
        try:
            self._said()
        except RefusedError as error:
            return [error] * len(paths)
        return super().looks(paths)

    def names(self, folder: str) -> tuple[str, ...]:
        self._said()
        return super().names(folder)

    def entries(self, folder: str, owners: frozenset[int], at_most: int) -> tuple[Entry, ...]:
        self._said()
        return super().entries(folder, owners, at_most)

    def open(self, path: str, owners: frozenset[int]) -> tuple[int, Sighting]:
        self._said()
        return super().open(path, owners)

    def look_at(self, fd: int, path: str) -> Sighting:
        self._ask()
        return super().look_at(fd, path)

    def read(self, fd: int, size_bytes: int, offset: int) -> bytes:
        self._ask()
        return super().read(fd, size_bytes, offset)


class FileSite:
    """Jobs that write into a folder, which fails, hangs, or is moved away."""

    def __init__(self, room: Room, root: Path, how: str) -> None:
        """`how` is one of "fails", "hangs", "is moved away"."""
        self._room = room
        self._folder = root / "logs"
        self._folder.mkdir()
        self._away = root / "elsewhere" if how == "is moved away" else None
        self._disk = LossyDisk(str(root), room, hangs=how == "hangs")
        self._is_away = False

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work, and will come to an end."""
        return self._room.work.count > 0 and not self._disk.is_hanging

    def assignments(self) -> tuple[Assignment, ...]:
        """The jobs."""
        return self._room.assignments(str(self._folder))

    def write(self, attempt: AttemptKey, line: str) -> None:
        """A job writes a line; it goes on in the folder that it knows."""
        path = (self._away if self._away and self._is_away else self._folder) / f"{attempt.job.raw_id}.out"
        with path.open("ab") as file:
            file.write(self._room.booked(attempt, line) + b"\n")
        at = self._room.time.now().timestamp()
        os.utime(path, (at, at))

    def step(self, attempt: AttemptKey, step: int, line: str) -> None:
        """A job has made a step."""
        self.write(attempt, line)

    def senses(self) -> Senses:
        """A new source."""
        room = self._room
        source = FileSource(FileSettings(roots=(str(self._folder.parent),)), room.clock, self._disk)
        return Senses(logs=(BookedLogs(source, room.books, room.work),))

    def lose(self) -> None:
        """The folder is away."""
        self._is_away = True
        if self._away is not None:
            self._folder.rename(self._away)
        else:
            self._disk.lose()

    def find(self) -> None:
        """It is there again."""
        self._is_away = False
        if self._away is not None:
            self._away.rename(self._folder)
        elif self._disk.is_hanging:
            self._disk.find()
            time.sleep(_COME_BACK_S)
        else:
            self._disk.find()

    def close(self) -> None:
        """Let hanging threads end."""
        self._disk.find()


class StoreSite:
    """Jobs whose lines come into a log store, which does not answer for a while but takes lines all the time."""

    def __init__(self, room: Room, name: str, *, keeps_repeats: bool, has_steps: bool = True) -> None:
        """Without steps all lines travel, since none of them has to."""
        self._room = room
        self._settings = StoreSourceSettings(name=name)
        self._wanted = wanted_of(room.pack) if has_steps else Wanted()
        self._store = MemoryStore(now_ns=lambda: ns_of(room.time.now()), keeps_repeats=keeps_repeats)

    @property
    def is_busy(self) -> bool:
        """It is in memory."""
        return False

    def assignments(self) -> tuple[Assignment, ...]:
        """The jobs."""
        return self._room.assignments()

    def write(self, attempt: AttemptKey, line: str) -> None:
        """A line comes into the store."""
        at_ns = ns_of(self._room.time.now())
        labels = {"job_id": attempt.job.raw_id, "node": f"n{attempt.job.raw_id}0"}
        arrives_ns = at_ns + int(_SHIPPED_LATE_S * 1e9)
        self._store.put(at_ns, labels, self._room.booked(attempt, line), arrives_ns=arrives_ns)

    def step(self, attempt: AttemptKey, step: int, line: str) -> None:
        """A job has made a step."""
        self.write(attempt, line)

    def senses(self) -> Senses:
        """A new source."""
        room = self._room
        source = StoreSource(self._store, self._settings, self._wanted, clock=room.clock)
        return Senses(logs=(BookedLogs(source, room.books, Work()),))

    def lose(self) -> None:
        """It does not answer."""
        self._store.is_away = True

    def find(self) -> None:
        """It answers again."""
        self._store.is_away = False

    def close(self) -> None:
        """Nothing is held."""


class MetricSite(StoreSite):
    """Jobs that export their steps as series, and whose logs say nothing of them. The metric store can be lost.

    Either it does not answer, or it answers and gets no samples.
    """

    def __init__(self, room: Room, *, is_starved: bool) -> None:
        """Serve on a port of the loopback interface; `is_starved`: it gets no samples while it is lost."""
        super().__init__(room, "loki", keeps_repeats=False, has_steps=False)
        self.is_mute = False
        self._is_starved = is_starved
        self._is_fed = True
        self._steps: dict[AttemptKey, int] = {}
        self._scrapes: list[tuple[float, dict[AttemptKey, int]]] = [(room.time.now().timestamp(), {})]
        _Handler.site = self
        self._server = _QuietServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a query is under way."""
        return self._room.work.count > 0

    def step(self, attempt: AttemptKey, step: int, line: str) -> None:
        """It is exported, and scraped when it is time; the log says nothing of it."""
        name = "".join(chr(ord("a") + int(digit)) for digit in str(step))
        self.write(attempt, f"INFO the loader took shard {name}")
        self._steps[attempt] = step
        now = self._room.time.now().timestamp()
        if self._is_fed and now - self._scrapes[-1][0] >= _SCRAPE_S:
            self._scrapes.append((now, dict(self._steps)))
            for each, scraped in self._steps.items():
                self._room.books.export(each, self._room.time.monotonic(), scraped)

    def senses(self) -> Senses:
        """New sources."""
        room = self._room
        settings = MetricSettings(
            exchange=ExchangeSettings(url=f"http://127.0.0.1:{self._server.server_address[1]}"),
            progress=ProgressSeries(step=_STEP),
        )
        source = MetricSource(settings, room.pack.metrics, WorkersClock(room.time, room.work))
        return Senses(logs=super().senses().logs, signals=(BookedSignals(source, room.books, room.work),))

    def lose(self) -> None:
        """It does not answer, or gets nothing more."""
        self._is_fed = not self._is_starved
        self.is_mute = not self._is_starved

    def find(self) -> None:
        """All is well again."""
        self._is_fed, self.is_mute = True, False

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, query: str, at: float | None) -> object:
        """What the store answers, as of a time."""
        if path.endswith("/values"):
            return [_TEMPERATURE, _STEP]
        if path.endswith("query_range") or query.endswith("]"):
            return {"resultType": "matrix", "result": []}
        now = self._room.time.now().timestamp() if at is None else at
        seen = [each for each in self._scrapes if now - _LOOK_BACK_S <= each[0] <= now]
        rows = [({}, now)] if query == "time()" else _rows(query, *seen[-1], self._room) if seen else []
        result = [{"metric": labels, "value": [now, f"{value:.3f}"]} for labels, value in rows]
        return {"resultType": "vector", "result": result}


def _rows(query: str, at: float, steps: dict[AttemptKey, int], room: Room) -> list[tuple[dict[str, str], float]]:
    """The series that one scrape brought, as they are asked for."""
    if _STEP in query:
        told = {attempt.job.raw_id: {"value": float(step), "at": at} for attempt, step in steps.items()}
        return [({"job_id": job, ASK_LABEL: tag}, row[tag]) for job, row in told.items() for tag in row]
    if "timestamp(" in query and "count by" in query:
        nodes = [node for each in room.assignments() for node in each.nodes]
        asked = {"at": at, "count": 8.0}
        return [({"Hostname": node, ASK_LABEL: tag}, asked[tag]) for node in nodes for tag in asked]
    return []


class _QuietServer(ThreadingHTTPServer):
    """A server whose clients may be killed."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that end."""


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the metric store."""

    protocol_version = "HTTP/1.1"
    site: ClassVar[MetricSite]

    def do_GET(self) -> None:
        """Names."""
        self._send("", None)

    def do_POST(self) -> None:
        """A query."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._send(form["query"][0], float(form["time"][0]) if "time" in form else None)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
        """Say nothing."""

    def _send(self, query: str, at: float | None) -> None:
        if self.site.is_mute:
            self.close_connection = True
            return
        data = self.site.answer(self.path.partition("?")[0], query, at)
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
