"""A small language for stories: at second 30 this happens, between 45 and 47 that is wanted, and never the other.

A timeline holds what happens and what is wanted; `play` lets it happen in a world and reads the history afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from relance.domain import events as e
from relance.domain.events import Event
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Recorded
from tests.scenarios.worlds import JOB, World

E = TypeVar("E")
Act = Callable[[World], Awaitable[None]]
_NO_CONSENT: frozenset[EndRunning] = frozenset()


def anything(_event: object) -> bool:
    """Any event of its kind will do."""
    return True


@dataclass(frozen=True, slots=True)
class Want(Generic[E]):
    """An event of a kind that is wanted in a span of seconds, `times` of them (None: at least one)."""

    after_s: float
    before_s: float
    kind: type[E]
    where: Callable[[E], bool]
    times: int | None

    def complaint(self, told: tuple[Recorded, ...], world: World) -> str:
        """What is wrong, or nothing."""
        seconds = [
            world.second(item.recorded_at)
            for item in told
            if isinstance(item.event, self.kind) and self.where(item.event)
        ]
        inside = [second for second in seconds if self.after_s <= second <= self.before_s]
        if inside and self.times is None:
            return ""
        if len(inside) == self.times:
            return ""
        wanted = "some" if self.times is None else str(self.times)
        span = f"between {self.after_s:g} and {self.before_s:g}"
        return f"wanted {wanted} {self.kind.__name__} {span}, there are some at {seconds}"


@dataclass(slots=True, kw_only=True)
class Timeline:
    """A story: what happens and what is wanted, in seconds since its beginning."""

    stage: Stage = Stage.ACT
    end_running: frozenset[EndRunning] = _NO_CONSENT
    until_s: float = 200.0
    world: World = field(default_factory=World)
    _acts: list[tuple[float, Act]] = field(default_factory=list)
    _wants: list[Want[Event]] = field(default_factory=list)
    _ends: list[tuple[str, tuple[e.IncidentEnd | None, ...]]] = field(default_factory=list)

    def at(self, second: float, *acts: Act) -> None:
        """Let something happen."""
        self._acts += [(second, act) for act in acts]

    def want(
        self, after_s: float, before_s: float, kind: type[E], where: Callable[[E], bool] = anything,
        *, times: int | None = None,
    ) -> None:  # fmt: skip
        """Want events of a kind in a span of seconds."""
        self._wants.append(Want(after_s, before_s, kind, where, times))  # type: ignore[arg-type]

    def never(
        self, kind: type[E], where: Callable[[E], bool] = anything, *, after_s: float = 0.0, before_s: float = math.inf
    ) -> None:
        """Want no event of a kind, ever or in a span of seconds."""
        self._wants.append(Want(after_s, before_s, kind, where, 0))  # type: ignore[arg-type]

    def ends(self, *ends: e.IncidentEnd | None, raw_id: str = JOB) -> None:
        """Want a job to have exactly these incidents, ended so; None: still open."""
        self._ends.append((raw_id, ends))

    async def play(self, restarted_at: Callable[[float], bool] = lambda _second: False) -> None:
        """Let the story happen, with a new server at each second for which that is asked, and check what is wanted."""
        world = self.world
        await world.set_stage(self.stage, self.end_running)
        second, acts = 0.0, sorted(self._acts, key=lambda item: item[0])
        while second <= self.until_s:
            while acts and acts[0][0] <= second:
                await acts.pop(0)[1](world)
            if restarted_at(second):
                await world.restart_server()
            await world.tick()
            world.clock.advance(1.0)
            second += 1.0
        await self._check()

    async def _check(self) -> None:
        told = await self.world.told()
        complaints = [text for want in self._wants if (text := want.complaint(told, self.world))]
        for raw_id, wanted in self._ends:
            incidents = (await self.world.job(raw_id)).incidents
            found = tuple(item.end for item in incidents)
            if found != wanted:
                words = [(item.end.value if item.end else item.state.value, item.end_reason) for item in incidents]
                complaints.append(f"job {raw_id} has the incidents {words}")
        assert not complaints, "\n".join([*complaints, "", *_story(told, self.world)])


def _story(told: tuple[Recorded, ...], world: World) -> list[str]:
    return [f"{world.second(item.recorded_at):7.1f}  {item.stream}  {_line(item.event)}" for item in told]


def _line(event: Event) -> str:
    text = type(event).__name__
    if isinstance(event, e.AdviceIssued):
        advice = event.advice
        marks = [name for name in ("hold", "park") if getattr(advice, name)]
        return " ".join([text, advice.action.value, *advice.exclude, *marks, f"({'; '.join(advice.reasons)})"])
    if isinstance(event, e.VerdictReached):
        return f"{text} {event.verdict.cause} -> {event.verdict.remedy.value}: {event.verdict.summary}"
    if isinstance(event, e.IncidentClosed):
        return f"{text} {event.end.value}: {event.reason}"
    return text
