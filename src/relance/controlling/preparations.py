"""Preparations: the exact commands that an advice would come to now, and what a finished preparation is bound to. Pure.

In `observe` this is all there is. An approval is bound to the digest, which covers the argument lists and the state of
the job that they were made for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from relance.controlling.dependents import MOST, cancelled_dependents, dependents, whole
from relance.controlling.exclusions import merged
from relance.controlling.moves import Transaction
from relance.controlling.paces import SHORT_WINDOW_S
from relance.controlling.state_tables import Case, Course, ruling
from relance.domain.advice import ActionKind, Advice, Command, Effect
from relance.domain.fits import Grounds
from relance.domain.keys import stable_id
from relance.domain.ledgers import Excluded, Expected, Parked
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, Hold, JobState, JobView
from relance.ports.backends import Order
from relance.ports.schedulers import SchedulerRefusedError


class CommandBuilder(Protocol):
    """The part of `ports.schedulers.Scheduler` that builds commands and sends nothing."""

    def requeue(self, job: JobView) -> Command:
        """As in the port."""
        ...

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        """As in the port."""
        ...

    def cancel(self, job: JobView) -> Command:
        """As in the port."""
        ...

    def requeue_held(self, job: JobView) -> Command:
        """As in the port."""
        ...

    def release(self, job: JobView) -> Command:
        """As in the port."""
        ...

    def rearm(self, job: JobView, dependency: str) -> Command:
        """As in the port. Raises SchedulerRefusedError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What would be done, and to what. `holds`: the job is held between the requeue and the update."""

    kind: ActionKind
    effect: Effect
    expected: Expected
    holds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Nothing would be done, and why; `is_problem`: people can do something about it."""

    reason: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An order and what the controller sees of its job.

    `unwatched` says why no watchdog would free a job that we hold, empty when one would. `window_s` is how long a
    requeued job waits on this cluster before it starts by itself, as far as is known. `written` are the newest lists of
    excluded nodes that we wrote onto the job. `acting` are the attempts (their keys as text) whose jobs are at `act`.
    """

    cluster: str
    order: Order
    job: JobView
    report: ClusterReport | None
    parked: Parked | None
    limits: Limits
    unwatched: str = ""
    window_s: float = float("inf")
    written: tuple[Excluded, ...] = ()
    acting: Collection[str] = ()


def prepare(scene: Scene, builder: CommandBuilder) -> Preparation | NothingToDo:
    """What carrying out the order would do to the job as it is now."""
    advice, job = scene.order.advice, scene.job
    acts = scene.order.stage.stage is Stage.ACT
    rule = ruling(
        Case(
            cluster=scene.cluster,
            advice=advice,
            job=job,
            base_count=advice.attempt.restart_count,
            # In observe what would be done is shown whether or not the site consents to it.
            consent=scene.order.stage.end_running if acts else None,
            parked=scene.parked,
            past=scene.report.past if scene.report is not None else (),
        )
    )
    match rule.course:
        case Course.TRANSACTION:
            return _restart(scene, builder)
        case Course.CONSTRAIN:
            update = _update(scene, builder)
            waiting = _rearmed(scene, builder)
            commands, words = (update.command, *waiting.commands), (*update.words, *waiting.words)
            return _prepared(ActionKind.CONSTRAIN, job, commands, words)
        case Course.CANCEL:
            return _prepared(ActionKind.CANCEL, job, (builder.cancel(job),), ("cancel",))
        case Course.NOTHING:
            return NothingToDo(reason=rule.reason)


def expected_of(job: JobView) -> Expected:
    """What the job must still show when a command goes out."""
    return Expected(
        raw_id=job.raw_id,
        restart_count=job.restart_count,
        submitted_at=job.submitted_at,
        state=job.state,
        started_at=job.started_at,
        excluded=job.excluded,
    )


def grounds_of(report: ClusterReport | None) -> Grounds | None:
    """Where jobs may be placed, as a look showed it; None without one."""
    return Grounds(nodes=report.nodes, windows=report.windows, now=report.as_of) if report is not None else None


def parked_until(advice: Advice, limits: Limits) -> datetime | None:
    """Until when an advice parks the job; None when it does not."""
    if not advice.park:
        return None
    return advice.park_until or advice.issued_at + timedelta(seconds=limits.storms.park_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """The one update of the waiting job, in words too, and which nodes of ours it keeps out."""

    command: Command
    words: tuple[str, ...]
    ours: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rearmed:
    commands: tuple[Command, ...] = ()
    words: tuple[str, ...] = ()


def _restart(scene: Scene, builder: CommandBuilder) -> Preparation | NothingToDo:
    """Requeue and update; with a hold between them where there is no time for the update otherwise."""
    advice, job = scene.order.advice, scene.job
    kind = ActionKind.PARK if advice.park else ActionKind.RESTART
    update, waiting = _update(scene, builder), _rearmed(scene, builder)
    hold = hold_for(scene, ours=update.ours)
    if hold is Holding.REFUSED:
        reason = (
            f"a requeued job starts after {scene.window_s:.0f} s here, so one that is ended while it runs has to be "
            f"held meanwhile, and {scene.unwatched}: start relance-watchdog at stage act for this partition"
        )
        return NothingToDo(reason=reason, is_problem=True)
    if hold is Holding.HELD:
        held = replace(job, state=JobState.PENDING)
        commands = (builder.requeue_held(job), update.command, builder.release(held), *waiting.commands)
        words = ("requeue it held", *update.words, "release it", _PRIORITY, *waiting.words)
        return _prepared(kind, job, commands, words, holds=True)
    said = (_without_hold(scene),) if hold is Holding.MISSING else ()
    commands = (builder.requeue(job), update.command, *waiting.commands)
    return _prepared(kind, job, commands, ("requeue", *update.words, *said, *waiting.words))


def window_of(transaction: Transaction, job: JobView) -> float | None:
    """How long the scheduler lets a job wait that we have requeued plainly, as read before the first update.

    None: this read does not show it. A job is read earlier, too, and then may show a time from before the requeue.
    """
    is_ours = transaction.requeued_by_us and transaction.wrote is None and not transaction.began.holds
    waits = job.state is JobState.PENDING and job.restart_count == transaction.target_count
    if not is_ours or not waits or job.hold is not Hold.NONE or job.eligible_at is None:
        return None
    return max(0.0, (job.eligible_at - job.submitted_at).total_seconds())


class Holding(Enum):
    """Whether a restart holds the job between the requeue and the update (design 10)."""

    NOT_NEEDED = "not needed"
    """There is time for the update, or nothing that has to be written before the job starts."""
    HELD = "held"
    """There is no time, and a watchdog would free the job if we died."""
    MISSING = "missing"
    """There is no time and no watchdog: an attempt that has ended is restarted all the same. At worst it starts on the
    nodes that it had, which costs a cycle; not to restart it may cost the job."""
    REFUSED = "refused"
    """There is no time and no watchdog, and the attempt runs: what its script starts as it is ended may be a copy, and
    ours would be running before that can be seen."""


def hold_for(scene: Scene, *, ours: tuple[str, ...]) -> Holding:
    """Whether this restart holds the job; `ours` are the nodes that it is to be kept off."""
    job, runs = scene.job, scene.job.state is JobState.RUNNING
    if scene.window_s >= SHORT_WINDOW_S or not (ours or scene.order.advice.park or runs):
        return Holding.NOT_NEEDED
    if job.held_next:
        # Somebody holds its next attempt: it comes back held by them, which is not ours to end.
        return Holding.NOT_NEEDED
    if not scene.unwatched:
        return Holding.HELD
    return Holding.REFUSED if runs else Holding.MISSING


_PRIORITY = "a priority that somebody set by hand is lost"
"""By the release: seen on 22.05 and 25.11 (operators.md V7); a plain requeue keeps it."""


def _without_hold(scene: Scene) -> str:
    return (
        f"without a hold, as {scene.unwatched}: it may start, {scene.window_s:.0f} s after the requeue, before that is "
        "written; relance-watchdog at stage act mends it"
    )


def _update(scene: Scene, builder: CommandBuilder) -> _Update:
    order, job = scene.order, scene.job
    ours = (*order.our_exclusions, *order.advice.exclude)
    found = merged(job, ours, grounds_of(scene.report), scene.written)
    until = parked_until(order.advice, scene.limits)
    command = builder.constrain(replace(job, state=JobState.PENDING), found.nodes, until)
    when = f"start it at {until.isoformat(timespec='seconds')}" if until is not None else "start it at once"
    kept_out = (f"keep it off {', '.join(found.ours)}",) if found.ours else ()
    unsure = not scene.written and any(name in job.excluded for name in order.our_exclusions)
    said = ("which of its excluded nodes are its user's is not known here, so none is taken out",) if unsure else ()
    return _Update(command=command, words=(*kept_out, when, *found.notes, *said), ours=found.ours)


def _rearmed(scene: Scene, builder: CommandBuilder) -> _Rearmed:
    """The jobs that wait for the success of this one, which the scheduler may have called hopeless."""
    job, report = scene.job, scene.report
    if report is None or scene.order.advice.successor:
        return _Rearmed()
    lost = cancelled_dependents(job, report.jobs) if report.facts.kills_dependents else ()
    names = ", ".join(other.raw_id for other in lost[:MOST])
    words = (f"job {names} waited for its success and was cancelled by the scheduler: no restart saves it",)
    commands: dict[str, Command] = {}
    left: list[str] = []
    for other in dependents(job, report.jobs):
        try:
            is_ours = len(commands) < MOST and _may_touch(scene, other)
            command = builder.rearm(other, whole(other.dependency)) if is_ours else None
        except SchedulerRefusedError:
            command = None
        if command is None:
            left.append(other.raw_id)
        else:
            commands[other.raw_id] = command
    said = (
        *(words if lost else ()),
        *((f"let job {', '.join(commands)} wait for it anew if told that it waits in vain",) if commands else ()),
        *((f"job {', '.join(left[:MOST])} waits for it and is left as it is",) if left else ()),
    )
    return _Rearmed(commands=tuple(commands.values()), words=said)


def _may_touch(scene: Scene, other: JobView) -> bool:
    """Whether another job may be changed by this order: at `act` only one that is at `act` itself.

    Below that a person sees beforehand which jobs are changed, and has to approve it.
    """
    if other.wish.mode in (Stage.OFF, Stage.OBSERVE):
        return False
    is_at_act = str(other.attempt_key(scene.cluster)) in scene.acting
    return scene.order.stage.stage is not Stage.ACT or is_at_act


def _prepared(
    kind: ActionKind, job: JobView, commands: Sequence[Command], words: Sequence[str], *, holds: bool = False
) -> Preparation:
    expected = expected_of(job)
    argvs = json.dumps([command.argv for command in commands])
    digest = stable_id(
        "effect", kind.value, argvs, expected.raw_id, expected.restart_count, expected.submitted_at.isoformat(),
        expected.state.value, expected.started_at.isoformat() if expected.started_at else "",
    )  # fmt: skip
    summary = f"job {job.raw_id}: {', '.join(words)}"
    effect = Effect(summary=summary, commands=tuple(commands), digest=digest)
    return Preparation(kind=kind, effect=effect, expected=expected, holds=holds)
