"""What can happen in a story: to the job, to the cluster, by people, and to the agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from relance.domain.findings import Finding
from relance.domain.keys import AttemptKey
from relance.domain.stages import EndRunning, Stage
from relance.domain.views import Hold, JobState, NodeState, Wish
from relance.recovery.commands import Choice
from tests.scenarios.timelines import Act
from tests.scenarios.worlds import JOB, World

SOMEBODY = 1000
"""The uid of the job's owner."""


def submits(raw_id: str = JOB, *, user: str = "ada", name: str = "train", node_count: int = 4,
            wish: Wish | None = None) -> Act:  # fmt: skip
    """A person submits a job."""

    async def act(world: World) -> None:
        world.cluster.submit(raw_id, world.now, user=user, name=name, node_count=node_count, wish=wish)

    return act


def changes(raw_id: str = JOB, **fields: object) -> Act:
    """What the scheduler shows of a job changes."""

    async def act(world: World) -> None:
        world.cluster.change(raw_id, **fields)

    return act


def fails(raw_id: str = JOB, state: JobState = JobState.FAILED, exit_code: int = 1, exit_signal: int = 0) -> Act:
    """The running attempt ends badly."""

    async def act(world: World) -> None:
        world.cluster.end(raw_id, state, world.now, exit_code=exit_code, exit_signal=exit_signal)

    return act


def completes(raw_id: str = JOB) -> Act:
    """The running attempt ends well."""

    async def act(world: World) -> None:
        world.cluster.end(raw_id, JobState.COMPLETED, world.now, exit_code=0, exit_signal=0)

    return act


def cancels(raw_id: str = JOB, uid: int = SOMEBODY) -> Act:
    """A person cancels the job."""

    async def act(world: World) -> None:
        world.cluster.end(raw_id, JobState.CANCELLED, world.now, cancelled_by=uid)

    return act


def is_requeued(raw_id: str = JOB) -> Act:
    """The scheduler or a person puts the job back into the queue."""

    async def act(world: World) -> None:
        world.cluster.requeue(raw_id, world.now)

    return act


def is_held(raw_id: str = JOB) -> Act:
    """A person holds the waiting job."""

    async def act(world: World) -> None:
        world.cluster.change(raw_id, hold=Hold.USER)

    return act


def hangs(raw_id: str = JOB) -> Act:
    """The program stops making steps."""

    async def act(world: World) -> None:
        world.cluster.freeze(raw_id, world.now)

    return act


def goes_on(raw_id: str = JOB) -> Act:
    """The program that hung makes steps again."""

    async def act(world: World) -> None:
        world.cluster.training[raw_id, world.cluster.jobs[raw_id].restart_count].frozen_at = None

    return act


def is_forgotten(raw_id: str = JOB) -> Act:
    """The scheduler forgets the job."""

    async def act(world: World) -> None:
        del world.cluster.jobs[raw_id]

    return act


def loses_its_checkpoints() -> Act:
    """From now on new attempts begin from nothing."""

    async def act(world: World) -> None:
        world.cluster.loses_checkpoints = True

    return act


def node_goes_down(node: str) -> Act:
    """The scheduler loses a node."""

    async def act(world: World) -> None:
        lost = replace(world.cluster.nodes[node], state=NodeState.DOWN, reason="Not responding", since=world.now)
        world.cluster.nodes[node] = lost

    return act


def is_drained(node: str, by: str, reason: str, state: NodeState = NodeState.DRAINED) -> Act:
    """A person takes a node out."""

    async def act(world: World) -> None:
        out = replace(world.cluster.nodes[node], state=state, reason=reason, set_by=by, since=world.now)
        world.cluster.nodes[node] = out

    return act


def finds(make: Callable[[AttemptKey, World], Finding], raw_id: str = JOB, restart_count: int | None = None) -> Act:
    """The watcher finds something about an attempt; the current one when no count is given."""

    async def act(world: World) -> None:
        world.find(make(world.attempt(raw_id, restart_count), world))

    return act


def sets(stage: Stage, end_running: frozenset[EndRunning] = frozenset()) -> Act:
    """An operator sets the cluster's stage."""

    async def act(world: World) -> None:
        await world.set_stage(stage, end_running)

    return act


def switches_off(raw_id: str = JOB) -> Act:
    """The owner switches the job off."""

    async def act(world: World) -> None:
        await world.commands.switch_job(raw_id, Stage.OFF, "ada")

    return act


def disagrees(raw_id: str = JOB) -> Act:
    """The owner says that we are wrong."""

    async def act(world: World) -> None:
        await world.commands.disagree(raw_id, "ada", "it was my mistake")

    return act


def approves(raw_id: str = JOB, by: str = "grace", for_s: float | None = None) -> Act:
    """A person approves the advice in force, as it is shown now, for as long as allowed or for some seconds."""

    async def act(world: World) -> None:
        until = None if for_s is None else world.now + timedelta(seconds=for_s)
        await world.commands.approve(await _choice(world, raw_id), by, until)

    return act


def denies(raw_id: str = JOB, by: str = "grace") -> Act:
    """A person denies the advice in force."""

    async def act(world: World) -> None:
        await world.commands.deny(await _choice(world, raw_id), by, "not now")

    return act


def commands_change() -> Act:
    """The controller would carry advice out by other commands than before."""

    async def act(world: World) -> None:
        world.controller.words = ("otherwise",)

    return act


def agents_come_seldom(every_s: int) -> Act:
    """The agents speak only so often."""

    async def act(world: World) -> None:
        world.controller.every_s = world.watcher.every_s = every_s

    return act


def controller_hesitates(for_s: float) -> Act:
    """The controller takes so long between a claim and its first step."""

    async def act(world: World) -> None:
        world.controller.hesitates_s = for_s

    return act


def controller_gives_up() -> Act:
    """From now on the controller abandons what it claims."""

    async def act(world: World) -> None:
        world.controller.gives_up = True

    return act


def watcher_falls_silent() -> Act:
    """The watcher dies."""

    async def act(world: World) -> None:
        world.watcher.is_silent = True

    return act


def watcher_is_back() -> Act:
    """The watcher runs again."""

    async def act(world: World) -> None:
        world.watcher.is_silent = False

    return act


def controller_falls_silent() -> Act:
    """The controller dies."""

    async def act(world: World) -> None:
        world.controller.is_silent = True

    return act


def controller_is_back() -> Act:
    """The controller runs again."""

    async def act(world: World) -> None:
        world.controller.is_silent = False

    return act


async def _choice(world: World, raw_id: str) -> Choice:
    incident = await world.incident(raw_id)
    assert incident.advice is not None
    assert incident.effect is not None
    return Choice(
        advice_id=incident.advice.id,
        generation=incident.advice.generation,
        effect_digest=incident.effect.digest,
    )
