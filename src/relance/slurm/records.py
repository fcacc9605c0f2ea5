"""Jobs and steps as Slurm's commands show them, in Slurm's own words; None means "not shown".

Times are seconds since 1970 UTC. A field that one release does not show is None there, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class HeldBy(Enum):
    """Whether a pending job is held, and by whom, as its reason tells."""

    NOBODY = "nobody"
    USER = "user"
    """JobHeldUser: its user may release it."""
    ADMIN = "admin"
    """JobHeldAdmin: only an operator may release it."""
    SLURM = "slurm"
    """Slurm itself gave up starting it: launch failed, or requeued too often."""
    UNKNOWN = "unknown"
    """Priority 0 with a reason that names nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """How something ended: the code it returned and the signal that ended it, 0 each if there was none."""

    code: int
    signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One record of slurmctld's memory: a job, an array task, or one component of a heterogeneous job.

    `states` holds the base state first where Slurm shows it, then flags such as COMPLETING; the releases that show one
    word only show the flag instead of the base state. `array_task_id` is None for the record that stands for all
    tasks of an array that have not started; `array_tasks` is then their list in Slurm's form, such as "2-3%2".
    `nodes` are the nodes of the attempt, also after its end. `eligible_at` of a pending job is its BeginTime.
    `ends_at` of a running job is its time limit's end. `stdout` and `stderr` are as shown: with or without
    their patterns expanded (see `log_paths`); None is "not set". `has_expanded_paths` says that this release is known
    to have expanded them. `time_limit_s` None: unlimited or the partition's.
    `het_ids` are the raw ids of all components of a heterogeneous job; empty: not shown. `is_external` says that the
    job only holds nodes for another system, such as slurm-bridge's for pods, `is_expedited` that it was submitted with
    `--requeue=expedite` (25.11).
    """

    job_id: int
    array_job_id: int | None = None
    array_task_id: int | None = None
    array_tasks: str | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    het_ids: tuple[int, ...] = ()
    name: str
    user: str | None = None
    uid: int
    account: str | None = None
    partition: str | None = None
    states: tuple[str, ...]
    reason: str | None = None
    held_by: HeldBy | None = None
    nodes: tuple[str, ...] = ()
    batch_host: str | None = None
    node_count: int | None = None
    task_count: int | None = None
    tasks_per_node: int | None = None
    submitted_at: int | None = None
    eligible_at: int | None = None
    started_at: int | None = None
    ends_at: int | None = None
    preempted_at: int | None = None
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    restart_count: int | None = None
    requeue: bool | None = None
    is_batch: bool | None = None
    is_external: bool = False
    is_expedited: bool = False
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    features: str | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_task: str | None = None
    tres_requested: str | None = None
    tres_allocated: str | None = None
    licenses: str | None = None
    reservation: str | None = None
    time_limit_s: int | None = None
    priority: int | None = None
    dependency: str | None = None
    comment: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    has_expanded_paths: bool = False
    work_dir: str | None = None
    command: str | None = None
    federation_origin: str | None = None
    federation_siblings: str | None = None

    @property
    def shown_id(self) -> str:
        """The id as people and `scontrol` write it: 12, 3_0 for an array task, 10+1 for a heterogeneous component."""
        if self.array_job_id is not None and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.het_job_id is not None and self.het_offset is not None:
            return f"{self.het_job_id}+{self.het_offset}"
        return str(self.job_id)

    def is_state(self, word: str) -> bool:
        """Whether Slurm shows this state or flag."""
        return word in self.states


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmStep:
    """A step that lives now, from `squeue -s`: `step_id` is the part behind the job's id: 0, batch, extern.

    `job_id` is as shown (12, 3_0 or 10+1). `user` differs from the job's only where an administrator ran the step.
    """

    job_id: str
    step_id: str
    name: str
    user: str
    state: str | None = None
    started_at: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def is_slurms_own(self) -> bool:
        """Whether Slurm makes this step for every job: the batch script itself, or the container of adopted shells."""
        return self.step_id in ("batch", "extern")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedStep:
    """A step as accounting shows it; `cancelled_by` is the uid of "CANCELLED by UID"."""

    job_id: int
    step_id: str
    name: str
    state: str
    cancelled_by: int | None = None
    exit: ExitCode | None = None
    submitted_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    elapsed_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedJob:
    """One attempt as accounting shows it: `sacct -D` has a row for each. `job_id` is the raw id.

    Rows of one raw id are told apart by `submitted_at` and `started_at`. `restart_count` is None where the release
    has no such field. `ended_at` None: it has not ended. `steps` are those of this attempt alone.
    """

    job_id: int
    shown_id: str
    name: str
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    state: str
    cancelled_by: int | None = None
    reason: str | None = None
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    submitted_at: int | None = None
    eligible_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    elapsed_s: int | None = None
    time_limit_s: int | None = None
    restart_count: int | None = None
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    tres_allocated: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    work_dir: str | None = None
    steps: tuple[AccountedStep, ...] = ()
