"""The language of the simulated scheduler: what one may ask it over its socket, and what it answers.

The daemon (`relance.simulation.scheduler`) serves a UNIX stream socket, `<state dir>/scheduler.sock`, mode 0600. A
request is one JSON object on one line with the name of the operation in `op`; the answer is one JSON object on one
line. A connection may carry any number of requests, which are answered in order; open a second connection beside a
`wait`. The uid of the peer is the acting user, unless the request has an `acting_uid`, with which a test or a demo
plays another person. A line may have up to 16 MiB.

Every answer has `ok`. A refusal is `{"ok": false, "error": "text"}`; where Slurm has a text for it, it is Slurm's, with
" for job N" at its end. Every good answer has `as_of` (when it was true) and `change` (the counter of changes, see
`wait`). All times are seconds since the epoch, UTC, as floating point; null where there is none. Names, states and
behaviour follow Slurm 25.11 as observed; where they differ, it says so here.

Reading
    info                                    -> `info`: Info
    jobs                                    -> `jobs`: list of JobRow; a finished job is listed for min_job_age_s
    job {job_id}                            -> `job`: JobRow
    accounting {job_id?}                    -> `attempts`: list of AttemptRow, oldest first, one per attempt, as
                                               `sacct -D -X` with its steps; outlives the purge of the job
    nodes                                   -> `nodes`: list of NodeRow
    wait {after, timeout_s}                 -> as soon as the counter of changes is above `after`, or the time (at most
                                               300 s) is over; compare the answer's `change`. The counter never
                                               goes back, not over a restart either

Jobs
    submit {name, argv, nodes, ...}         -> `job_id`; all fields: SubmitRequest
    requeue {job_id}                        a running job is ended and becomes PENDING, its restart count one higher; an
                                            ended one becomes PENDING at once. Works on CANCELLED and COMPLETED jobs
                                            too: they run again. The new attempt waits with reason BeginTime for
                                            requeue_delay_s and then starts by itself
    requeuehold {job_id}                    the same, but held, until `release`
    hold, release {job_id}                  pending jobs only
    cancel {job_id}                         the uid is kept: `cancelled_by`, and "CANCELLED by UID" in accounting
    cancel_step {job_id}                    as `scancel J.0`: the job ends FAILED 137:0, only its step row says who
    signal {job_id, signal}                 a signal ("TERM", "SIGUSR1", 15) to every rank, nobody is recorded
    preempt {job_id, grace_s}               TERM to the ranks; those that have gone within the grace time leave a FAILED
                                            job with `preempt_time`; else the job is PREEMPTED and requeued
    update {job_id, changes...}             all or nothing; the fields: UpdateRequest

Nodes
    node_down {node, reason?}               its processes are killed; the job there ends NODE_FAIL and, unless it was
                                            submitted with requeue=false, is requeued by the scheduler itself
    node_up {node}                          the node has booted anew and takes work
    drain {node, reason}                    nothing new starts there; `draining` while a job runs on it
    resume {node}                           ends down, drain and reservation
    reserve {node, kind}                    kind "reserved" or "maint": nothing starts there

Faults, for tests and demonstrations; each answers with `at`, when it was done
    kill_rank {job_id, rank, signal?}       default KILL
    stop_rank {job_id, rank}                SIGSTOP; it hangs and its peers wait for it
    oom_rank {job_id, rank}                 killed as the kernel kills for memory: job OUT_OF_MEMORY, kernel line
    rank_pid {job_id, rank}                 -> `pid`, `node`, `alive`
    kernel_line {node, text}                appends to the node's kernel log, with time and node before it
    break_node {node, kind, after_steps?, kernel_delay_s?, factor?}
                                            kind "xid79": the trainer's first rank on the node loses its GPU so many
                                            steps (default 3) after it started there or, if it runs already, after it
                                            saw the break; the kernel's lines with Xid 79 follow when the rank has died
                                            of it, kernel_delay_s (default 0) later. Every attempt there, until mended.
                                            kind "slow": each step there takes `factor` (default 3) times as long
    mend_node {node}

Files under the state directory: `scheduler.json` (everything above, for inspection and for the next daemon),
`scheduler.log` (what slurmctld and slurmd would log), `nodes/<node>/kern.log`.

What the scheduler writes into a job's output is what srun and slurmstepd write: each line of a rank after its label
("3: "), then `srun: error: node002: task 3: Killed` and so on.

States of a job: PENDING, RUNNING, COMPLETING, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY,
PREEMPTED; in accounting also REQUEUED and "CANCELLED by UID". States of a node: idle, allocated, draining, drained,
down, reserved, maint. Reasons of a pending job: None, BeginTime, JobHeldUser, JobHeldAdmin, Dependency,
DependencyNeverSatisfied, BadConstraints, Resources, Priority, "ReqNodeNotAvail, ...".

Two traps are there on purpose, as in Slurm. An update with start_time "now" while the old attempt is COMPLETING is
accepted, and overwritten when the job becomes PENDING. The same within launch_race_window_s after it became PENDING is
accepted too, and the new attempt dies at launch: FAILED with reason JobLaunchFailure, "Job credential revoked" in
`scheduler.log`, no steps.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

SOCKET_NAME = "scheduler.sock"
"""The socket's name in the state directory."""

