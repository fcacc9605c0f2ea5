"""A heterogeneous job as one job: all its components' nodes, steps and states under its leader. Pure.

Seen on 22.05: only the leader can be requeued, and it takes the components along, restart counts and all; an update of
the leader's id sets exclusions and start time of every component; a component whose nodes do not let go stays behind in
COMPLETING while the leader is PENDING already, and then has another submit time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from relance.domain.views import Hold, JobState, JobView, PastAttempt, StepView
from relance.slurm.records import SlurmJob

_T = TypeVar("_T")
_DECIDED_FIRST = (JobState.CANCELLED, JobState.PREEMPTED, JobState.DEADLINE, JobState.TIMEOUT, JobState.NODE_FAIL)
"""Of components that ended in different states, the first of these tells how the job ended; else the leader does."""
_NOT_ALL_THERE = (
    "not all components of this heterogeneous job are shown, so what became of their steps and nodes is not known; it "
    "is served again once squeue shows all of them"
)
_OWN_EXCLUSIONS = (
    "its components exclude different nodes, and Slurm sets the exclusions of all of them at once; give them the same "
    "--exclude if it should be restarted"
)
_OWN_RESERVATIONS = "its components run in different reservations, so whether a restart fits cannot be told"


def is_leader(job: SlurmJob) -> bool:
    """Whether a record is a heterogeneous job's first component, which stands for all of it."""
    return job.het_job_id is not None and not job.het_offset


def is_component(job: SlurmJob) -> bool:
    """Whether a record is another component, which is told of with its leader."""
    return job.het_job_id is not None and bool(job.het_offset)


def components_of(leader: SlurmJob, jobs: Iterable[SlurmJob]) -> tuple[SlurmJob, ...]:
    """The other components of a heterogeneous job among the records, in order."""
    found = [job for job in jobs if job.het_job_id == leader.het_job_id and job.het_offset]
    return tuple(sorted(found, key=lambda job: job.het_offset or 0))


def joined(leader: JobView, others: Sequence[JobView], *, is_whole: bool, against: str = "") -> JobView:
    """The one view of a heterogeneous job; `others` are its other components, which `is_whole` says are all there.

    `against` says why one of those keeps the job from being restarted.
    """
    every = (leader, *others)
    # What is still being cleared away is the attempt before the one that the leader shows.
    late = next((view for view in others if view.restart_count < leader.restart_count), None)
    base = leader if late is None else late
    state = _state(every) if late is None else JobState.COMPLETING
    return replace(
        leader,
        submitted_at=base.submitted_at,
        restart_count=base.restart_count,
        started_at=base.started_at,
        state=state,
        nodes=_distinct(node for view in every for node in view.nodes) if state is not JobState.PENDING else (),
        node_count=sum(view.node_count for view in every),
        ranks_per_node=_same([view.ranks_per_node for view in every]),
        partition=",".join(_distinct(part for view in every for part in view.partition.split(",") if part)),
        eligible_at=max((view.eligible_at for view in every if view.eligible_at is not None), default=None),
        expected_at=max((view.expected_at for view in every if view.expected_at is not None), default=None),
        ended_at=max((view.ended_at for view in every if view.ended_at is not None), default=None)
        if state.is_over
        else None,
        exit_signal=_first(view.exit_signal for view in every),
        cancelled_by=_first(view.cancelled_by for view in every) if state.is_over else None,
        preempted_at=_first(view.preempted_at for view in every),
        hold=next((view.hold for view in every if view.hold is not Hold.NONE), Hold.NONE),
        excluded=_distinct(node for view in every for node in view.excluded),
        required=_distinct(node for view in every for node in view.required),
        features=_common([view.features for view in every]),
        devices=_common([view.devices for view in every]),
        gpu_count=_sum([view.gpu_count for view in every]),
        requeue_allowed=leader.requeue_allowed,
        arming=leader.arming,
        steps=_steps(every),
        somebody_at_work=_first(view.somebody_at_work for view in every),
        only_watched=leader.only_watched or against or _against(every, is_whole=is_whole),
    )


def joined_past(leader: PastAttempt, others: Iterable[PastAttempt]) -> PastAttempt:
    """An ended attempt with the nodes of all components; `others` are those of the same attempt."""
    same = [row for row in others if row.restart_count == leader.restart_count]
    return replace(
        leader,
        nodes=_distinct(node for row in (leader, *same) for node in row.nodes),
        exit_signal=_first(row.exit_signal for row in (leader, *same)),
        cancelled_by=_first(row.cancelled_by for row in (leader, *same)),
    )


def _state(every: Sequence[JobView]) -> JobState:
    states = {view.state for view in every}
    if len(states) == 1:
        return every[0].state
    for state in (JobState.UNKNOWN, JobState.COMPLETING):
        if state in states:
            return state
    if all(state.is_over for state in states):
        return next((state for state in _DECIDED_FIRST if state in states), every[0].state)
    if any(state.is_over for state in states):
        # Components end together: who is over waits for the others, unless Slurm has started them anew.
        return JobState.RUNNING if every[0].state is JobState.RUNNING else JobState.COMPLETING
    return next(
        (state for state in (JobState.SUSPENDED, JobState.CONFIGURING) if state in states), JobState.CONFIGURING
    )


def _steps(every: Sequence[JobView]) -> tuple[StepView, ...] | None:
    """The steps of all components, those of the others by `+1.0`; None where those of one cannot be read."""
    found: list[StepView] = []
    for offset, view in enumerate(every):
        if view.steps is None:
            return None
        # Slurm makes a step of its own for each component: only the leader has a script in it.
        found += [replace(step, name=f"+{offset}.{step.name}") if offset else step for step in view.steps
                  if not offset or step.name != "extern"]  # fmt: skip
    return tuple(found)


def _against(every: Sequence[JobView], *, is_whole: bool) -> str:
    if not is_whole:
        return _NOT_ALL_THERE
    if len({frozenset(view.excluded) for view in every}) > 1:
        return _OWN_EXCLUSIONS
    return _OWN_RESERVATIONS if len({view.reservation for view in every}) > 1 else ""


def _distinct(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))


def _common(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all of them ask for: how many nodes remain is then counted too high rather than too low.

    A restart that does not fit is seen after the write, and our exclusions are taken back.
    """
    return tuple(item for item in lists[0] if all(item in other for other in lists[1:]))


def _first(items: Iterable[_T | None]) -> _T | None:
    return next((item for item in items if item is not None), None)


def _same(items: Sequence[int | None]) -> int | None:
    return items[0] if len(set(items)) == 1 else None


def _sum(items: Sequence[int | None]) -> int | None:
    known = [item for item in items if item is not None]
    return sum(known) if len(known) == len(items) else None
