"""An act: one training and the fault that befalls it, from its submission to its end. Pure.

The play looks at scheduler and server, hands what it saw to `seen`, and reads from the phase what is to be done next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from relance.cli.demos.faults import Fault, FaultName
from relance.cli.demos.outputs import AttemptOutput
from relance.domain.clocks import Milestones, Stamp
from relance.domain.faults import Remedy
from relance.recovery.rows import IncidentItem
from relance.recovery.stories import JobStory

WARM_UP_LIMIT_S = 60.0
"""From the submission to a training that has a checkpoint and steps beyond it."""
ACT_LIMIT_S = 90.0
"""From the fault to the end of everything that follows from it."""
_STEPS_PAST_CHECKPOINT = (3, 6)
"""A fault is injected so many steps after a checkpoint: some are lost, and the next attempt makes some before it."""
_STEPS_AFTER_FRIGHT = 10
_MILESTONES = ("detect", "verdict", "advise", "act", "running", "first_step", "beyond")
_OVER = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
})  # fmt: skip


class Phase(Enum):
    """Where an act stands."""

    WAITING = "waiting"
    """Not submitted yet."""
    WARMING = "warming up"
    """It trains towards its first checkpoint."""
    READY = "training"
    """It has a checkpoint and has gone on: the fault may come."""
    BROKEN = "broken"
    """The fault is there."""
    MENDED = "trains again"
    """What was to be shown has been shown; the job runs on to its end."""
    OVER = "over"
    """The job has ended and no incident is open, or the time was up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One training and its fault."""

    fault: Fault
    phase: Phase = Phase.WAITING
    job_id: int = 0
    submitted_at: datetime | None = None
    broken_at: datetime | None = None
    broken_step: int | None = None
    """The newest step when the fault came."""
    broken_node: str = ""
    found_step: int | None = None
    """The newest step when its first incident was seen."""
    story: JobStory | None = None
    """What the server knows."""
    row: Mapping[str, Any] | None = None
    """What the scheduler shows."""
    output: AttemptOutput | None = None
    """What the current attempt has said of itself."""
    overdue: str = ""
    """What did not happen in time."""

    @property
    def incidents(self) -> tuple[IncidentItem, ...]:
        """The incidents of its job, oldest first."""
        return tuple(reversed(self.story.incidents)) if self.story is not None else ()

    @property
    def newest(self) -> IncidentItem | None:
        """The newest incident."""
        return self.incidents[-1] if self.incidents else None

    @property
    def step(self) -> int | None:
        """The newest step of the current attempt, by its own output."""
        return self.output.last_step if self.output is not None else None

    @property
    def milestones(self) -> dict[str, float]:
        """Seconds from the fault to each milestone of the first incident, and to the end of the last one (`over`).

        A number below zero is a milestone stamped by a clock of lesser resolution.
        """
        if self.broken_at is None or not self.incidents:
            return {}
        stamps = _stamps(self.incidents[0].times)
        found = {name: (at.at - self.broken_at).total_seconds() for name, at in stamps.items() if at is not None}
        last = self.incidents[-1]
        if last.ended_at is not None:
            found["over"] = (last.ended_at - self.broken_at).total_seconds()
        return {name: round(value, 3) for name, value in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at scheduler, server and output gave; None where it gave nothing."""

    row: Mapping[str, Any] | None = None
    story: JobStory | None = None
    output: AttemptOutput | None = None


def submitted(act: Act, job_id: int, now: datetime) -> Act:
    """The act after its job was submitted."""
    return replace(act, phase=Phase.WARMING, job_id=job_id, submitted_at=now)


def broken(act: Act, at: datetime, node: str) -> Act:
    """The act after the fault was injected."""
    return replace(act, phase=Phase.BROKEN, broken_at=at, broken_step=act.step, broken_node=node)


def seen(act: Act, look: Look, now: datetime) -> Act:
    """The act after a look."""
    act = replace(act, row=look.row or act.row, story=look.story or act.story, output=look.output or act.output)
    if act.phase in (Phase.WAITING, Phase.OVER):
        return act
    if act.incidents and act.found_step is None:
        act = replace(act, found_step=act.step)
    late = _overdue(act, now)
    if late:
        return replace(act, phase=Phase.OVER, overdue=late)
    return replace(act, phase=_phase(act))


def is_over(row: Mapping[str, Any] | None) -> bool:
    """Whether the scheduler says that the attempt it shows has ended."""
    return row is not None and row["state"] in _OVER


def _phase(act: Act) -> Phase:
    before_fault = (Phase.WARMING, Phase.READY)
    if act.phase in before_fault:
        if is_over(act.row):
            return Phase.OVER
        return Phase.READY if _is_warm(act) else Phase.WARMING
    if is_over(act.row) and _nothing_is_open(act):
        return Phase.OVER
    return Phase.MENDED if act.phase is Phase.MENDED or _has_shown_all(act) else Phase.BROKEN


def _is_warm(act: Act) -> bool:
    """Whether it has steps beyond a checkpoint, and the server knows of its steps."""
    progress = act.story.job.progress if act.story is not None else None
    output = act.output
    if progress is None or progress.step is None or output is None:
        return False
    if output.last_step is None or output.saved_step is None or output.last_step < act.fault.after_steps:
        return False
    low, high = _STEPS_PAST_CHECKPOINT
    return low <= output.last_step - output.saved_step <= high


def _has_shown_all(act: Act) -> bool:
    if act.fault.name is FaultName.SCARE:
        return act.step is not None and act.step >= (act.broken_step or 0) + _STEPS_AFTER_FRIGHT
    if act.fault.expectation.remedies == (Remedy.NONE,):
        return act.newest is not None and act.newest.action is Remedy.NONE
    return act.newest is not None and (act.newest.times.progress is not None or act.newest.ended_at is not None)


def _nothing_is_open(act: Act) -> bool:
    """Whether the server has seen the end, and all incidents have ended. A failed job has had one."""
    if act.story is None or not act.story.attempts or act.story.attempts[-1].outcome is None:
        return False
    if act.fault.expectation.is_left_alone:
        return all(item.ended_at is not None for item in act.incidents)
    failed = act.row is not None and act.row["state"] != "COMPLETED"
    restarted = act.row is not None and int(act.row["restart_count"]) > 0
    if failed and not restarted and act.newest is None:
        return False
    if failed and act.newest is not None and act.newest.attempt.restart_count != act.story.job.restart_count:
        return False
    return all(item.ended_at is not None for item in act.incidents)


def _overdue(act: Act, now: datetime) -> str:
    if act.broken_at is not None and now > act.broken_at + timedelta(seconds=ACT_LIMIT_S):
        return f"it was not over {ACT_LIMIT_S:.0f} s after the fault"
    started = act.submitted_at
    waits = act.phase in (Phase.WARMING, Phase.READY)
    if waits and started is not None and now > started + timedelta(seconds=WARM_UP_LIMIT_S):
        return f"it could not be broken {WARM_UP_LIMIT_S:.0f} s after its submission: no steps beyond a checkpoint"
    return ""


def _stamps(times: Milestones) -> dict[str, Stamp | None]:
    values = (times.detect, times.attribute, times.advise, times.act, times.running, times.step, times.progress)
    return dict(zip(_MILESTONES, values, strict=True))
