"""Answers of NCCL's RAS as values (NCCL 2.24 and newer): communicators, their ranks, and who is missing.

JSON (2.28.7 and newer) lists every rank. Text groups ranks and lists outliers only. One file may hold the answers to
several queries, one after the other, and events of the monitor. Ranks are numbered within their communicator; only in
the one that spans the job are these the job's own ranks, so each is known by host, process and GPU, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from relance.domain.log_times import dated
from relance.traces.documents import (
    MAX_JSON_BYTES,
    MAX_JSON_PARTS,
    items,
    json_parts,
    mapping,
    natural,
    read_json,
    text,
)
from relance.traces.signs import UnreadableTraceError

MAX_QUERIES = 1000
MAX_MEMBERS = 200_000
_NEXT = re.compile(r"\S")
_NO_ERROR = frozenset({0, 7})
"""`ncclSuccess` and `ncclInProgress`."""
ERRORS = {
    1: "unhandled CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument", 5: "invalid usage",
    6: "remote error", 8: "timeout",
}  # fmt: skip
"""NCCL's results by number; a remote error is the other end's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Where a rank runs."""

    host: str
    pid: int | None = None
    gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A rank of a communicator. `counts` are its collectives by kind; `error` says what it reports."""

    rank: int
    process: Process | None
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    missing: bool = False
    unresponsive: bool = False
    dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """One communicator. `name` tells it from others. `size` is None where the text does not say.

    `behind` says by how many operations ranks are behind the furthest, of all kinds together; text lists outliers only.
    `tells` are the lines of a text that say so.
    """

    name: str
    size: int | None
    members: tuple[Member, ...]
    incomplete: bool = False
    mismatch: bool = False
    behind: Mapping[int, int] = field(default_factory=dict)
    tells: tuple[str, ...] = ()

    @property
    def state(self) -> object:
        """What must stay the same over queries for the communicator to be stuck."""
        return self.tells or tuple((each.rank, tuple(sorted(each.counts.items()))) for each in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the monitor: a process that was lost or came back."""

    name: str
    process: Process
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RasAnswer:
    """The answer to one query. `dead` and `unresponsive` are processes that no communicator lists."""

    file: str
    line: int = 1
    at: datetime | None = None
    size: int | None = None
    """The GPUs of the job, where the answer says."""
    tells: bool = True
    """Whether it tells of communicators at all, be it that all are well; the monitor's lines do not."""
    communicators: tuple[Communicator, ...] = ()
    dead: tuple[Process, ...] = ()
    unresponsive: tuple[Process, ...] = ()
    events: tuple[Event, ...] = ()


def read_ras_json(data: bytes, file: str) -> tuple[RasAnswer, ...]:
    """The answers in a JSON file: one object, several after one another, or a list.

    Raises:
        UnreadableTraceError: It is no JSON, or holds no answer of RAS.
    """
    answers = []
    events = []
    for value in _values(data):
        told = mapping(value)
        if "communicators" in told:
            answers.append(_answer(told, file))
        elif "peer" in told and "event" in told:
            events.append(_event(told))
    if events:
        answers.append(RasAnswer(file=file, tells=False, events=tuple(events[:MAX_MEMBERS])))
    if not answers:
        raise UnreadableTraceError(
            "The file is no answer of NCCL's RAS: it has no communicators. Ask with `ncclras -v -f json`."
        )
    return tuple(answers)


def _values(data: bytes) -> Iterator[Any]:
    """Values one after the other; what cannot be read after the first is left."""
    try:
        first = read_json(data)
    except UnreadableTraceError:
        if len(data) > MAX_JSON_BYTES or json_parts(data) > MAX_JSON_PARTS:
            raise
        several = _one_by_one(data.decode("utf-8", "replace"))
        if not several:
            raise
        yield from several
    else:
        yield from first[:MAX_QUERIES] if isinstance(first, list) else (first,)


def _one_by_one(written: str) -> list[Any]:
    decoder, at = json.JSONDecoder(), 0
    found: list[Any] = []
    while len(found) < MAX_QUERIES:
        begin = _NEXT.search(written, at)
        if begin is None:
            break
        try:
            value, at = decoder.raw_decode(written, begin.start())
        except (ValueError, RecursionError):
            break
        found.append(value)
    return found


def _answer(told: Mapping[Any, Any], file: str) -> RasAnswer:
    communicators = tuple(_communicator(mapping(each)) for each in items(told.get("communicators"))[:MAX_MEMBERS])
    return RasAnswer(
        file=file,
        at=dated(text(told.get("timestamp")).encode()),
        communicators=communicators,
        size=_whole_job(communicators),
    )


def _whole_job(communicators: tuple[Communicator, ...]) -> int | None:
    """How many GPUs all communicators have together."""
    seen = {(each.process.host, each.process.pid, each.process.gpu)
            for comm in communicators for each in comm.members if each.process is not None}  # fmt: skip
    return len(seen) or None


def _communicator(told: Mapping[Any, Any]) -> Communicator:
    present = [_member(mapping(each)) for each in items(told.get("ranks"))[:MAX_MEMBERS]]
    missing = [_missing(mapping(each)) for each in items(told.get("missing_ranks"))[:MAX_MEMBERS]]
    counts = [each.counts for each in present if each is not None]
    members = tuple(each for each in (*present, *missing) if each is not None)
    hidden = (natural(told.get("missing_ranks_count")) or 0) > len([each for each in missing if each is not None])
    return Communicator(
        name=text(told.get("hash")) + " " + text(told.get("secondary_hash")),
        size=natural(told.get("size")),
        members=members,
        incomplete=hidden,
        mismatch=any(each != counts[0] for each in counts[1:]),
        behind=_behind(members),
    )


def _behind(members: tuple[Member, ...]) -> dict[int, int]:
    present = [each for each in members if not each.missing]
    most: dict[str, int] = {}
    for each in present:
        for op, count in each.counts.items():
            most[op] = max(count, most.get(op, 0))
    lags = {each.rank: sum(top - each.counts.get(op, 0) for op, top in most.items()) for each in present}
    return {rank: lag for rank, lag in lags.items() if lag}


def _member(told: Mapping[Any, Any]) -> Member | None:
    rank = natural(told.get("rank"))
    if rank is None:
        return None
    status = mapping(told.get("status"))
    counts = {text(op): count for op, value in mapping(told.get("collective_counts")).items()
              if (count := natural(value)) is not None}  # fmt: skip
    codes = [natural(status.get(name)) for name in ("async_error", "init_state")]
    errors = [ERRORS.get(code, f"error {code}") for code in codes if code is not None and code not in _NO_ERROR]
    if not errors and status.get("abort_flag") is True:
        errors = ["aborted"]
    return Member(rank=rank, process=_process(told), counts=counts, error=errors[0] if errors else "")


def _missing(told: Mapping[Any, Any]) -> Member | None:
    rank = natural(told.get("rank"))
    if rank is None:
        return None
    status = mapping(told.get("status"))
    return Member(
        rank=rank,
        process=_process(told),
        missing=True,
        unresponsive=status.get("unresponsive") is True,
        dead=status.get("considered_dead") is True,
    )


def _process(told: Mapping[Any, Any]) -> Process | None:
    host = text(told.get("host"))
    gpu = natural(told.get("nvml_dev"))
    pid = natural(told.get("pid"))
    return Process(host=host, pid=pid, gpu=natural(told.get("cuda_dev")) if gpu is None else gpu) if host else None


def _event(told: Mapping[Any, Any]) -> Event:
    peer = mapping(told.get("peer"))
    devices = [found for each in items(peer.get("nvml_devs"))[:1] if (found := natural(each)) is not None]
    process = Process(host=text(peer.get("host")), pid=natural(peer.get("pid")), gpu=devices[0] if devices else None)
    return Event(name=text(told.get("event")), process=process, at=dated(text(told.get("timestamp")).encode()))
