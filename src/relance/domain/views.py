"""What a controller reports of its cluster: jobs, attempts and nodes as the scheduler shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.stages import EndRunning, Stage


class JobState(Enum):
    """A scheduler's word for where a job is, in the words that all schedulers share."""

    PENDING = "pending"
    CONFIGURING = "configuring"
    RUNNING = "running"
    COMPLETING = "completing"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    NODE_FAIL = "node_fail"
    OUT_OF_MEMORY = "out_of_memory"
    BOOT_FAIL = "boot_fail"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    """In accounting: this attempt ended by a requeue."""
    UNKNOWN = "unknown"
    """Cannot be read: never "not there"."""

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended, its processes included. COMPLETING has not; UNKNOWN is not known to have."""
        return self not in _LIVING

    @property
    def is_failure(self) -> bool:
        """Whether the scheduler calls this end a failure that a restart may mend."""
        return self in (JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL)


_LIVING = frozenset({
    JobState.PENDING, JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED, JobState.UNKNOWN,
})  # fmt: skip


class Hold(Enum):
    """Whether a pending job is held, and by whom."""

    NONE = "none"
    USER = "user"
    ADMIN = "admin"
    SCHEDULER = "scheduler"
    """The scheduler gave up starting it, as after a prolog that failed: it waits for a person to release it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a job asks for in its own settings, after validation and clipping by the site's limits.

    `notes` says what was clipped, ignored or broken; broken settings leave the job in `observe`.
    """

    mode: Stage | None = None
    max_restarts: int | None = None
    logs: tuple[str, ...] = ()
    workflow: str | None = None
    hang_after_s: float | None = None
    progress: str | None = None
    notes: tuple[str, ...] = ()
    form: str = ""
    """The other engine whose form the comment is in, such as `aps`; empty: it is in ours, or there is none."""
    arm_requeue: bool = False
    """Whether the owner wants the job, submitted with --no-requeue, to be made one that may be requeued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """A step of a job as accounting shows it; `cancelled_by` is the uid in "CANCELLED by UID"."""

    name: str
    state: JobState
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job as the scheduler shows it now: its current attempt.

    `submitted_at` is the scheduler's own value, which a requeue sets anew; `first_submitted_at` is what the job key
    uses. None means "not known".
    """

    raw_id: str
    first_submitted_at: datetime
    submitted_at: datetime
    restart_count: int
    name: str
    user: str
    owner_uid: int
    partition: str
    state: JobState
    account: str = ""
    """The account that the job is charged to; empty: the scheduler has none, or does not say."""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    node_count: int = 1
    ranks_per_node: int | None = None
    eligible_at: datetime | None = None
    expected_at: datetime | None = field(default=None, compare=False)
    """When the scheduler plans to start a job that waits; None: it has not said. A plan changes all the time: a view
    that differs in nothing else is the same."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None
    preempted_at: datetime | None = None
    hold: Hold = Hold.NONE
    held_next: bool = False
    """Somebody holds the next attempt of a job that runs or is over: whatever requeues it, it comes back held."""
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    """Node features that the job asks for, all of them."""
    devices: tuple[str, ...] = ()
    """Kinds of devices that the job asks for, such as `gpu:h100`; all of them."""
    gpu_count: int | None = None
    """GPUs of the whole job; None: the scheduler does not say."""
    reservation: str = ""
    """The reservation that the job runs in; empty: none."""
    requeue_allowed: bool | None = None
    arming: str = ""
    """By whose word the job, which may not be requeued, may be made one that may; empty: by nobody's."""
    time_limit_s: float | None = None
    work_dir: str = ""
    script_id: str = ""
    log_paths: tuple[str, ...] = ()
    """Absolute paths or globs, already expanded by the controller."""
    log_notes: tuple[str, ...] = ()
    """What could not be resolved or read of the job's log paths and settings, in words."""
    dependency: str = ""
    array: str | None = None
    array_task: int | None = None
    """Which task of the array it is: others may wait for this one alone, by `17_4`, whatever its raw id is."""
    wish: Wish = field(default_factory=Wish)
    steps: tuple[StepView, ...] | None = None
    """None: accounting could not be read, so nobody's decision can be ruled out."""
    somebody_at_work: str | None = None
    """Words that say who is at work in the job (an extra step, a stopped or traced rank)."""
    only_watched: str = ""
    """Why a job of this kind is watched and never restarted, whatever its stage; empty: nothing speaks against it."""

    def job_key(self, cluster: str) -> JobKey:
        """The key of this job on that cluster."""
        return JobKey(cluster=cluster, raw_id=self.raw_id, submitted_at=self.first_submitted_at)

    def attempt_key(self, cluster: str) -> AttemptKey:
        """The key of this job's current attempt on that cluster."""
        return AttemptKey(job=self.job_key(cluster), restart_count=self.restart_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """An ended attempt from accounting, to fill in what polling missed."""

    raw_id: str
    first_submitted_at: datetime
    restart_count: int
    state: JobState
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None


class NodeState(Enum):
    """A scheduler's word for a node."""

    IDLE = "idle"
    ALLOCATED = "allocated"
    DOWN = "down"
    DRAINED = "drained"
    MAINTENANCE = "maintenance"
    """Reserved, planned, rebooting or powered down by a person's or the scheduler's plan: expected, never a sign."""
    UNKNOWN = "unknown"

    @property
    def takes_work(self) -> bool:
        """Whether the scheduler can place work there, now or when the present work ends."""
        return self in (NodeState.IDLE, NodeState.ALLOCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node as the scheduler shows it."""

    name: str
    state: NodeState
    reason: str = ""
    set_by: str | None = None
    since: datetime | None = None
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    """Kinds of devices that the node has, such as `gpu:h100`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A reservation: from when to when which nodes are kept for whom.

    Jobs that do not ask for it are not placed there while it lasts, and not started when their time limit would reach
    into it.
    """

    name: str
    starts_at: datetime
    ends_at: datetime
    nodes: tuple[str, ...]
    is_maintenance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Impairment:
    """Something that is missing, or soon will be, between a controller and its scheduler.

    Attributes:
        name: What it is: `connection`, `token`.
        reason: In words, with what mends it.
        is_ahead: It is not missing yet: people are told, and nothing is lowered.
    """

    name: str
    reason: str
    is_ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """What the scheduler says of itself. Times in seconds."""

    release: str
    booted_at: datetime | None = None
    min_job_age_s: float = 300.0
    """An ended job is known for this long (Slurm's default)."""
    requeue_delay_s: float = 120.0
    """A requeued job starts by itself after this long; it is our window (slurm.md 2)."""
    kills_dependents: bool = False
    """Whether a job is cancelled at once when what it waits for can never be met: no restart can save it then."""
    kill_wait_s: float = 30.0
    """Between the first and the last signal to processes that are to end (Slurm's default)."""
    unkillable_s: float = 60.0
    """A node whose processes do not end within this long after the last signal is drained (Slurm's default)."""
    may_act: bool = False
    """Whether this controller's account has the rights to requeue other users' jobs."""
    lacks: tuple[str, ...] = ()
    """What is missing for acting on this cluster, in words with the remedy; empty: nothing. Any of them closes the gate
    of rights.
    """
    impairments: tuple[Impairment, ...] = ()
    """What is missing between the controller and the scheduler, or soon will be."""
    refuses: tuple[tuple[str, str], ...] = ()
    """Kinds of people's requests that the scheduler would refuse this account, each with the sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """One whole look at a cluster by its controller.

    `sequence` counts up per controller start (`session`); `as_of` is when the scheduler was asked. A report is the
    whole list of jobs of the partitions served: a job that is missing from a report with `complete` true is gone.
    """

    cluster: str
    session: str
    sequence: int
    as_of: datetime
    facts: SchedulerFacts
    jobs: tuple[JobView, ...]
    nodes: tuple[NodeView, ...]
    past: tuple[PastAttempt, ...] = ()
    windows: tuple[Window, ...] = ()
    complete: bool = True
    problems: tuple[str, ...] = ()
    begins_nothing: str = ""
    """Why this controller begins nothing new: its switch, its ledger; empty when nothing keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An attempt that the watcher should follow, and how.

    `log_paths` are paths or globs of the job's own output; `kernel_logs` maps each node to its kernel log. Times in
    seconds. `ended_at` set: read to the end, then stop following.
    """

    attempt: AttemptKey
    owner_uid: int
    nodes: tuple[str, ...]
    log_paths: tuple[str, ...]
    kernel_logs: tuple[tuple[str, str], ...] = ()
    ranks_per_node: int | None = None
    progress_pattern: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    hang_after_s: float | None = None
    step_before: int | None = None
    """Highest step of the job's earlier attempts."""
    durable_before: int | None = None
    """Last durable checkpoint of the job's earlier attempts."""
    keep_tail: bool = False
    """Whether the last part of each followed file is to be kept now, before a restart can truncate it."""
    is_paused: bool = False
    """Whether no progress is to be expected now: it is suspended, or somebody is at work in it."""
    end_running: frozenset[EndRunning] = frozenset()
    start_before_s: float | None = None
    """The longest time that an earlier attempt of the workflow took to its first step."""
    pause_before_s: float | None = None
    """The longest pause between steps that an earlier attempt of the workflow got over by itself."""
    collected: tuple[RuleHit, ...] = ()
    """What evidence that was collected by a command shows (stacks, collectives), for the detectors to weigh."""