LINE_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest request or answer."""


class SubmitRequest(TypedDict):
    """The fields of `submit`."""

    op: Literal["submit"]
    name: str
    argv: list[str]
    """The command of each rank. It finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR,
    MASTER_PORT, JOB_ID, RESTART_COUNT (from the second attempt on), NODE_NAME and NODE_DIR in its environment."""
    nodes: int
    ranks_per_node: NotRequired[int]
    """Default 1."""
    work_dir: NotRequired[str]
    """Default: the state directory."""
    output: NotRequired[str]
    """Where the job's output goes, from the work directory: %j job, %x name, %u user, %N first node. Default
    "slurm-%j.out"."""
    open_mode: NotRequired[Literal["append", "truncate"]]
    """What a new attempt does to the output of the last one. Default truncate, as Slurm."""
    ranks_files: NotRequired[str | None]
    """A pattern with %t (rank) for files of one rank each, without labels. The job's output then has srun's lines only,
    unless `ranks_tee` is true."""
    ranks_tee: NotRequired[bool]
    env: NotRequired[dict[str, str]]
    user: NotRequired[str]
    uid: NotRequired[int]
    """Default: the acting user."""
    partition: NotRequired[str]
    nodelist: NotRequired[list[str]]
    """Nodes that must be among those of the job."""
    exclude: NotRequired[list[str]]
    features: NotRequired[list[str]]
    requeue: NotRequired[bool]
    """Default true."""
    time_limit_s: NotRequired[float | None]
    comment: NotRequired[str]
    script: NotRequired[str]
    """A text that stands for the batch script: its hash tells copies. Default: the command."""
    dependency: NotRequired[str]
    """"singleton", "afterany:ID" or "afterok:ID"."""
    kill_on_bad_exit: NotRequired[bool]
    """Whether the end of one rank ends the others, as srun's. Default true."""


class UpdateRequest(TypedDict, total=False):
    """The fields of `update`; those of a pending job only are marked (P)."""

    op: Literal["update"]
    job_id: int
    exclude: list[str] | str
    """(P) The whole new list; an unknown name refuses it all. Too few nodes left is accepted, and the job then waits
    with BadConstraints and priority 0 until that is mended."""
    start_time: str | float
    """(P) "now", "now+30minutes", "now+90" (seconds), an ISO time (UTC if it has no offset) or seconds since 1970."""
    dependency: str
    """(P) "" or as in `submit`; asked (again) from now on."""
    std_out: str
    """(P) As `output` in `submit`."""
    nodelist: list[str] | str
    """(P)"""
    time_limit_s: float | None
    comment: str
    requeue: bool
    priority: int


class JobRow(TypedDict):
    """A job as the scheduler shows it: its current attempt."""

    job_id: int
    name: str
    user: str
    uid: int
    partition: str
    state: str
    reason: str
    description: str
    """More on the reason, such as "job requeued in held state"."""
    restart_count: int
    submit_time: float
    """Becomes the time of the requeue."""
    eligible_time: float | None
    start_time: float | None
    """Of a pending job the planned one, if any."""
    end_time: float | None
    """Of a running job None (Slurm shows the end of its time limit)."""
    preempt_time: float | None
    node_list: list[str]
    node_count: int
    ranks_per_node: int
    exclude: list[str]
    nodelist: list[str]
    features: list[str]
    exit_code: str
    """"code:signal" of the batch step. A rank killed by signal 9 makes it "137:0", as on 25.11."""
    derived_exit_code: str
    """"code:signal" of the ranks: "0:9" in the same case."""
    cancelled_by: int | None
    priority: int
    hold: Literal["none", "user", "admin"]
    requeue: bool
    time_limit_s: float | None
    dependency: str
    comment: str
    work_dir: str
    std_out: str
    """Resolved and absolute. %N stays until the job has started once."""
    open_mode: str
    ranks_files: list[str]
    """Resolved and absolute, one per rank."""
    script_hash: str
    command: list[str]


class StepRow(TypedDict):
    """A step of an attempt: "batch", or "0" for the ranks."""

    step: str
    state: str
    """RUNNING, COMPLETED, FAILED, OUT_OF_MEMORY, CANCELLED (by the scheduler), or "CANCELLED by UID"."""
    exit_code: str
    nodes: list[str]
    start_time: float | None
    end_time: float | None


class AttemptRow(TypedDict):
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
    nodes: list[str]
    node_count: int
    comment: str
    """As it was when the attempt ended."""
    steps: list[StepRow]


class NodeRow(TypedDict):
    """A node as the scheduler shows it."""

    name: str
    state: str
    reason: str
    reason_uid: int | None
    reason_time: float | None
    partitions: list[str]
    features: list[str]
    boot_time: float
    job_id: int | None
    node_dir: str
    kernel_log: str


class Info(TypedDict):
    """What the scheduler says of itself."""

    release: str
    cluster: str
    pid: int
    boot_time: float
    state_dir: str
    min_job_age_s: float
    requeue_delay_s: float
    kill_wait_s: float
    pass_interval_s: float
    launch_race: bool
    launch_race_window_s: float
    partitions: list[str]
