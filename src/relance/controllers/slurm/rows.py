"""Slurm's records as the domain's views. Pure; what a record does not show stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from relance.controllers.slurm.states import accounted_state, hold_of, job_state, node_state
from relance.domain.collecting import EVIDENCE_STEP
from relance.domain.views import JobState, JobView, NodeView, PastAttempt, StepView, Window, Wish
from relance.slurm.records import AccountedJob, AccountedStep, ExitCode, SlurmJob
from relance.slurm.site_records import Reservation, SlurmNode

_LAST_SIGNAL = 64
_BY_SIGNAL = 128
"""A shell's exit code for what a signal ended is this plus the signal."""
_DEVICE = re.compile(r"(?:^|[,:/])(?:gres[:/])?(gpu|mps|shard)(?::([A-Za-z][\w.-]*))?(?:[:=](\d+))?")
_FAR_S = 1 << 33
"""Seconds: the year 2242, which stands for all that is later, so that times can be reckoned with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of a job's current attempt besides its record.

    `steps` None: accounting could not be read. `cancelled_by` is the uid in accounting's "CANCELLED by UID".
    """

    first_submitted_at: datetime
    wish: Wish
    steps: tuple[StepView, ...] | None = ()
    cancelled_by: int | None = None
    log_paths: tuple[str, ...] = ()
    log_notes: tuple[str, ...] = ()
    somebody_at_work: str | None = None
    only_watched: str = ""
    arming: str = ""


def job_view(job: SlurmJob, told: Told) -> JobView:
    """A job's record as a view. Raises ValueError when it does not say when it was submitted."""
    state = job_state(job.states)
    is_over = state.is_over
    derived = _own_derived(job.exit, job.derived_exit, state, job.restart_count or 0)
    code, signal = _exit(job.exit, derived) if is_over else (None, None)
    return JobView(
        raw_id=str(job.job_id),
        first_submitted_at=told.first_submitted_at,
        submitted_at=submitted_at(job),
        restart_count=job.restart_count or 0,
        name=job.name,
        user=job.user or f"uid {job.uid}",
        owner_uid=job.uid,
        partition=job.partition or "",
        account=job.account or "",
        state=state,
        reason="" if job.reason in (None, "None") else str(job.reason),
        nodes=() if state is JobState.PENDING else job.nodes,
        node_count=job.node_count or len(job.nodes) or 1,
        ranks_per_node=ranks_per_node(job),
        eligible_at=time_of(job.eligible_at),
        # A pending job shows the start that is planned.
        expected_at=time_of(job.started_at) if state is JobState.PENDING else None,
        started_at=None if state is JobState.PENDING else time_of(job.started_at),
        ended_at=time_of(job.ends_at) if is_over else None,
        exit_code=code,
        exit_signal=signal,
        cancelled_by=told.cancelled_by if is_over else None,
        preempted_at=time_of(job.preempted_at),
        hold=hold_of(job),
        # `scontrol hold` of a running job sets its priority to 0, and its next attempt comes back held (seen: 22.05).
        held_next=job.priority == 0 and state is not JobState.PENDING,
        excluded=job.excluded_nodes,
        required=job.required_nodes,
        features=features_of(job.features),
        devices=devices_of(job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_requested),
        gpu_count=_gpus(job.tres_allocated or job.tres_requested),
        reservation=job.reservation or "",
        requeue_allowed=job.requeue,
        arming=told.arming,
        time_limit_s=job.time_limit_s,
        work_dir=job.work_dir or "",
        script_id=job.command or "",
        log_paths=told.log_paths,
        log_notes=told.log_notes,
        dependency=job.dependency or "",
        array=str(job.array_job_id) if job.array_job_id is not None else None,
        array_task=job.array_task_id,
        wish=told.wish,
        steps=told.steps,
        somebody_at_work=told.somebody_at_work,
        only_watched=told.only_watched,
    )


def submitted_at(job: SlurmJob) -> datetime:
    """When the current attempt was submitted. Raises ValueError when the record does not say it."""
    found = time_of(job.submitted_at)
    if found is None:
        raise ValueError(f"job {job.job_id} does not show when it was submitted")
    return found


def past_attempt(row: AccountedJob, restart_count: int, first_submitted_at: datetime) -> PastAttempt:
    """A row of accounting as an attempt that is over."""
    own = _own_end(row)
    state = accounted_state(own.state if own is not None else row.state)
    code, signal = _exit(row.exit, _own_derived(row.exit, row.derived_exit, state, restart_count))
    return PastAttempt(
        raw_id=str(row.job_id),
        first_submitted_at=first_submitted_at,
        restart_count=restart_count,
        state=state,
        nodes=row.nodes,
        started_at=time_of(row.started_at),
        ended_at=time_of((own.ended_at if own is not None else None) or row.ended_at),
        exit_code=code,
        exit_signal=signal,
        cancelled_by=row.cancelled_by,
    )


