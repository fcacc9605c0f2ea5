"""Dumps of PyTorch's flight recorder as values: which collectives a rank has called, and how far each has come.

Dumps are pickled or JSON. Version 2 has `collective_seq_id`, `process_group` and `pg_config`; version 1 has `seq_id`
and `pg_id`, and the oldest is the list of entries alone. JSON writes all numbers of `pg_config` and `pg_status` as
text. Every key may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from relance.traces.documents import items, mapping, natural, read_json, text, whole
from relance.traces.pickles import is_pickle, read_pickle
from relance.traces.places import rank_of_name
from relance.traces.signs import TraceFile, UnreadableTraceError

MAX_ENTRIES = 50_000
"""Entries that are looked at; the recorder keeps 2,000 unless told otherwise."""
MAX_RANKS = 200_000
_COMPLETED_KEPT = 64
"""So many completed collectives of a group are kept of each rank: they tell what others still wait in."""
_PEERS = re.compile(r"(?:send|recv) +(\d{1,6}) *(->|<-) *(\d{1,6})")
_NUMBER = re.compile(r"\d{1,9}")


class WorkState(Enum):
    """How far a collective has come on one rank."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One operation of one rank. `order` rises in the order of the calls; `peers` are sender and receiver in the group.

    `shape` tells sizes and `dtypes` the types of what goes in and comes out.
    """

    order: int
    group: str
    seq: int
    op: str
    state: WorkState
    p2p: bool = False
    sends: bool = False
    peers: tuple[int, int] | None = None
    created_ns: int | None = None
    shape: tuple[tuple[tuple[int, ...], ...], ...] = ()
    dtypes: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether it completed."""
        return self.state is WorkState.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A process group: its name, what it is for, and its global ranks in the order of the group."""

    name: str
    about: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How far a group has come on one rank, by numbers of operations; -1 is none."""

    enqueued: int
    started: int
    completed: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing is outstanding."""
        return self.completed >= self.enqueued


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The dump of one rank. `statuses` is by the name of the group; `unplaced` are those whose group is not known."""

    rank: int
    file: str
    node: str | None = None
    version: str = ""
    groups: Mapping[str, GroupConfig]
    statuses: Mapping[str, Status]
    unplaced: tuple[Status, ...] = ()
    works: tuple[Work, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether everything it called is complete."""
        statuses = (*self.statuses.values(), *self.unplaced)
        return all(status.is_idle for status in statuses) and all(work.is_done for work in self.works)

    @property
    def latest_ns(self) -> int:
        """When its last operation was called; 0 where it is not told."""
        return max((work.created_ns or 0 for work in self.works), default=0)


def read_dump(file: TraceFile) -> Dump:
    """The dump in a file.

    Raises:
        UnreadableTraceError: It is too large, damaged, no dump, or its rank is not known.
    """
    data = read_pickle(file.data) if is_pickle(file.data[:3]) else read_json(file.data)
    if isinstance(data, list):
        data = {"entries": data}
    if not isinstance(data, dict) or not ({"entries", "pg_config", "pg_status"} & data.keys()):
        raise UnreadableTraceError(
            "The file is no dump of the flight recorder: it has neither entries nor groups. "
            "Dumps are the files that TORCH_FR_DUMP_TEMP_FILE or TORCH_NCCL_DEBUG_INFO_TEMP_FILE names."
        )
    entries = [entry for entry in items(data.get("entries"))[-MAX_ENTRIES:] if isinstance(entry, dict)]
    groups = _groups(mapping(data.get("pg_config")))
    rank = _rank(file, data, groups)
    works = _kept([work for at, entry in enumerate(entries) if (work := _work(entry, at)) is not None])
    statuses, unplaced = _statuses(mapping(data.get("pg_status")), groups, entries)
    return Dump(
        rank=rank,
        file=file.name,
        node=file.node,
        version=text(data.get("version"), most=20),
        groups=groups,
        statuses=statuses,
        unplaced=unplaced,
        works=works,
    )


def _groups(config: Mapping[Any, Any]) -> dict[str, GroupConfig]:
    found = {}
    for key, value in config.items():
        told = mapping(value)
        name = text(told.get("name")) or text(key)
        found[name] = GroupConfig(name=name, about=text(told.get("desc")), ranks=_ranks(told.get("ranks")))
    return found


def _ranks(value: object) -> tuple[int, ...]:
    """A list of ranks, or a text such as `[0, 1]`."""
    if isinstance(value, str):
        return tuple(int(each) for each in _NUMBER.findall(value[: MAX_RANKS * 8]))
    return tuple(rank for each in items(value)[:MAX_RANKS] if (rank := natural(each)) is not None)


def _rank(file: TraceFile, data: Mapping[Any, Any], groups: Mapping[str, GroupConfig]) -> int:
    """From the caller, the contents, the name. A rank is in all of its own groups, which corrects a misread name."""
    told = natural(data.get("rank"))
    named = file.rank if file.rank is not None else told if told is not None else rank_of_name(file.name)
    members = [set(group.ranks) for group in groups.values() if group.ranks]
    common = set.intersection(*members) if members else set()
    if len(common) == 1 and named not in common:
        return common.pop()
    if named is not None:
        return named
    raise UnreadableTraceError(
        f"Nothing tells which rank {file.name} is of. Name the file after its rank, such as nccl_trace_rank_3."
    )


def _work(entry: Mapping[Any, Any], at: int) -> Work | None:
    seqs = [natural(entry.get(key)) for key in ("collective_seq_id", "seq_id", "p2p_seq_id")]
    op = text(entry.get("profiling_name"))
    peers = _PEERS.search(op)
    p2p = entry.get("is_p2p") is True or peers is not None
    seq = seqs[2] if p2p and seqs[2] is not None else seqs[0] if seqs[0] is not None else seqs[1]
    order = natural(entry.get("record_id"))
    if seq is None or not op:
        return None
    pair = None
    if peers is not None:
        first, second = int(peers[1]), int(peers[3])
        pair = (first, second) if peers[2] == "->" else (second, first)
    return Work(
        order=at if order is None else order,
        group=_group_name(entry),
        seq=seq,
        op=op.rpartition(":")[2].split(" ")[0],
        state=_state(entry),
        p2p=p2p,
        sends=peers is not None and peers[2] == "->",
        peers=pair,
        created_ns=natural(entry.get("time_created_ns")),
        shape=(_sizes(entry.get("input_sizes")), _sizes(entry.get("output_sizes"))),
        dtypes=tuple(text(each, most=30) for key in ("input_dtypes", "output_dtypes") for each in _few(entry.get(key))),
    )


def _group_name(entry: Mapping[Any, Any]) -> str:
    told = entry.get("process_group")
    first = items(told)[0] if items(told) else told
    return text(first) or text(entry.get("pg_name")) or f"pg {text(entry.get('pg_id'))}"


def _state(entry: Mapping[Any, Any]) -> WorkState:
    try:
        return WorkState(entry.get("state"))
    except ValueError:
        if natural(entry.get("time_discovered_completed_ns")):
            return WorkState.COMPLETED
        return WorkState.STARTED if natural(entry.get("time_discovered_started_ns")) else WorkState.SCHEDULED


def _few(value: object) -> Sequence[Any]:
    """What an operation has of each: a coalesced one may have hundreds of tensors."""
    return items(value)[:64]


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    sizes = (tuple(whole(size) or 0 for size in _few(tensor)) for tensor in _few(value))
    return tuple(sizes)


def _kept(works: list[Work]) -> tuple[Work, ...]:
    """All that is outstanding, and the last of each group that is complete."""
    kept: list[Work] = []
    counts: dict[str, int] = {}
    for work in reversed(works):
        if work.is_done:
            counts[work.group] = counts.get(work.group, 0) + 1
        if not work.is_done or counts[work.group] <= _COMPLETED_KEPT:
            kept.append(work)
    return tuple(sorted(kept, key=lambda work: work.order))


def _statuses(
    told: Mapping[Any, Any], groups: Mapping[str, GroupConfig], entries: Iterable[Mapping[Any, Any]]
) -> tuple[dict[str, Status], tuple[Status, ...]]:
    """Statuses by the names of their groups; they are told by numbers that count the groups of this rank alone.

    An entry tells both. Without one the order does, where every group has a status: both numbers and names count in
    the order of the groups' making.
    """
    found = {text(key): status for key, value in told.items() if (status := _status(mapping(value))) is not None}
    names = {text(entry.get("pg_id")): _group_name(entry) for entry in entries if items(entry.get("process_group"))}
    by_order = _by_order(list(found), list(groups), names)
    first = {"0": "0"} if "0" in groups else {}
    placed = {key: names.get(key) or by_order.get(key) or first.get(key) for key in found}
    statuses = {name: found[key] for key, name in placed.items() if name is not None}
    return statuses, tuple(found[key] for key, name in placed.items() if name is None)


def _by_order(numbers: list[str], names: list[str], known: Mapping[str, str]) -> dict[str, str]:
    if len(numbers) != len(names) or not all(each.isdecimal() for each in (*numbers, *names)):
        return {}
    pairs = dict(zip(sorted(numbers, key=int), sorted(names, key=int), strict=True))
    agrees = all(pairs.get(number, name) == name for number, name in known.items())
    return pairs if agrees else {}


def _status(value: Mapping[Any, Any]) -> Status | None:
    enqueued = whole(value.get("last_enqueued_collective"))
    completed = whole(value.get("last_completed_collective"))
    if enqueued is None or completed is None:
        return None
    started = whole(value.get("last_started_collective"))
    return Status(enqueued=enqueued, started=-1 if started is None else started, completed=completed)
