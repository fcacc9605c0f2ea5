"""Preparations: the exact commands that an advice would come to now, and what a finished preparation is bound to. Pure.

In `observe` this is all there is. An approval is bound to the digest, which covers the argument lists and the state of
the job that they were made for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from relance.controlling.exclusions import merged
from relance.controlling.state_tables import Case, Course, ruling
from relance.domain.advice import ActionKind, Advice, Command, Effect
from relance.domain.fits import Grounds
from relance.domain.keys import stable_id
from relance.domain.ledgers import Expected, Parked
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.backends import Order


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What would be done, and to what."""

    kind: ActionKind
    effect: Effect
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Nothing would be done, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An order and what the controller sees of its job."""

    cluster: str
    order: Order
    job: JobView
    report: ClusterReport | None
    parked: Parked | None
    limits: Limits


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
            kind = ActionKind.PARK if advice.park else ActionKind.RESTART
            commands, words = _update(scene, builder)
            return _prepared(kind, job, (builder.requeue(job), *commands), ("requeue", *words))
        case Course.CONSTRAIN:
            commands, words = _update(scene, builder)
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


def _update(scene: Scene, builder: CommandBuilder) -> tuple[tuple[Command, ...], tuple[str, ...]]:
    order, job = scene.order, scene.job
    found = merged(job, (*order.our_exclusions, *order.advice.exclude), grounds_of(scene.report))
    until = parked_until(order.advice, scene.limits)
    command = builder.constrain(replace(job, state=JobState.PENDING), found.nodes, until)
    when = f"start it at {until.isoformat(timespec='seconds')}" if until is not None else "start it at once"
    kept_out = (f"keep it off {', '.join(found.ours)}",) if found.ours else ()
    return (command,), (*kept_out, when, *found.notes)


def _prepared(kind: ActionKind, job: JobView, commands: Sequence[Command], words: Sequence[str]) -> Preparation:
    expected = expected_of(job)
    argvs = json.dumps([command.argv for command in commands])
    digest = stable_id(
        "effect", kind.value, argvs, expected.raw_id, expected.restart_count, expected.submitted_at.isoformat(),
        expected.state.value, expected.started_at.isoformat() if expected.started_at else "",
    )  # fmt: skip
    summary = f"job {job.raw_id}: {', '.join(words)}"
    effect = Effect(summary=summary, commands=tuple(commands), digest=digest)
    return Preparation(kind=kind, effect=effect, expected=expected)
