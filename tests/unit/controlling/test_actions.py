"""What a controller remembers of its actions, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.controlling import actions as module
from relance.controlling.actions import Actions
from relance.controlling.moves import Leave, Transaction
from relance.controlling.paces import Pace
from relance.controlling.resumptions import Setting
from relance.controlling.senders import Tools
from relance.domain.advice import ActionEnd, ActionKind, Effect
from relance.domain.ledgers import Began, Expected, Reported
from relance.domain.views import ClusterReport
from tests.unit.controlling.worlds import HOLDER, World


class Nobody:
    """Surroundings that give no leave."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def look(self) -> ClusterReport:
        return await self._world.scheduler.look()

    def leave(self, transaction: Transaction) -> tuple[Leave, str]:
        return Leave.NEVER, f"not {transaction.began.action_id}"

    def unwatched(self, partition: str) -> str:
        return f"nobody watches {partition}"

    def acting(self) -> tuple[str, ...]:
        return ()

    def note_window(self, window_s: float) -> None:
        """Nobody asks."""


async def some_action(world: World) -> Began:
    job = await world.failed_job()
    return Began(
        action_id="act-0",
        advice=world.advice(job),
        kind=ActionKind.RESTART,
        effect=Effect(summary="", commands=(), digest=""),
        expected=Expected(
            raw_id=job.raw_id,
            restart_count=0,
            submitted_at=job.submitted_at,
            state=job.state,
            started_at=job.started_at,
        ),
        holder=HOLDER,
        at=world.clock.now(),
    )


def test_an_action_is_known_after_its_end_until_many_others_have_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SEEN", 3)
    ledger = world.ledger()
    tools = Tools(
        scheduler=world.scheduler, ledger=ledger, clock=world.clock, surroundings=Nobody(world), told=lambda: None
    )

    async def story() -> None:
        began = await some_action(world)
        setting = Setting(cluster=world.cluster.name, limits=world.limits, pace=Pace())
        actions = Actions(setting=setting, tools=tools, holder=HOLDER)
        for number in range(6):
            action = replace(began, action_id=f"act-{number}")
            actions.give_up(action, "nothing was sent: x")
            assert ledger.state.actions[action.action_id].began == action
            ledger.append(Reported(action_id=action.action_id, numbers=(1,), at=world.clock.now()))
        assert ledger.state.actions == {}
        assert [actions.knows(f"act-{number}") for number in range(6)] == [False, False, False, True, True, True]

    world.play(story())
    ledger.close()


def test_the_time_of_the_next_try_is_forgotten_with_the_action(world: World) -> None:
    ledger = world.ledger()
    tools = Tools(
        scheduler=world.scheduler, ledger=ledger, clock=world.clock, surroundings=Nobody(world), told=lambda: None
    )

    async def story() -> None:
        began = await some_action(world)
        setting = Setting(cluster=world.cluster.name, limits=world.limits, pace=Pace())
        actions = Actions(setting=setting, tools=tools, holder=HOLDER)
        ledger.append(began)
        actions.begin(began)
        assert list(actions._again_s) == ["act-0"]  # noqa: SLF001 - what is kept in memory is the matter
        while actions.running:
            await world.clock.sleep(0.1)
        ended = ledger.state.actions["act-0"].ended
        assert ended is not None
        assert (ended.end, ended.reason) == (ActionEnd.ABANDONED, "nothing was sent: not act-0")
        actions.resume_open()
        assert (actions._again_s, actions.running) == ({}, 0)  # noqa: SLF001 - the same

    world.play(story())
    ledger.close()
