from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from typing import Any

import pytest

from relance.traces import pickles
from relance.traces.dumps import read_dump
from relance.traces.pickles import MAX_PICKLE_BYTES, read_pickle
from relance.traces.signs import TraceFile, UnreadableTraceError
from tests.unit.traces.worlds import pickled

PLAIN: list[Any] = [
    {"a": [1, -1, 2**40, -(2**70), 1.5, None, True, False]}, [], {}, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4),
    "é\ud800", b"raw", [["x"] * 3] * 3, {"n": {"n": {"n": ()}}}, [list(range(300))] * 2,
]  # fmt: skip


def test_what_pytorch_writes_again_and_again_is_read_as_python_reads_it() -> None:
    frames = [{"name": f"f{at % 3}", "filename": f"/srv/{at % 2}.py", "line": at % 5} for at in range(12)]
    value = {
        "entries": [{"frames": frames[at % 4 :], "seq": at, "done": bool(at % 2)} for at in range(30)],
        "more": frames,
    }
    assert read_pickle(pickled(value)) == value == pickle.loads(pickled(value))  # noqa: S301 - our own


def test_the_same_operations_mean_something_else_once_something_else_is_remembered() -> None:
    text, again = b"X\x01\x00\x00\x00%cq\x00", b"}(h\x00K\x01u"
    data = b"\x80\x02](" + text % ord("a") + again + again + text % ord("b") + again + b"e."
    assert read_pickle(data) == ["a", {"a": 1}, {"a": 1}, "b", {"b": 1}] == pickle.loads(data)  # noqa: S301 - our own


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_as_python_reads_it(value: object, protocol: int) -> None:
    if protocol > 2 or not isinstance(value, bytes):  # protocol 2 writes bytes as a call
        assert read_pickle(pickle.dumps(value, protocol)) == value


def bombs() -> dict[str, bytes]:
    """Pickles that ask for more than data: to run, to allocate, to nest, to hash for ever."""
    proto = b"\x80\x04}0"
    doubled = b")" + b"".join(b"q%c" % at + b"h%ch%c\x86" % (at, at) for at in range(60)) + b"q\x3c"
    return {
        "a call": pickle.dumps(Evil(), 2),
        "a class": pickle.dumps(Evil, 2),
        "a call by the newest protocol": pickle.dumps(Evil(), 5),
        "an extension": proto + b"\x82\x01.",
        "a persistent id": proto + b"K\x01Q.",
        "a memo of thousands of millions": proto + b"Nr\xff\xff\xff\x7f.",
        "a byte array of a terabyte": proto + b"\x96" + (2**40).to_bytes(8, "little") + b".",
        "a text of a terabyte": proto + b"\x8d" + (2**40).to_bytes(8, "little") + b".",
        "a number of a megabyte": proto + b"\x8b" + (2**20).to_bytes(4, "little") + b"\x7f" * 2**20 + b".",
        "a number in words": proto + b"I" + b"9" * 100_000 + b"\n.",
        "lists without end": proto + b"]" * 200_000 + b".",
        "marks without end": proto + b"(" * 300_000 + b".",
        "tuples nested without end": proto + b")" + b"\x85" * 200_000 + b".",
        "a key nested without end": proto + b"})" + b"\x85" * 200_000 + b"K\x01s.",
        "a key that takes for ever to hash": proto + b"}" + doubled + b"K\x01s.",
        "operations without end": proto + b"N0" * 100_000 + b"N.",
        "a dictionary as a key": proto + b"}}K\x01s.",
        "nothing": proto,
        "an empty stack": proto + b".",
        "a mark as a value": proto + b"(.",
        "two values": proto + b"NN.",
        "an odd number of items": proto + b"}(K\x01u.",
        "items for a list": proto + b"](K\x01K\x02u.",
        "a value that was never put": proto + b"h\x05.",
        "a frame without an end": proto + b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN",
        "text that is none": proto + b"\x8c\x02\xff\xfe.",
        "a protocol of the future": proto + b"\x80\x7fN.",
    }


def refused_soon(data: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableTraceError, match=r"\. \S"):
        read_dump(TraceFile(name="nccl_trace_rank_0", data=data))
    assert time.monotonic() - began < 30  # far less, unless the machine is busy


