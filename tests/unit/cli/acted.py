"""Acts as they come out when all goes well, to be spoilt by the tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.checks import Account
from relance.cli.demos.faults import Fault, FaultName, faults
from relance.cli.demos.outputs import AttemptOutput
from relance.domain.clocks import Milestones, Stamp
from relance.domain.events import IncidentEnd
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.incidents import IncidentState
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.records import AttemptRecord
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import JobState
from relance.recovery.rows import IncidentItem, JobRow
from relance.recovery.stories import FiveAnswers, JobStory

BROKEN_AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
JOB = JobKey(cluster="demo", raw_id="1", submitted_at=BROKEN_AT - timedelta(seconds=10))


def fault(name: FaultName) -> Fault:
    """The fault of this name."""
    return next(each for each in faults(6.0) if each.name is name)


def after(seconds: float) -> datetime:
    """So many seconds after the fault."""
    return BROKEN_AT + timedelta(seconds=seconds)


def incident(**changes: Any) -> IncidentItem:  # noqa: ANN401 -- fields of many types
    """A restart that succeeded."""
    stamps = {
        name: Stamp(at=after(at), clock="server")
        for name, at in [("detect", 0.5), ("attribute", 0.6), ("advise", 0.6), ("act", 2.0), ("running", 4.5)]
    }
    times = Milestones(**stamps, step=Stamp(at=after(4.0), clock="log"), progress=Stamp(at=after(6.0), clock="log"))
    item = IncidentItem(
        id="inc-1",
        job=JOB,
        name="llama-kill",
        user="mara",
        partition="train",
        attempt=AttemptKey(job=JOB, restart_count=0),
        state=IncidentState.CLOSED,
        opened_at=after(0.5),
        ended_at=after(6.1),
        end=IncidentEnd.RECOVERED,
        end_reason="",
        domain=FaultDomain.UNKNOWN,
        cause="rank_killed",
        summary="rank 3 was killed",
        suspects=(),
        action=Remedy.RESTART,
        hold=False,
        excluded=(),
        times=times,
        next="recovered",
    )
    return replace(item, **changes)


def progress(step: int, durable: int | None = 10, loaded: int | None = None, first: int | None = 1) -> Progress:
    """Progress at a step."""
    return Progress(
        as_of=after(0), step=step, first_step=first, checkpoint_durable=durable, loaded_step=loaded, highest_step=step
    )


def story(
    *incidents: IncidentItem, attempts: int = 2, state: JobState = JobState.COMPLETED, seen: Progress | None = None
) -> JobStory:
    """What the server knows of the job; incidents oldest first."""
    row = JobRow(
        job=JOB,
        name="llama-kill",
        user="mara",
        partition="train",
        workflow="llama-kill",
        state=state,
        reason="",
        as_of=after(20),
        restart_count=attempts - 1,
        nodes=("node001", "node002", "node003", "node004"),
        node_count=4,
        started_at=after(2),
        ended_at=after(20),
        progress=seen or progress(75, 70, 10, 11),
        stage=EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=()),
        incident_id=None,
        headline="",
    )
    records = tuple(
        AttemptRecord(
            attempt=AttemptKey(job=JOB, restart_count=count),
            by_us=count > 0,
            outcome=state if count == attempts - 1 and state.is_over else None,
        )
        for count in range(attempts)
    )
    answers = FiveAnswers(running="", from_step="", lost="", fault="", next="")
    return JobStory(
        job=row,
        answers=answers,
        quote=None,
        happened="",
        alarm="",
        notes=(),
        attempts=records,
        incidents=incidents[::-1],
    )


def scheduler_row(state: str = "COMPLETED", restarts: int = 1, exclude: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the scheduler shows."""
    return {"state": state, "restart_count": restarts, "exclude": list(exclude)}


def accounting(*states: str, nodes: tuple[str, ...] = ("node001", "node002")) -> tuple[dict[str, Any], ...]:
    """One row per attempt."""
    return tuple({"state": state, "restart_count": count, "nodes": list(nodes)} for count, state in enumerate(states))


def good_account(name: FaultName = FaultName.KILL) -> Account:
    """An act that came out right."""
    outputs = (
        AttemptOutput(loaded_step=0, first_step=1, last_step=15, saved_step=10),
        AttemptOutput(loaded_step=10, first_step=11, last_step=75, saved_step=75),
    )
    act = Act(
        fault=fault(name),
        phase=Phase.OVER,
        job_id=1,
        submitted_at=after(-10),
        broken_at=BROKEN_AT,
        broken_step=15,
        broken_node="node002",
        story=story(incident()),
        row=scheduler_row(),
    )
    account = Account(act=act, attempts=accounting("FAILED", "COMPLETED"), outputs=outputs)
    match name:
        case FaultName.NODE:
            item = incident(
                domain=FaultDomain.HARDWARE,
                suspects=("node002",),
                action=Remedy.RESTART_EXCLUDING,
                excluded=("node002",),
            )
            last = {"state": "COMPLETED", "restart_count": 1, "nodes": ["node001", "node003"]}
            return replace(account, act=replace(act, story=story(item)), attempts=(*accounting("FAILED"), last))
        case FaultName.BUG:
            first = incident(
                domain=FaultDomain.APPLICATION,
                end=IncidentEnd.RELAPSED,
                times=replace(incident().times, progress=None),
            )
            last_item = incident(
                id="inc-2",
                attempt=AttemptKey(job=JOB, restart_count=1),
                domain=FaultDomain.APPLICATION,
                action=Remedy.STOP,
                end=IncidentEnd.STOPPED,
                times=Milestones(),
            )
            known = story(first, last_item, state=JobState.FAILED)
            return replace(
                account,
                act=replace(act, story=known, row=scheduler_row("FAILED")),
                attempts=accounting("FAILED", "FAILED"),
            )
        case FaultName.SCARE:
            return replace(
                account,
                act=replace(act, story=story(attempts=1), row=scheduler_row(restarts=0)),
                attempts=accounting("COMPLETED"),
                outputs=(AttemptOutput(loaded_step=0, first_step=1, last_step=75, saved_step=75, frightened=True),),
            )
        case FaultName.SLOW:
            item = incident(
                cause="slowdown",
                summary="slowdown: steps take 3.0 times as long; no node evidence",
                action=Remedy.NONE,
                end=IncidentEnd.JOB_ENDED,
                times=Milestones(detect=Stamp(at=after(13.0), clock="server")),
            )
            known = story(item, attempts=1)
            return replace(
                account,
                act=replace(act, story=known, row=scheduler_row(restarts=0), broken_step=46, found_step=69),
                attempts=accounting("COMPLETED"),
                outputs=(AttemptOutput(loaded_step=0, first_step=1, last_step=110, saved_step=110),),
            )
        case _:
            return account
