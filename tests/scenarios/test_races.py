"""What somebody else does between a decision and its append, and appends that fail, change no promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind, Claim, Effect, StepRecord
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import WatcherBatch
from relance.domain.stages import Stage
from relance.ports.backends import BackendUnavailableError
from relance.ports.histories import Append, ConflictError, History, StorageUnusableError
from relance.recovery.backends import LocalBackend
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.sites import Site
from relance.testing.manual_clocks import ManualClock
from tests.scenarios.acts import approves, denies
from tests.scenarios.clusters import NAME, FakeCluster
from tests.scenarios.storybooks import crashed
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import BEGIN, World

ATTEMPT = AttemptKey(job=JobKey(cluster=NAME, raw_id="17", submitted_at=BEGIN), restart_count=0)
CLAIM = Claim(
    advice_id="adv",
    attempt=ATTEMPT,
    generation=1,
    cluster=NAME,
    holder="hand",
    lease_epoch=1,
    kind=ActionKind.RESTART,
    effect=Effect(summary="", commands=(), digest=""),
)


def _is_claim(batch: Append) -> bool:
    return any(isinstance(event, e.ActionStarted) for event in batch.events)


def _once_before_the_claim(world: World, deed: Callable[[], Awaitable[object]]) -> None:
    """Let something happen when a claim has been checked and is about to be appended, the first time."""
    done: list[bool] = []

    async def before(batch: Append) -> None:
        if _is_claim(batch) and not done:
            done.append(True)
            await deed()

    world.history.before = before


async def _told(line: Timeline, kind: type) -> list[object]:
    return [item.event for item in await line.world.told() if isinstance(item.event, kind)]


async def test_a_stage_lowered_between_check_and_append_stops_the_claim() -> None:
    line = crashed(until_s=100)
    _once_before_the_claim(line.world, lambda: line.world.set_stage(Stage.OBSERVE))
    await line.play()
    assert await _told(line, e.ActionStarted) == []
    assert "stage" in line.world.controller.refusals[0]


async def test_a_job_switched_off_between_check_and_append_stops_the_claim() -> None:
    line = crashed(until_s=100)
    _once_before_the_claim(line.world, lambda: line.world.commands.switch_job("17", Stage.OBSERVE, "ada"))
    await line.play()
    assert await _told(line, e.ActionStarted) == []


async def test_a_denial_between_check_and_append_stops_the_claim() -> None:
    line = crashed(stage=Stage.APPROVE, until_s=120)
    _once_before_the_claim(line.world, lambda: denies(by="ada")(line.world))
    line.at(80, approves())
    line.want(80, 82, e.AdviceApproved, times=1)
    line.want(80, 82, e.AdviceDenied, times=1)
    line.never(e.ActionStarted)
    line.ends(e.IncidentEnd.LEFT)
    await line.play()


async def test_a_lost_race_is_run_again_whoever_lost_it() -> None:
    """Every second append of every stream is lost once; the story is the same."""
    line = crashed()
    line.want(74, 80, e.ActionStarted, times=1)
    line.ends(e.IncidentEnd.RECOVERED)
    seen: set[tuple[str, int]] = set()

    async def before(batch: Append) -> None:
        mark = (batch.stream.name, batch.expected_version)
        if batch.expected_version % 2 and mark not in seen:
            seen.add(mark)
            raise ConflictError("somebody else was first")

    line.world.history.before = before
    await line.play()
    assert len(seen) > 5


async def test_a_report_that_was_half_taken_in_is_taken_in_whole_when_it_comes_again() -> None:
    world = World()
    world.cluster.submit("17", world.now)
    world.cluster.submit("18", world.now, user="bob")
    report = world.cluster.look(world.now, "hand", 1)

    async def before(batch: Append) -> None:
        if "/18/" in batch.stream.name:
            raise StorageUnusableError("the disk is full")

    world.history.before = before
    with pytest.raises(BackendUnavailableError, match="disk is full"):
        await world.backend.report(report)
    world.history.before = None
    await world.backend.report(report)
    assert {record.job.raw_id for record in await world.history.jobs()} == {"17", "18"}


async def test_two_servers_that_hear_different_agents_do_not_answer_each_other_without_end() -> None:
    line = crashed(until_s=70)
    await line.play()
    world = line.world
    deaf = Loop(world.history, Live(), world.site, world.clock)
    LocalBackend(world.history, Live(), deaf, world.site, world.clock)
    await deaf.begin()
    world.clock.advance(40.0)
    before = await world.history.head()
    await world.controller.turn(world.backend, world.now)
    for _ in range(50):
        await world.loop.tick()
        await deaf.tick()
    assert await world.history.head() - before < 20


class AwayHistory:
    """A history that is away, whatever is asked."""

    def subscribe(self, _listener: object) -> None:
        """Nothing will be heard."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        """Every call of the port."""

        async def away(*_args: object, **_kwargs: object) -> object:
            raise StorageUnusableError("the database is away")

        return away


CALLS: dict[str, Callable[[LocalBackend], Awaitable[object]]] = {
    "assignments": lambda backend: backend.assignments(NAME),
    "checkpoint": lambda backend: backend.checkpoint(ATTEMPT),
    "submit": lambda backend: backend.submit(WatcherBatch(attempt=ATTEMPT, holder="watcher", as_of=BEGIN)),
    "report": lambda backend: backend.report(FakeCluster().look(BEGIN, "hand", 1)),
    "orders": lambda backend: backend.orders(NAME, "hand"),
    "claim": lambda backend: backend.claim(CLAIM),
    "record": lambda backend: backend.record(
        StepRecord(id="s1", attempt=ATTEMPT, advice_id="adv", at=BEGIN, step="requeue")
    ),
    "wait": lambda backend: backend.wait(0, 0.0),
}


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_says_unavailable_while_the_history_is_away(call: str) -> None:
    """Agents know no other word for it: whatever else came out would end their loops."""
    history, live, clock = cast("History", AwayHistory()), Live(), ManualClock(BEGIN)
    backend = LocalBackend(history, live, Loop(history, live, Site(), clock), Site(), clock)
    with pytest.raises(BackendUnavailableError, match="database is away"):
        await CALLS[call](backend)
