"""The shim matrix on a real Slurm: every call of a restart, every kind of fault, Relance started again or never.

The calls are those about the job, as the shims number them; a transaction in which nothing happens tells which there
are. What is judged comes from Slurm: rows of accounting, and the job as `scontrol` shows it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.measures import Limit, Result, spread
from bench.shims import Fault, Kind
from bench.slurm_lanes import Lane, TooLateError, lanes, side_by_side, stays, until
from bench.stories import story_gaps
from relance.domain.events import IncidentEnd
from relance.ports.clocks import SystemClock

RUNNING_WITHIN_S = 150.0
"""The bar: a new attempt runs so long after the fault, at the latest. Slurm starts it by itself after 121 s."""
_LANES = 4
_AT_ONCE = 3
"""So many cases act side by side; those in which only Slurm's own start is waited for are not counted."""
_CHANGES = ("requeue", "update")
_MOST = {"requeue": 1, "update": 1, "read": 7, "accounting": 4}
"""Reads beyond these are the same wait again."""
_FIRE_S = 60.0
_STORY_S = 120.0
_LOOK_S = 0.5
_QUICK_NEVER = 2
_SEED = 20260101


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault in one transaction."""

    transaction: str
    """"restart" or "restart_excluding"."""
    fault: Fault
    again: bool
    """Whether Relance is started again, where it is killed."""

    @property
    def name(self) -> str:
        """For reports."""
        end = (", started again" if self.again else ", never again") if self.fault.kind.kills else ""
        return f"{self.transaction}: {self.fault.name}{end}"


@dataclass(slots=True)
class Findings:
    """What came out, from all lanes."""

    calls: dict[str, Sequence[str]] = field(default_factory=dict)
    cases: int = 0
    missed: int = 0
    wrong: list[str] = field(default_factory=list)
    running_s: list[float] = field(default_factory=list)
    """From the fault to the new attempt's start."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def measure(*, quick: bool) -> Result:
    """All cases; when quick those of requeue and update, with a sample of those that are never started again."""
    found = Findings()
    with lanes(_LANES) as made:
        for transaction in ("restart", "restart_excluding"):
            found.calls[transaction] = undisturbed(made[0], transaction)
        acting = threading.Semaphore(_AT_ONCE)
        side_by_side(made, chosen(found.calls, quick=quick), lambda lane, case: _kept(lane, case, found, acting))
    return Result(
        name="slurm_shims",
        measure="every call of a restart fails in every way, on a real Slurm",
        limits=(
            Limit(name="cases that came out wrong", value=len(found.wrong) if found.cases else None, most=0, unit=""),
            Limit(
                name="fault -> new attempt running",
                value=max(found.running_s, default=None),
                most=RUNNING_WITHIN_S,
            ),
        ),
        figures={
            "cases": found.cases,
            "calls that did not come": found.missed,
            "calls": {name: " ".join(calls) for name, calls in found.calls.items()},
            "fault -> new attempt running": spread(found.running_s).data,
        },
        wrong=tuple(found.wrong),
        conditions=(
            "a private Slurm, polls every 0.5 s, settle 1 s; shims before scontrol, squeue, sacct and scancel; at most "
            "one new attempt, it runs in time, nothing is held; where Relance lives: the incident ends, the action has "
            "an end, each step is told once and in order"
        ),
    )


def chosen(calls: dict[str, Sequence[str]], *, quick: bool) -> list[Case]:
    """The cases for these calls, in an order that is the same each time."""
    found = [case for name, each in calls.items() for case in _cases(name, each)]
    if quick:
        changing = [case for case in found if case.fault.operation in _CHANGES and case.transaction == "restart"]
        never = [case for case in changing if case.fault.kind.kills and not case.again]
        sample = random.Random(_SEED).sample(never, min(_QUICK_NEVER, len(never)))
        found = [case for case in changing if case not in never or case in sample]
    random.Random(_SEED).shuffle(found)  # so that those that only wait are spread over the lanes
    return sorted(found, key=lambda case: case.fault.operation not in _CHANGES)


def _cases(transaction: str, calls: Sequence[str]) -> list[Case]:
    numbers: dict[str, int] = {}
    found: list[Case] = []
    for operation in calls:
        numbers[operation] = numbers.get(operation, 0) + 1
        is_change = operation in _CHANGES
        if numbers[operation] > _MOST.get(operation, 0) or (transaction != "restart" and not is_change):
            continue
        for kind in Kind:
            if kind.pauses:
                continue
            fault = Fault(operation=operation, number=numbers[operation], kind=kind)
            found += [
                Case(transaction=transaction, fault=fault, again=again)
                for again in ((True, False) if kind.kills else (True,))
            ]
    return found


def undisturbed(lane: Lane, transaction: str) -> tuple[str, ...]:
    """The calls of a transaction in which nothing goes wrong. Raises TooLateError."""
    job, _ = _broken(lane, transaction, None)
    lane.site.wait_for_end_of_incident(job, _STORY_S)
    calls = lane.shims.calls
    lane.clear(job)
    return calls


def _kept(lane: Lane, case: Case, found: Findings, acting: threading.Semaphore) -> None:
    acting.acquire()
    try:
        # What went wrong in the case before shall not go wrong in this one too.
        lane.bring_back()
        lane.site.reconnect()
        wrong = run(lane, case, found, acting)
    except Exception as error:  # noqa: BLE001 -- a bench reports what happened
        wrong = [f"{type(error).__name__}: {error}"]
    finally:
        acting.release()
    with found.lock:
        found.cases += 1
        found.wrong += [f"{case.name}: {sentence}" for sentence in wrong]


