"""A watch over a cluster that is told what happens, with ledger, spool and mark on disk, and a clock set by hand."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from relance.domain.ledger_lines import line_of
from relance.domain.ledgers import VERSION, Entry, Opened
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState, JobView
from relance.domain.watchdogs import MARK_FILE, WatchdogMark, read_mark
from relance.slurm.errors import RefusedError, SlurmError
from relance.slurm.records import AccountedJob, AccountedStep
from relance.slurm.running import Commands
from relance.watchdog.alarms import Alarms, Log, Subject
from relance.watchdog.clocks import Clock
from relance.watchdog.ledgers import LEDGER_NAME, LOCK_NAME
from relance.watchdog.schedulers import Scheduler
from relance.watchdog.settings import Rules, WatchedCluster
from relance.watchdog.watches import Watch
from tests.unit.watchdog.grounds import CLUSTER, DUE, MIN_JOB_AGE_S, T0, failed


class HandClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.seconds = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.seconds += seconds


class ToldScheduler(Scheduler):
    """Shows the jobs that it was told, and does what it is asked, as Slurm would."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(Commands())
        self.shown: dict[str, JobView] = {}
        self.rows: dict[str, tuple[AccountedJob, ...]] = {}
        self.sent: list[str] = []
        self.asked: list[str] = []
        self.age_s: float | None = MIN_JOB_AGE_S
        self.fails: dict[str, SlurmError] = {}
        """What each question or command fails with. A command without an answer is carried out, if it arrived."""
        self.before: dict[str, Callable[[], object]] = {}
        """What happens just before a question is answered, or a command carried out."""
        self._clock = clock

    async def jobs(self, wanted: Mapping[str, datetime]) -> dict[str, JobView]:
        self._meet("jobs")
        return dict(self.shown)

    async def job(self, raw_id: str, wanted: Mapping[str, datetime]) -> JobView | None:
        self._meet("job")
        return self.shown.get(raw_id)

    async def attempts(self, raw_id: str) -> tuple[AccountedJob, ...]:
        self._meet("attempts")
        if raw_id in self.rows:
            return self.rows[raw_id]
        return (row_of(self.shown[raw_id]),)

    async def min_job_age_s(self) -> float | None:
        self._meet("settings")
        return self.age_s

    async def send(self, argv: Sequence[str]) -> None:
        error = self.fails.get("send")
        self._happen("send")
        self.sent.append(" ".join(argv))
        if error is not None and (isinstance(error, RefusedError) or "never arrived" in str(error)):
            raise error
        self._carry_out(argv)
        if error is not None:
            raise error

    def _carry_out(self, argv: Sequence[str]) -> None:
        raw_id = argv[-1]
        job = self.shown[raw_id]
        if argv[1] == "release":
            self.shown[raw_id] = replace(job, hold=Hold.NONE)
        elif job.state is JobState.PENDING:
            raise RefusedError("Job is pending execution", text="Job is pending execution")
        else:
            self.shown[raw_id] = replace(
                job,
                state=JobState.PENDING,
                restart_count=job.restart_count + 1,
                submitted_at=self._clock.now(),
                started_at=None,
                ended_at=None,
            )

    def _meet(self, question: str) -> None:
        self.asked.append(question)
        self._happen(question)
        if question in self.fails:
            raise self.fails[question]

    def _happen(self, question: str) -> None:
        happens = self.before.get(question)
        if happens is not None:
            happens()


def row_of(job: JobView, **step: object) -> AccountedJob:
    """What accounting has of a job's current attempt, with one step."""
    facts: dict[str, Any] = {"job_id": int(job.raw_id), "step_id": "0", "name": "train", "state": "FAILED"} | step
    return AccountedJob(
        job_id=int(job.raw_id),
        shown_id=job.raw_id,
        name=job.name,
        state=job.state.name,
        submitted_at=int(job.submitted_at.timestamp()),
        ended_at=None if job.ended_at is None else int(job.ended_at.timestamp()),
        steps=(AccountedStep(**facts),),
    )


class Stand:
    """The watch, and all that is around it."""

    def __init__(self, folder: Path, rules: Rules | None = None, at: datetime = DUE) -> None:
        self.folder = folder
        self.rules = rules or Rules(stage=Stage.ACT)
        self.clock = HandClock(at)
        self.scheduler = ToldScheduler(self.clock)
        self.log = io.StringIO()
        self.watch = self.new_watch()
        self.show(failed())

    def new_watch(self) -> Watch:
        """A watch as a new process begins it."""
        cluster = WatchedCluster(name=CLUSTER, folder=self.folder, rules=self.rules)
        self.alarms = Alarms(CLUSTER, Log(self.log))
        self.watch = Watch(cluster, 5.0, self.alarms, self.clock, self.scheduler)
        return self.watch

    def show(self, *jobs: JobView) -> None:
        self.scheduler.shown |= {job.raw_id: job for job in jobs}

    def write(self, *entries: Entry, beat_s: float = 120.0) -> None:
        """Write a ledger with these entries, whose controller gave its last sign of life so long ago."""
        lines = [line_of(entry) for entry in (Opened(version=VERSION, cluster=CLUSTER, at=T0), *entries)]
        (self.folder / LEDGER_NAME).write_bytes(b"".join(lines))
        self.beat(beat_s)

    def append(self, *entries: Entry) -> None:
        with (self.folder / LEDGER_NAME).open("ab") as file:
            file.write(b"".join(map(line_of, entries)))

    def beat(self, ago_s: float) -> None:
        at = (self.clock.now() - timedelta(seconds=ago_s)).timestamp()
        for name in (LEDGER_NAME, LOCK_NAME):
            (self.folder / name).touch()
            os.utime(self.folder / name, (at, at))

    async def rounds(self, count: int = 1, every_s: float = 5.0) -> list[str]:
        """Make some rounds, and give the commands that were sent in them."""
        before = len(self.scheduler.sent)
        for _ in range(count):
            await self.watch.round()
            self.clock.advance(every_s)
        return self.scheduler.sent[before:]

    @property
    def states(self) -> list[str]:
        return [deed.state.value for deed in sorted(self.watch.spool.deeds.values(), key=lambda deed: deed.number)]

    @property
    def subjects(self) -> set[Subject]:
        return set(self.alarms.now)

    @property
    def mark(self) -> WatchdogMark:
        found = read_mark((self.folder / MARK_FILE).read_text())
        assert found is not None
        return found

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]
