"""Slurm's words for states of jobs and nodes as the domain's. Pure; a word that is not known here is UNKNOWN."""

from __future__ import annotations

from collections.abc import Sequence

from relance.domain.views import Hold, JobState, NodeState
from relance.slurm.records import HeldBy, SlurmJob
from relance.slurm.site_records import SlurmNode

_ENDS = {
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "DEADLINE": JobState.DEADLINE,
    "NODE_FAIL": JobState.NODE_FAIL,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "BOOT_FAIL": JobState.BOOT_FAIL,
    "PREEMPTED": JobState.PREEMPTED,
}
_BASES = {
    **_ENDS,
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
}
_FLAGS = {
    # The first of these that is shown is the state, whatever the base state is.
    "REVOKED": JobState.UNKNOWN,
    "COMPLETING": JobState.COMPLETING,
    "STAGE_OUT": JobState.COMPLETING,
    "REQUEUED": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,
    "CONFIGURING": JobState.CONFIGURING,
    "POWER_UP_NODE": JobState.CONFIGURING,
}
"""REVOKED: a sibling of a federation took the job over, so what it does is not known here. REQUEUED as a flag: the old
attempt is being cleared away, so it is not waiting yet."""
_FLAGS_THAT_TELL_LITTLE: dict[str, JobState | None] = {
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "REQUEUE_HOLD": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "LAUNCH_FAILED": JobState.PENDING,
    "RECONFIG_FAIL": JobState.PENDING,
    "EXPEDITING": JobState.PENDING,
    "UPDATE_DB": None,
}
"""Behind a base state they change nothing; a release that shows one word only means the state given here."""
_HOLDS = {
    HeldBy.NOBODY: Hold.NONE,
    HeldBy.USER: Hold.USER,
    HeldBy.ADMIN: Hold.ADMIN,
    HeldBy.SLURM: Hold.SCHEDULER,
    HeldBy.UNKNOWN: Hold.UNKNOWN,
}
_HOLDING_FLAGS = ("REQUEUE_HOLD", "SPECIAL_EXIT", "LAUNCH_FAILED")


def job_state(words: Sequence[str]) -> JobState:
    """The domain's state for a record's state and flags."""
    if not words or any(word not in _KNOWN for word in words):
        return JobState.UNKNOWN
    shown = next((flag for flag in _FLAGS if flag in words), None)
    if shown is not None:
        return _FLAGS[shown]
    base = next((word for word in words if word in _BASES), None)
    if base is not None:
        return _BASES[base]
    found = next((state for word in words if (state := _FLAGS_THAT_TELL_LITTLE.get(word)) is not None), None)
    return found or JobState.UNKNOWN


def accounted_state(word: str) -> JobState:
    """The domain's state for accounting's word, which adds REQUEUED and RESIZING as ends of a row."""
    if word == "REQUEUED":
        return JobState.REQUEUED
    return _BASES.get(word, JobState.UNKNOWN)


def hold_of(job: SlurmJob) -> Hold:
    """Whether a pending job is held, and by whom; anything but a pending job is not."""
    if job_state(job.states) is not JobState.PENDING:
        return Hold.NONE
    if job.held_by is None:
        return Hold.UNKNOWN if job.priority in (0, None) else Hold.NONE
    hold = _HOLDS[job.held_by]
    if hold is Hold.NONE and any(flag in job.states for flag in _HOLDING_FLAGS):
        return Hold.UNKNOWN
    return hold


_PLANNED = (
    "MAINTENANCE", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
    "POWER_DOWN", "POWER_UP", "POWER_DRAIN", "REBOOT_CANCELED",
)  # fmt: skip
_NODE_BASES = {
    "IDLE": NodeState.IDLE,
    "ALLOCATED": NodeState.ALLOCATED,
    "MIXED": NodeState.ALLOCATED,
    "DOWN": NodeState.DOWN,
    "ERROR": NodeState.DOWN,
    "FUTURE": NodeState.DOWN,
    "UNKNOWN": NodeState.UNKNOWN,
}
_LOST = ("NOT_RESPONDING", "FAIL", "INVALID", "INVALID_REG")
_TAKEN = ("COMPLETING", "BLOCKED", "RESERVED", "PLANNED")
"""They take work when the present use ends. RESERVED: for whom is in the reservation. PLANNED: kept for a big job by
the back-filling scheduler."""
_NODE_FLAGS = frozenset({
    *_PLANNED, *_NODE_BASES, *_LOST, *_TAKEN, "DRAIN", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "CLOUD", "UNDRAIN", "RESUME",
    "PERFCTRS", "EXTERNAL", "NETWORK",
})  # fmt: skip


def node_state(node: SlurmNode) -> NodeState:
    """The domain's state for a node's state and flags.

    What a plan explains goes before everything else: silence and DOWN there are expected. A node that does not answer
    is not DOWN before Slurm says so: until then nothing is known of it.
    """
    words = node.states
    if any(word in words for word in _PLANNED):
        return NodeState.MAINTENANCE
    base = next((_NODE_BASES[word] for word in words if word in _NODE_BASES), NodeState.UNKNOWN)
    if base is NodeState.DOWN:
        return NodeState.DOWN
    if "DRAIN" in words or "FAIL" in words:
        return NodeState.DRAINED
    if any(word in words for word in _LOST) or any(word not in _NODE_FLAGS for word in words):
        return NodeState.UNKNOWN
    if base is NodeState.IDLE and "COMPLETING" in words:
        return NodeState.ALLOCATED
    return base


def is_drained(node: SlurmNode) -> bool:
    """Whether its state keeps new jobs off it, whatever else it shows."""
    return "DRAIN" in node.states or "FAIL" in node.states


def is_down(node: SlurmNode) -> bool:
    """Whether it is lost or set down, whatever else it shows."""
    return any(_NODE_BASES.get(word) is NodeState.DOWN for word in node.states)


def plan_of(node: SlurmNode) -> str:
    """The flags by which a change of its power, or a reboot, is under way; empty: there are none.

    A maintenance reservation alone is no such plan: it does not touch the node.
    """
    return ", ".join(word.lower() for word in node.states if word in _PLANNED and word != "MAINTENANCE")


_KNOWN = frozenset({*_BASES, *_FLAGS, *_FLAGS_THAT_TELL_LITTLE})
