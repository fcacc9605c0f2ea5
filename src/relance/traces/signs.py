"""What traces say, as values: odd ranks with a confidence, and where a rank runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class TraceKind(Enum):
    """What kind of trace a file holds."""

    FLIGHT_RECORDER = "flight_recorder"
    """A dump of PyTorch's flight recorder, pickled or JSON."""
    NCCL_RAS = "nccl_ras"
    """The answer of NCCL's RAS to a status query, text or JSON."""
    STACKS = "stacks"
    """Stacks of one or several processes: py-spy or faulthandler."""
    ELASTIC_ERROR = "elastic_error"
    """The error file of a torchelastic worker."""


class SignKind(Enum):
    """What was seen; the values are the symptoms of the catalogue (signatures.md 7) and of the rule pack."""

    FR_IDLE_RANK = "fr_idle_rank"
    """Nothing outstanding while others wait: stuck outside collectives."""
    FR_LAGGARD = "fr_laggard"
    """Its collectives complete behind everybody else's."""
    FR_MISSING_RANK = "fr_missing_rank"
    """It did not join the collective that the others wait in."""
    FR_NO_DUMP = "fr_no_dump"
    """A member of the job's groups left no dump."""
    FR_COLLECTIVE_MISMATCH = "fr_collective_mismatch"
    """Ranks joined the same collective with another kind, size or type of data."""
    FR_ORDER_CYCLE = "fr_order_cycle"
    """Ranks wait for each other in different groups: they called collectives in another order."""
    FR_STATE_MISMATCH = "fr_state_mismatch"
    """A collective is complete on some ranks and not on others."""
    FR_TRANSPORT_STALL = "fr_transport_stall"
    """All ranks joined, and nothing moves."""
    FR_GPU_STALL = "fr_gpu_stall"
    """All ranks joined; on some the GPU has not begun."""
    FR_P2P_GAP = "fr_p2p_gap"
    """A send without its receive, or the other way round."""
    FR_WAVEFRONT_GROUP = "fr_wavefront_group"
    """The group that waits for no other group: look here first."""
    FR_UNDECIDED = "fr_undecided"
    """Work is outstanding, and the dumps do not tell who is late."""
    RAS_RANK_DEAD = "ras_rank_dead"
    """NCCL holds the rank's process for dead."""
    RAS_RANK_UNRESPONSIVE = "ras_rank_unresponsive"
    """The rank's process does not answer NCCL's questions."""
    RAS_COLLECTIVE_STUCK = "ras_collective_stuck"
    """Counts of collectives differ, unchanged over several queries."""
    RAS_SKEW = "ras_skew"
    """Counts of collectives differ, seen once."""
    RAS_ASYNC_ERROR = "ras_async_error"
    """A communicator reports an error or was aborted."""
    RAS_PARTIAL = "ras_partial"
    """A communicator gave no complete data."""
    STACK_MINORITY = "stack_minority"
    """A few processes stand elsewhere than the others."""
    STACK_ALL_WAITING = "stack_all_waiting"
    """All processes wait in a collective."""
    STACK_UNDECIDED = "stack_undecided"
    """The stacks name nobody."""
    ELASTIC_ERROR = "elastic_error"
    """A worker wrote down the exception that ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A file to read. `rank` and `node` are what its path tells, where it tells."""

    name: str
    data: bytes
    rank: int | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSign:
    """One thing that the traces of a job say.

    `ranks` are global ranks, most suspect first. `margin` is the distance of the last of them to the next rank, in
    units of `margin_of` (collectives, processes); None where there is no ranking. `confidence`, from 0 to 1, is how
    surely the sign holds and means these ranks. `because` is one sentence for people. `at` is when it began, where
    known; `host` and `gpu` say where the first rank runs, as the trace names it.
    """

    kind: SignKind
    because: str
    confidence: float
    ranks: tuple[int, ...] = ()
    group: str = ""
    seq: int | None = None
    op: str = ""
    margin: float | None = None
    margin_of: str = ""
    file: str = ""
    line: int | None = None
    node: str | None = None
    host: str | None = None
    gpu: int | None = None
    at: datetime | None = None
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHost:
    """Where a rank runs: `host` is a name or an address as the trace has it, `gpu` the device's index there."""

    rank: int
    host: str
    gpu: int | None = None
    pid: int | None = None
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """The exception that ended a worker, as torchelastic's error file has it.

    `text` is its traceback, else its message. `local_rank` is the worker's number on its node, where the path tells.
    """

    file: str
    text: str
    message: str
    exception: str = ""
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that could not be used, and why, with what to do about it."""

    file: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """What all traces of a job say together, the surest sign first.

    The texts of `errors` are lines like those of a log: rules may match them.
    """

    signs: tuple[TraceSign, ...] = ()
    rank_hosts: tuple[RankHost, ...] = ()
    errors: tuple[WorkerError, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


class UnreadableTraceError(ValueError):
    """A trace cannot be used. The message is a sentence, with what to do about it."""


def listed(ranks: tuple[int, ...], *, most: int = 8) -> str:
    """Ranks for a sentence: `rank 3`, `ranks 3 and 7`, `ranks 0, 1, 2 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = [str(rank) for rank in ranks[:most]]
    rest = len(ranks) - len(shown)
    if rest:
        return f"ranks {', '.join(shown)} and {rest} more"
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