def step_views(steps: Iterable[AccountedStep]) -> tuple[StepView, ...]:
    """Steps of one attempt as views, in accounting's order, but for those in which we collected evidence."""
    return tuple(_step_view(step) for step in steps if step.name != EVIDENCE_STEP)


def node_view(node: SlurmNode) -> NodeView:
    """A node's record as a view."""
    return NodeView(
        name=node.name,
        state=node_state(node),
        reason=node.reason or "",
        set_by=node.reason_by,
        since=time_of(node.reason_at),
        partitions=node.partitions,
        features=node.active_features or node.features,
        devices=devices_of(node.gres),
    )


def window_of(reservation: Reservation) -> Window | None:
    """A reservation as a window; None when it does not show from when to when."""
    begins, ends = time_of(reservation.starts_at), time_of(reservation.ends_at)
    if begins is None or ends is None:
        return None
    return Window(
        name=reservation.name,
        starts_at=begins,
        ends_at=ends,
        nodes=reservation.nodes,
        is_maintenance="MAINT" in reservation.flags,
    )


def ranks_per_node(job: SlurmJob) -> int | None:
    """How many ranks run on each node; None where that cannot be told.

    One task a node on nodes with several GPUs is a launcher, such as torchrun, that starts a rank for each of them.
    """
    if job.tasks_per_node is not None and job.tasks_per_node > 1:
        return job.tasks_per_node
    nodes, tasks = job.node_count or len(job.nodes), job.task_count
    if not nodes or not tasks or tasks % nodes:
        return None
    if tasks > nodes:
        return tasks // nodes
    total = _gpus(job.tres_allocated or job.tres_requested)
    if total is None or total <= nodes:
        return 1
    return total // nodes if total % nodes == 0 else None


def features_of(text: str | None) -> tuple[str, ...]:
    """The features that all nodes of a job must have; of an alternative (`a|b`) or a count none is sure to be one."""
    if not text:
        return ()
    return tuple(part for part in re.split(r"[&,]", text) if re.fullmatch(r"[\w.:-]+", part))


def devices_of(*texts: str | None) -> tuple[str, ...]:
    """Kinds of devices in Slurm's words (`gres/gpu:h100=8`, `gpu:a100:4(S:0-1)`), such as `gpu:h100`."""
    found = {
        f"{match[1]}:{match[2]}" if match[2] else match[1]
        for text in texts if text for match in _DEVICE.finditer(text)
    }  # fmt: skip
    # `gres/gpu=8,gres/gpu:h100=8`: the kind without a type is the sum of the others.
    return tuple(sorted(kind for kind in found if not any(other.startswith(f"{kind}:") for other in found)))


def time_of(seconds: int | None) -> datetime | None:
    """A time of Slurm's; None for none. One that is centuries ahead stays ahead: it is no time that has come."""
    if seconds is None or seconds <= 0:
        return None
    return datetime.fromtimestamp(min(seconds, _FAR_S), UTC)


def _own_derived(
    exit_code: ExitCode | None, derived: ExitCode | None, state: JobState, restart_count: int
) -> ExitCode | None:
    """The steps' exit, where it is this attempt's: a requeue leaves the worst of the attempts before in it (22.05)."""
    if exit_code is None or derived is None or state is JobState.COMPLETED:
        return None
    return derived if restart_count == 0 or exit_code.code == _BY_SIGNAL + derived.signal else None


def _exit(exit_code: ExitCode | None, derived: ExitCode | None) -> tuple[int | None, int | None]:
    """Code and signal; the signal of a step stands in where the batch script had none."""
    if exit_code is None:
        return None, None
    number = exit_code.signal or (derived.signal if derived is not None else 0)
    return exit_code.code, number if 0 < number <= _LAST_SIGNAL else None


def _own_end(row: AccountedJob) -> AccountedStep | None:
    """The batch step, where it tells how the attempt ended by itself before its requeue took over the row (22.05)."""
    batch = next((step for step in row.steps if step.step_id == "batch"), None)
    if row.state != "REQUEUED" or batch is None or not accounted_state(batch.state).is_failure:
        return None
    return batch


def _step_view(step: AccountedStep) -> StepView:
    code, signal = _exit(step.exit, None)
    return StepView(
        name=step.step_id,
        state=accounted_state(step.state),
        exit_code=code,
        exit_signal=signal,
        cancelled_by=step.cancelled_by,
    )


def _gpus(tres: str | None) -> int | None:
    """How many GPUs a list of trackable resources counts."""
    found = re.search(r"(?:^|,)gres/gpu=(\d+)", tres or "")
    return int(found[1]) if found else None