@pytest.mark.parametrize("name", bombs())
def test_what_is_more_than_data_is_refused_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MAX_VALUES", 100_000)
    refused_soon(bombs()[name])


@pytest.mark.parametrize("name", bombs())
def test_memory_is_bounded_by_the_limit_of_values_whatever_the_file_asks_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickles, "MAX_VALUES", 10_000)
    monkeypatch.setattr(pickles, "MAX_OPERATIONS", 40_000)
    data = bombs()[name]
    tracemalloc.start()
    try:
        refused_soon(data)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_dump_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(UnreadableTraceError, match="TORCH_INCLUDE_STACK_TRACE=0"):
        read_pickle(b"\x80\x02" + bytes(MAX_PICKLE_BYTES))


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 100_000, b"{}," * 2_000_000, b"1" * 10_000, b'{"entries": ', b"\xff\xfe", b""]
)
def test_json_is_read_within_the_same_bounds(data: bytes) -> None:
    refused_soon(data)


def entry(**fields: object) -> dict[str, object]:
    return {"collective_seq_id": 4, "profiling_name": "nccl:all_reduce", "state": "scheduled", "pg_id": 1} | fields


def dump(**fields: object) -> TraceFile:
    return TraceFile(name="fr_2.json", data=json.dumps({"version": "2.9", "entries": []} | fields).encode())


@pytest.mark.parametrize(
    "odd",
    [
        {"entries": None}, {"entries": "x"}, {"entries": [1, None, [], {}]}, {"entries": [entry(state=7)]},
        {"entries": [entry(collective_seq_id=-5)]}, {"entries": [entry(collective_seq_id="12")]},
        {"entries": [entry(process_group=[])]}, {"entries": [entry(process_group={"a": 1})]},
        {"entries": [entry(input_sizes=[["a"], 3], input_dtypes="x")]}, {"entries": [entry(time_created_ns=1e300)]},
        {"pg_config": []}, {"pg_config": {"0": None}}, {"pg_config": {"0": {"ranks": "[0, 1, zwei"}}},
        {"pg_status": {"0": None}}, {"pg_status": {"x": {"last_enqueued_collective": "9" * 40}}},
    ],
)  # fmt: skip
def test_keys_that_are_missing_or_odd_are_passed_over(odd: dict[str, object]) -> None:
    assert read_dump(dump(**odd)).rank == 2


def test_a_rank_comes_from_the_caller_the_contents_or_the_name() -> None:
    file = dump(rank=7)
    assert read_dump(file).rank == 7
    assert read_dump(TraceFile(name=file.name, data=file.data, rank=9)).rank == 9
    assert read_dump(dump()).rank == 2


def test_groups_correct_a_number_that_is_no_rank() -> None:
    config = {"0": {"name": "0", "ranks": "[0, 1, 2, 3]"}, "1": {"name": "1", "ranks": [1, 5]}}
    data = dump(pg_config=config).data
    assert read_dump(TraceFile(name="trace_job_4711", data=data)).rank == 1


def test_a_dump_without_a_rank_says_how_to_name_it() -> None:
    with pytest.raises(UnreadableTraceError, match="Name the file after its rank"):
        read_dump(TraceFile(name="dump.json", data=dump().data))


def test_counters_find_their_group_by_entries_or_by_order() -> None:
    status = {"last_enqueued_collective": "5", "last_started_collective": "-1", "last_completed_collective": "5"}
    config = {name: {"name": name, "ranks": "[2, 3]"} for name in ("0", "33", "108")}
    by_order = read_dump(dump(pg_config=config, pg_status={"0": status, "4": status, "5": status}))
    assert set(by_order.statuses) == {"0", "33", "108"}
    by_entry = read_dump(
        dump(pg_config=config, pg_status={"4": status}, entries=[entry(pg_id=4, process_group=["108", "x"])])
    )
    assert set(by_entry.statuses) == {"108"}
    unknown = read_dump(dump(pg_config=config, pg_status={"4": status}))
    assert (unknown.statuses, len(unknown.unplaced)) == ({}, 1)
