"""Whether a cluster has room for a job: partitions, reservations, features, devices, named nodes, states, exclusions.

One rule for all who ask: policy before it advises, the controller before it writes an exclusion and when a job waits.
Pure. What a scheduler says at the write is no answer: it accepts a list that leaves too few nodes, and tells afterwards
by `BadConstraints` or plain `Resources` (operators.md V10).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer
from relance.domain.views import JobView, NodeState, NodeView, Window

_MARGIN_S = 60
"""A time limit that ends so long before a window: the job has to be started first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """Where a job may be placed: the cluster's nodes and reservations as they are shown, and what time it is."""

    nodes: tuple[NodeView, ...]
    windows: tuple[Window, ...] = ()
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many nodes a job needs, how many could take it now or later, and how many are idle.

    `waits` says that a reservation keeps it from starting now, until when, and which time limit would fit before it.
    """

    answer: Answer
    reason: str
    needed: int
    fitting: int
    idle: int
    waits: str = ""


def room(job: JobView, grounds: Grounds, out: Collection[str], *, says: Collection[str] = ()) -> Room:
    """Whether enough nodes remain for the job without the nodes that are kept `out`; `says` are the ones to name."""
    if not grounds.nodes:
        return _room(job, Answer.UNKNOWN, "the scheduler's nodes are not known")
    own = next((window for window in grounds.windows if window.name == job.reservation), None)
    if job.reservation and own is None:
        return _room(job, Answer.UNKNOWN, f"the job's reservation {job.reservation} is not shown")
    if own is not None and own.ends_at <= grounds.now:
        return _room(job, Answer.NO, f"the job's reservation {own.name} is over")
    missing = sorted(set(job.required) & set(out))
    if missing:
        return _room(job, Answer.NO, f"the job asks for {', '.join(missing)} by name, and that is to be kept out")
    served = serving(job, grounds.nodes)
    eligible = [node for node in served if node.name not in out and (own is None or node.name in own.nodes)]
    return _counted(job, grounds, eligible, says)


def serving(job: JobView, nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    """The nodes of the job's partitions that have the features and the devices it asks for, whatever their state."""
    partitions = set(job.partition.split(","))
    return tuple(
        node
        for node in nodes
        if (not node.partitions or partitions & set(node.partitions))
        and set(job.features) <= set(node.features)
        and all(_has(node, device) for device in job.devices)
    )


def _counted(job: JobView, grounds: Grounds, eligible: list[NodeView], says: Collection[str]) -> Room:
    takes = [node for node in eligible if node.state.takes_work or _is_back_later(node, grounds)]
    unsure = [node for node in eligible if node.state is NodeState.UNKNOWN]
    names = {node.name for node in eligible}
    ahead = [window for window in _in_the_way(job, grounds) if names.intersection(window.nodes)]
    reserved = {name for window in ahead for name in window.nodes}
    free = [node for node in takes if node.name not in reserved and node.state.takes_work]
    idle = sum(node.state is NodeState.IDLE for node in free)
    needed, numbers = job.node_count, f"{len(takes)} of the {job.node_count} nodes that the job needs"
    if len(takes) >= needed:
        waits = _waits(job, ahead, grounds.now) if len(free) < needed else ""
        reason = f"{len(takes)} nodes can take the job, which needs {needed}"
        return _room(job, Answer.YES, waits or reason, fitting=len(takes), idle=idle, waits=waits)
    if len(takes) + len(unsure) >= needed:
        reason = f"only {numbers} are known to be sound, {len(unsure)} are not known"
        return _room(job, Answer.UNKNOWN, reason, fitting=len(takes), idle=idle)
    where = f" in reservation {job.reservation}" if job.reservation else ""
    without = f" without {', '.join(sorted(says))}" if says else ""
    return _room(job, Answer.NO, f"only {numbers} remain{where}{without}", fitting=len(takes), idle=idle)


def _room(job: JobView, answer: Answer, reason: str, *, fitting: int = 0, idle: int = 0, waits: str = "") -> Room:
    return Room(answer=answer, reason=reason, needed=job.node_count, fitting=fitting, idle=idle, waits=waits)


def _has(node: NodeView, device: str) -> bool:
    """Whether a node has such a device; `gpu` is met by any kind of it. A node that shows none may not tell."""
    return not node.devices or any(mine == device or mine.startswith(f"{device}:") for mine in node.devices)


def _is_back_later(node: NodeView, grounds: Grounds) -> bool:
    """Whether a reservation that ends is what keeps a node from taking work."""
    return node.state is NodeState.MAINTENANCE and any(
        node.name in window.nodes and window.starts_at <= grounds.now < window.ends_at for window in grounds.windows
    )


def _in_the_way(job: JobView, grounds: Grounds) -> list[Window]:
    """The reservations of others that are on, or begin before the job's time limit would be over; soonest first."""
    now = grounds.now

    def reaches(window: Window) -> bool:
        ahead_s = (window.starts_at - now).total_seconds()
        return window.ends_at > now and (job.time_limit_s is None or ahead_s < job.time_limit_s)

    others = [window for window in grounds.windows if window.name != job.reservation and reaches(window)]
    return sorted(others, key=lambda window: window.starts_at)


def _waits(job: JobView, ahead: list[Window], now: datetime) -> str:
    """What the job waits for, until when, and what would let it start before."""
    first = ahead[0] if ahead else None
    if first is None:
        return ""
    what = f"{'maintenance' if first.is_maintenance else 'reservation'} {first.name}"
    until = _shown(first.ends_at)
    if first.starts_at <= now:
        return f"too few nodes are left while {what} lasts: the job waits until {until}"
    limit_min = int(((first.starts_at - now).total_seconds() - _MARGIN_S) // 60)
    text = f"{what} begins at {_shown(first.starts_at)}, within the job's time limit: it waits until {until}"
    if limit_min <= 0:
        return text
    command = f"scontrol update JobId={job.raw_id} TimeLimit={limit_min}"
    return f"{text}, or starts with a limit of at most {limit_min} min (`{command}`)"


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
