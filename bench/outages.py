"""A watcher whose source is away for a while: what was written, what was delivered of it, and what was told meanwhile.

Everything runs on a virtual time; the watcher is the whole one, its server is in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from bench.outage_books import Books, Server
from relance.domain.findings import Finding
from relance.domain.keys import AttemptKey
from relance.domain.views import Assignment
from relance.rules import Pack
from relance.simulation.training_lines import StepReport, saved_line, saving_line, step_line
from relance.testing.virtual_time import VirtualClock, VirtualTime
from relance.watching.senses import Senses
from relance.watching.settings import WatcherSettings
from relance.watching.watchers import Watcher

LOOK_S = 5.0
"""Between two looks at what the watcher says of its sources."""
SETTLED_S = 60.0
"""After so long everything has come that comes at all, and people have been told how things stand."""
STEPS_S = (1.0, 2.0, 5.0)
"""How long a step takes, for each job."""
_SAVE_EVERY, _SAVE_S = 60, 20.0
_CHECKPOINTS = Path("/checkpoints")
_CAUGHT_UP_LOOK_S = 0.5


class Site(Protocol):
    """A place where jobs write and a watcher reads, with a source that can be lost."""

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that takes no time."""
        ...

    def assignments(self) -> tuple[Assignment, ...]:
        """The jobs."""
        ...

    def write(self, attempt: AttemptKey, line: str) -> None:
        """A job writes a line."""
        ...

    def step(self, attempt: AttemptKey, step: int, line: str) -> None:
        """A job has made a step, and would say so by this line."""
        ...

    def senses(self) -> Senses:
        """New sources, as after a start of the watcher."""
        ...

    def lose(self) -> None:
        """The source is away."""
        ...

    def find(self) -> None:
        """It is there again."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long each part lasts, in seconds; whether the watcher is killed in the middle of the outage."""

    before_s: float
    outage_s: float
    after_s: float
    is_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `caught_up_s` is None where what was written meanwhile never came whole."""

    findings: tuple[Finding, ...]
    written: int
    written_meanwhile: int
    lost: int
    repeated: int
    told_away_s: float | None
    """How long after its beginning people were told of the outage."""
    unsaid_looks: int
    """Looks after that, before its end, at which they were told that all is well."""
    alarms_looks: int
    """Looks before it, and a minute after all was caught up, at which they were told of a loss."""
    caught_up_s: float | None


class Rehearsal:
    """One outage of one site."""

    def __init__(self, site: Site, plan: Plan, pack: Pack, time: VirtualTime, books: Books) -> None:
        """Prepare it."""
        self.is_over = False
        """Whether only the ends of threads are waited for."""
        self._site = site
        self._plan = plan
        self._pack = pack
        self._clock = VirtualClock(time)
        self._books = books
        self._server = Server(self._clock, books)
        self._looks: list[tuple[float, bool]] = []

    async def play(self) -> Outcome:
        """Go through it."""
        plan, clock, books = self._plan, self._clock, self._books
        self._server.wanted = self._site.assignments()
        begun = clock.monotonic()
        senses, watching = self._begin()
        others = [asyncio.create_task(self._look())]
        others += [
            asyncio.create_task(self._train(each.attempt, number)) for number, each in enumerate(self._server.wanted)
        ]
        await clock.sleep(plan.before_s)
        lost_at = clock.monotonic()
        self._site.lose()
        if plan.is_killed:
            await clock.sleep(plan.outage_s / 2)
            await self._end(senses, watching, is_killed=True)
            senses, watching = self._begin()
            await clock.sleep(plan.outage_s / 2)
        else:
            await clock.sleep(plan.outage_s)
        self._site.find()
        found_at = clock.monotonic()
        caught_up_s = await self._catch_up(found_at)
        await clock.sleep(max(found_at + plan.after_s - clock.monotonic(), 0.0))
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        findings = tuple(self._server.findings.values())
        end = clock.monotonic()
        await self._end(senses, watching, is_killed=False)
        self.is_over = True
        return Outcome(
            findings=findings,
            written=sum(len(lines) for lines in books.written.values()),
            written_meanwhile=books.count(lost_at, found_at),
            lost=books.lost(end - SETTLED_S),
            repeated=books.repeated,
            caught_up_s=caught_up_s,
            **self._said(begun, lost_at, found_at, caught_up_s),
        )

    def _begin(self) -> tuple[Senses, asyncio.Task[None]]:
        senses = self._site.senses()
        watcher = Watcher(
            backend=self._server,
            senses=senses,
            pack=self._pack,
            clock=self._clock,
            settings=WatcherSettings(cluster="alpha", holder="bench"),
        )
        return senses, asyncio.create_task(watcher.run())

    async def _end(self, senses: Senses, watching: asyncio.Task[None], *, is_killed: bool) -> None:
        """End the watcher; one that is killed hands nothing over."""
        self._server.is_away = is_killed
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await senses.close()
        self._server.is_away = False
        if is_killed:
            self._books.die()

    async def _train(self, attempt: AttemptKey, number: int) -> None:
        """One job: steps, and of the second one saves, too."""
        step_s, has_saves = STEPS_S[number], number == 1
        for step in itertools.count(1):
            await self._clock.sleep(step_s)
            self._site.step(attempt, step, _line(step, step_s, self._clock.now()))
            if has_saves and step % _SAVE_EVERY == 0:
                self._site.write(attempt, saving_line(step, _CHECKPOINTS, self._clock.now()))
                await self._clock.sleep(_SAVE_S)
                self._site.write(attempt, saved_line(step, _CHECKPOINTS, self._clock.now()))

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            self._looks.append((self._clock.monotonic(), self._server.says_away))

    async def _catch_up(self, found_at: float) -> float | None:
        """Wait until all that was written before is there; how long that took."""
        while (passed_s := self._clock.monotonic() - found_at) < self._plan.after_s - SETTLED_S:
            if not self._books.lost(found_at):
                return passed_s
            await self._clock.sleep(_CAUGHT_UP_LOOK_S)
        return None

    def _said(self, begun: float, lost_at: float, found_at: float, caught_up_s: float | None) -> dict[str, Any]:
        told = [at - lost_at for at, is_away in self._looks if is_away and lost_at < at <= found_at]
        first_s = min(told, default=None)
        calm_from = found_at + (caught_up_s or 0.0) + SETTLED_S
        return {
            "told_away_s": first_s,
            "unsaid_looks": sum(
                not is_away for at, is_away in self._looks if lost_at + (first_s or 0.0) <= at <= found_at
            ),
            "alarms_looks": sum(
                is_away for at, is_away in self._looks if begun + SETTLED_S <= at <= lost_at or at >= calm_from
            ),
        }


def _line(step: int, step_s: float, now: datetime) -> str:
    report = StepReport(
        step=step, steps=100_000, samples=32 * step, elapsed_ms=1000.0 * step_s, learning_rate=1e-4, batch=32, loss=2.5,
        norm=1.0,
    )  # fmt: skip
    return step_line(report, now)