def run(lane: Lane, case: Case, found: Findings, acting: threading.Semaphore) -> list[str]:
    """Let a case happen; gives what came out wrong. `acting` is held, and given up while Slurm alone is waited for."""
    job, node = _broken(lane, case.transaction, case.fault)
    fired_at = _fired_at(lane, job)
    if fired_at is None:
        found.missed += 1
        lane.clear(job)
        return []
    if case.fault.kind.kills:
        lane.site.relance.role("up").wait(10.0)
        if case.again:
            lane.bring_back()
    lives = case.again or not case.fault.kind.kills
    if not lives:
        acting.release()
    try:
        wrong = _outcome(lane, job, case, fired_at, found)
    finally:
        if not lives:
            acting.acquire()
    if lives:
        wrong += _story(lane, job, node, case)
    wrong += _rows(lane, job)
    lane.bring_back()
    if not lives and lane.site.state(job) == "FAILED":
        # Relance is there again, and takes up what it had left: the next case shall have the nodes.
        lane.site.wait_for_end_of_incident(job, _STORY_S)
    lane.clear(job)
    return wrong


def _broken(lane: Lane, transaction: str, fault: Fault | None) -> tuple[int, str]:
    """A training whose fault calls for this transaction; gives it, and the node that is to be kept out, if any."""
    job = lane.submit()
    lane.watch(job, fault)
    if transaction == "restart_excluding":
        return job, lane.break_node_of(job)
    lane.site.trainings.kill_rank(job, 1)
    return job, ""


def _fired_at(lane: Lane, job: int) -> float | None:
    """When the fault happened; None when its call did not come before the incident ended."""

    def is_known() -> bool:
        ended = [item.end is not None for item in lane.site.incidents(job)] if not lane.shims.has_fired else []
        return lane.shims.has_fired or (bool(ended) and all(ended))

    try:
        until(is_known, _FIRE_S, "the fault")
    except Exception:  # noqa: BLE001 -- the server may just have been killed: then it has fired
        return lane.shims.fired_at
    return lane.shims.fired_at


def _outcome(lane: Lane, job: int, case: Case, fired_at: float, found: Findings) -> list[str]:
    """Watch the job until it runs again, or is left; gives what is wrong with it."""
    comes = _comes_again(lane, case)
    while True:
        fields = lane.fields(job)
        if held := _held(fields):
            return [held]
        state, restarts = fields["JobState"], int(fields.get("Restarts", "0"))
        if not comes:
            # Killed before its requeue: the job stays exactly as Slurm left it.
            is_left = stays(lambda: lane.site.state(job) == "FAILED", 5.0)
            return [] if is_left and restarts == 0 else [f"not left as it was: {state}, restart count {restarts}"]
        if restarts > 1:
            return [f"{restarts} new attempts"]
        if state == "RUNNING" and restarts == 1:
            started = next(row["start_time"] for row in lane.site.trainings.attempts(job) if row["restart_count"] == 1)
            with found.lock:
                found.running_s.append(max(0.0, (started or _now()) - fired_at))
            return []
        if _now() - fired_at > RUNNING_WITHIN_S:
            return [f"not running {RUNNING_WITHIN_S:.0f} s after the fault: {state}, {fields.get('Reason')}"]
        time.sleep(_LOOK_S)


def _comes_again(lane: Lane, case: Case) -> bool:
    """Whether there has to be a new attempt: Relance lives, or its requeue was carried out before it died."""
    if case.again or not case.fault.kind.kills:
        return True
    if case.fault.operation == "requeue":
        return case.fault.kind is not Kind.KILL_BEFORE
    return "requeue" in lane.shims.calls


def _now() -> float:
    return SystemClock().now().timestamp()


def _held(fields: dict[str, str]) -> str:
    if fields["JobState"] == "PENDING" and (
        fields.get("Reason", "").startswith("JobHeld") or "held" in fields["Reason"]
    ):
        return f"the job is held: {fields['Reason']}"
    return ""


def _rows(lane: Lane, job: int) -> list[str]:
    """What is wrong with the job at the end of its case."""
    rows = lane.site.trainings.attempts(job)
    wrong = [f"{len(rows) - 1} new attempts in accounting"] if len(rows) > 2 else []
    held = _held(lane.fields(job))
    return [*wrong, *([held] if held else [])]


def _story(lane: Lane, job: int, node: str, case: Case) -> list[str]:
    """What is wrong with what was told."""
    try:
        lane.site.wait_for_end_of_incident(job, _STORY_S)
    except TooLateError:
        open_one = lane.site.incidents(job)
        return [f"no end in the story: {open_one[-1].state.value}, {open_one[-1].next}" if open_one else "no incident"]
    newest = lane.site.incidents(job)[-1]
    wrong = []
    if newest.end not in (IncidentEnd.RECOVERED, IncidentEnd.RUNNING_UNPROVEN):
        wrong.append(f"the incident ended as {newest.end.value if newest.end else 'open'}: {newest.end_reason}")
    excluded: list[Any] = lane.site.trainings.job(job)["exclude"]
    if node and node not in excluded:
        wrong.append(f"node {node} is not kept out")
    # Where an answer was lost, what was asked again is rightly told again.
    lost = case.fault.operation in _CHANGES or case.again
    return wrong + story_gaps(lane.site, newest, asked_again=lost)
