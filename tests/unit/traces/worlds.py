"""A training job of sixteen ranks, run on paper up to a fault, and the flight-recorder dumps that it leaves.

Ranks are laid out as tensor (4) x data (2) x pipeline (2). Each step runs the same programme: the pipeline hands on,
tensor groups gather and reduce, data groups and the world reduce. Each rank calls a few operations ahead of its GPU,
which carries them out in order.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from relance.traces.signs import TraceFile

WORLD = 16
STEPS = 3
START_NS = 1_790_000_000_000_000_000

Op = tuple[str, str]
"""A group and what is called in it: `all_reduce`, or `send 0->1` by ranks of the group."""


def groups() -> dict[str, tuple[str, tuple[int, ...]]]:
    """All groups by name, in the order of their making: what for, and which ranks."""
    found = {"0": ("default_pg", tuple(range(WORLD)))}
    names = iter(range(1, 100))
    for about, members in (
        ("DATA_PARALLEL_GROUP", [(p * 8 + t, p * 8 + 4 + t) for p in range(2) for t in range(4)]),
        ("TENSOR_MODEL_PARALLEL_GROUP", [tuple(range(at, at + 4)) for at in range(0, WORLD, 4)]),
        ("PIPELINE_MODEL_PARALLEL_GROUP", [(rank, rank + 8) for rank in range(8)]),
    ):
        for ranks in members:
            found[str(next(names))] = (about, ranks)
    return found


GROUPS = groups()


def group_of(rank: int, about: str) -> str:
    return next(name for name, (what, ranks) in GROUPS.items() if what == about and rank in ranks)


def programme(rank: int) -> list[Op]:
    tensor, data = group_of(rank, "TENSOR_MODEL_PARALLEL_GROUP"), group_of(rank, "DATA_PARALLEL_GROUP")
    pipe = group_of(rank, "PIPELINE_MODEL_PARALLEL_GROUP")
    forward = [(tensor, "_all_gather_base"), (tensor, "_reduce_scatter_base"), (tensor, "all_reduce")]
    backward = [(tensor, "_all_gather_base"), (tensor, "all_reduce")]
    end = [(data, "all_reduce"), ("0", "all_reduce")]
    if rank < 8:
        step = [*forward, (pipe, "send 0->1"), (pipe, "recv 0<-1"), *backward, *end]
    else:
        step = [(pipe, "recv 1<-0"), *forward, *backward, (pipe, "send 1->0"), *end]
    return step * STEPS


@dataclass(kw_only=True)
class Fault:
    """What goes wrong.

    A rank that `stops` calls no more from an operation on; one that `dies` no longer carries out;
    one that `swaps` calls another operation. What a group calls from a number on `stalls`: it does not move.
    """

    stops: dict[int, int] = field(default_factory=dict)
    dies: dict[int, int] = field(default_factory=dict)
    swaps: dict[int, tuple[int, Op]] = field(default_factory=dict)
    stalls: tuple[str, int] | None = None


@dataclass(kw_only=True)
class Call:
    group: str
    op: str
    seq: int
    order: int
    done: bool = False

    @property
    def p2p(self) -> bool:
        return "->" in self.op or "<-" in self.op

    @property
    def meeting(self) -> tuple[str, int, str]:
        """What the parts of one operation have in common."""
        if not self.p2p:
            return self.group, self.seq, ""
        word, ends = self.op.split()
        pair = ends if "->" in ends else "->".join(reversed(ends.split("<-")))
        del word
        return self.group, self.seq, pair


class Run:
    """The job, run until nothing moves."""

    def __init__(self, fault: Fault, *, ahead: int = 4) -> None:
        self.fault = fault
        self.plans = {rank: self._plan(rank) for rank in range(WORLD)}
        self.called = dict.fromkeys(range(WORLD), 0)
        self.ended = dict.fromkeys(range(WORLD), 0)
        moved = True
        while moved:
            moved = self._call(ahead)
            moved = self._carry_out() or moved

    def _plan(self, rank: int) -> list[Call]:
        ops = programme(rank)
        if rank in self.fault.swaps:
            at, op = self.fault.swaps[rank]
            ops[at] = op
        counts: dict[object, int] = defaultdict(int)
        plan = []
        for order, (group, name) in enumerate(ops):
            call = Call(group=group, op=name, seq=0, order=order)
            kind = (group, call.meeting[2] if call.p2p else "")
            counts[kind] += 1
            call.seq = counts[kind]
            plan.append(call)
        return plan

    def _call(self, ahead: int) -> bool:
        moved = False
        for rank, plan in self.plans.items():
            limit = min(len(plan), self.fault.stops.get(rank, len(plan)), self.ended[rank] + ahead)
            if self.called[rank] < limit:
                self.called[rank] += 1
                moved = True
        return moved

    def _head(self, rank: int) -> Call | None:
        at = self.ended[rank]
        return self.plans[rank][at] if at < self.called[rank] else None

    def _carry_out(self) -> bool:
        moved = False
        for rank in range(WORLD):
            head = self._head(rank)
            if head is None or head.done or self._is_stalled(head):
                continue
            parts = [
                each
                for other in GROUPS[head.group][1]
                if (each := self._head(other)) is not None and each.meeting == head.meeting
            ]
            if len(parts) < len(GROUPS[head.group][1]) or len({each.op.split()[0] for each in parts} - P2P) > 1:
                continue
            for other in GROUPS[head.group][1]:
                if self.fault.dies.get(other, len(self.plans[other])) > self.ended[other]:
                    self.plans[other][self.ended[other]].done = True
                    self.ended[other] += 1
                    moved = True
        return moved

    def _is_stalled(self, call: Call) -> bool:
        stalls = self.fault.stalls
        return stalls is not None and not call.p2p and call.group == stalls[0] and call.seq >= stalls[1]

    def dump(self, rank: int, *, only_active: bool = True, started: bool = False) -> dict[str, Any]:
        """The dump of a rank as Python data of version 2."""
        own = [name for name, (_, ranks) in GROUPS.items() if rank in ranks]
        calls = self.plans[rank][: self.called[rank]]
        status = {}
        for number, name in enumerate(own):
            mine = [call for call in calls if call.group == name]
            if mine:
                status[str(number)] = {
                    "last_enqueued_collective": mine[-1].seq,
                    "last_started_collective": -1,
                    "last_completed_collective": max((call.seq for call in mine if call.done), default=0),
                }
        used = {call.group for call in calls}
        return {
            "version": "2.9",
            "nccl_version": "2.27.3",
            "pg_config": {
                name: {"name": name, "desc": GROUPS[name][0], "ranks": str(list(GROUPS[name][1]))}
                for name in sorted(own)
                if name in used
            },
            "pg_status": status,
            "entries": [
                entry(call, own.index(call.group), rank, started=started and at == 0)
                for at, call in enumerate(sorted(calls, key=lambda call: (call.done, call.order)))
                if not (only_active and call.done)
            ],
        }

    def files(self, *, without: tuple[int, ...] = (), form: str = "torch", **how: bool) -> list[TraceFile]:
        """The dumps as files."""
        return [file(rank, self.dump(rank, **how), form) for rank in range(WORLD) if rank not in without]


P2P = {"send", "recv"}


def entry(call: Call, number: int, rank: int, *, started: bool = False) -> dict[str, Any]:
    state = "completed" if call.done else "started" if started else "scheduled"
    return {
        "record_id": call.order,
        "pg_id": number,
        "process_group": (call.group, GROUPS[call.group][0]),
        "collective_seq_id": 0 if call.p2p else call.seq,
        "p2p_seq_id": call.seq if call.p2p else 0,
        "op_id": call.order,
        "profiling_name": f"nccl:{call.op}",
        "time_created_ns": START_NS + call.order * 1_000_000 + rank,
        "input_sizes": [[2048, 1, 64]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[2048, 1, 64]],
        "output_dtypes": ["BFloat16"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": START_NS if call.done else None,
        "retired": call.done,
        "timeout_ms": 600000,
        "is_p2p": call.p2p,
    }


def file(rank: int, dump: dict[str, Any], form: str = "torch") -> TraceFile:
    if form == "json":
        for status in dump["pg_status"].values():
            status.update({key: str(value) for key, value in status.items()})
        return TraceFile(name=f"fr_{rank}.json", data=json.dumps(dump).encode())
    if form == "old":
        old = [
            {
                "record_id": each["record_id"],
                "pg_id": each["pg_id"],
                "process_group": each["process_group"],
                "seq_id": each["collective_seq_id"] or each["p2p_seq_id"],
                "profiling_name": each["profiling_name"],
                "state": each["state"],
            }
            for each in dump["entries"]
        ]
        return TraceFile(name=f"trace{rank}", data=pickle.dumps({"entries": old, "pg_config": dump["pg_config"]}, 2))
    data = pickle.dumps(dump, 4) if form == "python" else pickled(dump)
    return TraceFile(name=f"nccl_trace_rank_{rank}", data=data)


def pickled(value: object) -> bytes:
    """A pickle as PyTorch writes it: of all values only texts are remembered."""
    parts, memo = [b"\x80\x02"], dict[str, int]()
    write(value, parts, memo)
    return b"".join([*parts, b"."])


def write(value: object, parts: list[bytes], memo: dict[str, int]) -> None:
    match value:
        case None:
            parts.append(b"N")
        case bool():
            parts.append(b"\x88" if value else b"\x89")
        case int():
            parts.append(number(value))
        case str() if value in memo:
            parts.append(indexed(b"hj", memo[value]))
        case str():
            raw = value.encode()
            memo[value] = len(memo)
            parts += [b"X" + struct.pack("<I", len(raw)) + raw, indexed(b"qr", memo[value])]
        case list() | tuple():
            parts.append(b"(" if isinstance(value, tuple) else b"](")
            for each in value:
                write(each, parts, memo)
            parts.append(b"t" if isinstance(value, tuple) else b"e")
        case dict():
            parts.append(b"}(")
            for each in (each for pair in value.items() for each in pair):
                write(each, parts, memo)
            parts.append(b"u")
        case _:
            raise TypeError(value)


def number(value: int) -> bytes:
    for low, high, code, layout in ((0, 2**8, b"K", "<B"), (0, 2**16, b"M", "<H"), (-(2**31), 2**31, b"J", "<i")):
        if low <= value < high:
            return code + struct.pack(layout, value)
    return b"\x8a\x08" + struct.pack("<q", value)


def indexed(codes: bytes, index: int) -> bytes:
    return codes[:1] + bytes([index]) if index < 256 else codes[1:] + struct.pack("<I", index)
