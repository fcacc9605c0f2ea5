"""What the simulated scheduler knows: settings, jobs, attempts and nodes, as values that turn into JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

RELEASE = "simulated 1"
DEFAULT_PRIORITY = 1000

T = TypeVar("T", "Settings", "Job", "Attempt", "Node")


class JobState(StrEnum):
    """Slurm's words for where a job is."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    REQUEUED = "REQUEUED"
    """In accounting only: this attempt ended by a requeue."""

    @property
    def is_over(self) -> bool:
        """Whether a job in this state has ended."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.COMPLETING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the cluster is made. Times in seconds; the defaults are Slurm's where Slurm has one."""

    cluster: str = "simulated"
    nodes: int = 6
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of nodes by partition; empty: one partition, "train", with all. The first one is the default."""
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Features by name of node."""
    first_job_id: int = 1
    min_job_age_s: float = 300.0
    requeue_delay_s: float = 120.0
    kill_wait_s: float = 30.0
    """From TERM to KILL."""
    pass_interval_s: float = 0.1
    """Between two passes of the scheduler over its queue."""
    bad_exit_delay_s: float = 0.3
    """From a rank's bad end to the end of the others, where that is asked for: srun needs a moment too."""
    launch_race: bool = True
    launch_race_window_s: float = 1.0
    """Measured on Slurm 22.05 to 24.11: an attempt started 0 to 0.3 s after its job became PENDING may die at launch,
    one started 1.0 s after it or later never did."""
    accounting_rows: int = 2_000
    """The oldest rows beyond this number are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was submitted and does not change."""

    name: str
    user: str
    uid: int
    partition: str
    node_count: int
    ranks_per_node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    work_dir: str
    open_mode: str
    ranks_files: str | None
    ranks_tee: bool
    features: tuple[str, ...]
    script_hash: str
    kill_on_bad_exit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job and its current attempt. Times are seconds since the epoch."""

    job_id: int
    spec: Submission
    output: str
    submit_time: float
    state: JobState = JobState.PENDING
    reason: str = "None"
    description: str = ""
    restart_count: int = 0
    begin_time: float | None = None
    """Not before this time."""
    eligible_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    preempt_time: float | None = None
    pending_since: float | None = None
    """When it became PENDING by a requeue."""
    revoked: bool = False
    """Its next attempt will die at launch."""
    after_completing: str = ""
    """What follows COMPLETING: "" (its end), "requeue" or "requeuehold"."""
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    nodelist: tuple[str, ...] = ()
    exit_code: str = "0:0"
    derived_exit_code: str = "0:0"
    cancelled_by: int | None = None
    priority: int = DEFAULT_PRIORITY
    hold: str = "none"
    requeue: bool = True
    time_limit_s: float | None = None
    dependency: str = ""
    dependency_failed: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of an attempt, as accounting shows it."""

    step: str
    state: str
    exit_code: str
    nodes: tuple[str, ...]
    start_time: float | None
    end_time: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt in accounting."""

    job_id: int
    restart_count: int
    name: str
    user: str
    uid: int
    partition: str
    state: str
    reason: str
    exit_code: str
    derived_exit_code: str
    submit_time: float
    eligible_time: float | None
    start_time: float | None
    end_time: float | None
    nodes: tuple[str, ...]
    node_count: int
    comment: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. It can be down, drained and reserved at once; `shown_state` is the word for the whole."""

    name: str
    partitions: tuple[str, ...]
    boot_time: float
    features: tuple[str, ...] = ()
    down: bool = False
    drained: bool = False
    reserved: str = ""
    """"", "reserved" or "maint"."""
    reason: str = ""
    reason_uid: int | None = None
    reason_time: float | None = None
    job_id: int | None = None

    @property
    def shown_state(self) -> str:
        """The state that the scheduler shows."""
        if self.down:
            return "down"
        if self.drained:
            return "drained" if self.job_id is None else "draining"
        if self.job_id is not None:
            return "allocated"
        return self.reserved or "idle"

    @property
    def takes_work(self) -> bool:
        """Whether a job can be placed here now or when the present one has ended."""
        return not (self.down or self.drained or self.reserved)


def to_json(record: Settings | Job | Attempt | Node) -> dict[str, Any]:
    """The record as a JSON object."""
    return asdict(record)


def from_json(cls: type[T], data: Mapping[str, Any]) -> T:
    """The record from its JSON object; unknown fields are an error.

    Raises:
        ValueError: A field is not one of the record's.
    """
    known = {each.name for each in fields(cls)}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"unknown fields of {cls.__name__}: {', '.join(unknown)}")
    values = {name: _frozen(name, value) for name, value in data.items()}
    if cls is Job:
        values["state"] = JobState(values["state"])
    return cls(**values)


def _frozen(name: str, value: Any) -> Any:  # noqa: ANN401 -- JSON is any value
    if name == "spec":
        return Submission(**{key: _frozen(key, each) for key, each in value.items()})
    if name == "steps":
        return tuple(Step(**{key: _frozen(key, each) for key, each in step.items()}) for step in value)
    if isinstance(value, list):
        return tuple(value)
    if name in ("partitions", "features") and isinstance(value, dict):
        return {key: tuple(each) for key, each in value.items()}
    return value
