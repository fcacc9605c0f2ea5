from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from relance.domain.faults import Role, Scope
from relance.rules import load_pack
from relance.rules.pack import read_texts
from relance.traces import (
    HEAD_BYTES,
    SignKind,
    TraceFile,
    TraceKind,
    TraceSign,
    UnreadableTraceError,
    hits_of,
    looks_like,
    parse,
    read,
)
from relance.traces.places import rank_of_name
from relance.traces.stacks import Stack
from tests.unit.traces.test_ras import HEADER, lose, row, world
from tests.unit.traces.test_stacks import LOADING, REDUCE, handler, spy, spy_json, traceback
from tests.unit.traces.worlds import Fault, Run

READ_AT = datetime(2026, 6, 1, tzinfo=UTC)
PACK = load_pack({"traces.yaml": read_texts()["traces.yaml"]})
ERROR = {
    "message": {
        "message": "RuntimeError: CUDA error: an illegal memory access was encountered",
        "extraInfo": {
            "py_callstack": 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n',
            "timestamp": "1790000000",
        },
    }
}
PICKLED, WRITTEN = Run(Fault(stops={3: 10})).files()[3], Run(Fault(stops={3: 10})).files(form="json")[3]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        (PICKLED.name, PICKLED.data, TraceKind.FLIGHT_RECORDER),
        (WRITTEN.name, WRITTEN.data, TraceKind.FLIGHT_RECORDER),
        ("ras.json", json.dumps(world()).encode(), TraceKind.NCCL_RAS),
        ("ras.txt", f"{HEADER}{row('OK')}".encode(), TraceKind.NCCL_RAS),
        ("a.txt", spy(REDUCE).encode(), TraceKind.STACKS),
        ("a.json", spy_json(REDUCE).encode(), TraceKind.STACKS),
        ("b.txt", handler(REDUCE).encode(), TraceKind.STACKS),
        ("stack-3.txt", traceback(REDUCE).encode(), TraceKind.STACKS),
        ("attempt_0/3/error.json", json.dumps(ERROR).encode(), TraceKind.ELASTIC_ERROR),
        ("job.log", traceback(REDUCE).encode(), None),
        ("rank-3.err", b"Fatal Python error: Segmentation fault\n\n" + handler(REDUCE).encode(), None),
        ("rank-3.err", handler(REDUCE).encode() + b"step 12 loss 2.5\n", None),
        ("faulthandler-3.log", b"Fatal Python error: Bus error\n\n" + handler(REDUCE).encode(), TraceKind.STACKS),
        ("job.log", b"step 1 loss 2.5\n" * 40 + spy(REDUCE).encode(), None),
        ("job.log", b"step 1 loss 2.5\n" * 40 + f"{HEADER}{row('OK')}".encode(), None),
        ("ras-2.txt", b"$ ncclras -v\n" * 40 + f"{HEADER}{row('OK')}".encode(), TraceKind.NCCL_RAS),
        ("job.log", b"[rank0]: NCCL version 2.28.9+cuda13\nstep 1 loss 2.0\n", None),
        ("events.json", b'{"message": "pod was evicted", "reason": "Evicted"}', None),
        ("sacct.json", b'{"jobs": [{"job_id": 3}]}', None),
        ("model.pkl", pickle.dumps({"weights": [1, 2]}), None),
        ("model.pt", b"PK\x03\x04rest", None),
        ("empty", b"", None),
        ("log.json", b'{"thread_name": "MainThread", "message": "step 1"}\n' * 9, None),
    ],
)
def test_files_are_told_apart_by_name_and_first_bytes(name: str, data: bytes, kind: TraceKind | None) -> None:
    assert looks_like(name, data[:HEAD_BYTES]) is kind


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3), ("fr_12.json", 12), ("dumps/x_rank3.pkl", 3), ("_dump_14", 14), ("trace7", 7),
        ("comm_lib_trace_rank_0_1712", 0), ("job_4711/Rank-2.bin", 2), ("/tmp/nccl_trace_11", 11), ("job.log", None),
    ],
)  # fmt: skip
def test_a_rank_is_read_from_a_name(name: str, rank: int | None) -> None:
    assert rank_of_name(name) == rank


def test_traces_of_all_kinds_are_read_together() -> None:
    stacks = [
        TraceFile(name=f"py-spy-rank{rank}.txt", data=spy(LOADING if rank == 3 else REDUCE).encode())
        for rank in range(16)
    ]
    report = read(
        [
            *Run(Fault(stops={3: 10})).files(),
            TraceFile(name="ras.json", data=json.dumps(lose(world(), 3)).encode()),
            TraceFile(name="error.json", data=json.dumps(ERROR).encode(), rank=5),
            *stacks,
            TraceFile(name="broken_rank_1", data=PICKLED.data[:-40]),
        ]
    )
    first = report.signs[0]
    assert (first.kind, first.ranks, first.host, first.gpu) == (SignKind.FR_IDLE_RANK, (3,), "10.4.0.1", 3)
    kinds = {sign.kind for sign in report.signs}
    assert kinds >= {SignKind.RAS_RANK_UNRESPONSIVE, SignKind.STACK_MINORITY, SignKind.ELASTIC_ERROR}
    assert [each.file for each in report.unreadable] == ["broken_rank_1"]
    assert len(report.rank_hosts) == 8


def test_the_order_of_files_makes_no_difference() -> None:
    files = [*Run(Fault(dies={2: 9})).files(), TraceFile(name="ras.json", data=json.dumps(world()).encode())]
    assert read(files) == read(files[::-1])


def test_an_error_file_gives_time_text_and_exception() -> None:
    (error,) = read([TraceFile(name="attempt_0/3/error.json", data=json.dumps(ERROR).encode())]).errors
    assert error.at == datetime.fromtimestamp(1_790_000_000, tz=UTC)
    assert (error.exception, error.local_rank) == ("RuntimeError", 3)
    assert error.text.startswith("Traceback")


def test_the_earliest_error_file_comes_first() -> None:
    files = []
    for rank, second in ((0, "1790000005"), (1, "1790000001"), (2, "")):
        told = json.loads(json.dumps(ERROR))
        told["message"]["extraInfo"]["timestamp"] = second
        files.append(TraceFile(name=f"{rank}/error.json", data=json.dumps(told).encode(), rank=rank))
    assert [sign.ranks for sign in read(files).signs] == [(1,), (0,), (2,)]


def test_an_unknown_file_is_refused_with_what_is_known() -> None:
    with pytest.raises(UnreadableTraceError, match="flight-recorder dumps"):
        parse(TraceFile(name="x", data=b"hello"))


SIGN = TraceSign(
    kind=SignKind.FR_LAGGARD, because="Ranks 4 and 9 lag.", confidence=0.8, ranks=(4, 9), group="12", seq=77,
    op="all_reduce", margin=5.0, margin_of="collectives", file="d4", node="cn4", host="10.0.0.4", gpu=2,
)  # fmt: skip


def hide(text: str) -> str:
    return text.replace("secret", "***")


def test_every_kind_of_sign_has_a_rule() -> None:
    assert {kind.value for kind in SignKind} == {rule.symptom for rule in PACK.derived if rule.scope is Scope.TRACES}


def test_a_sign_gives_a_hit_for_each_of_its_ranks() -> None:
    first, second = hits_of([SIGN], PACK.derived, READ_AT, mask=hide)
    assert (first.rule, first.rank, second.rank) == ("fr-laggard", 4, 9)
    assert first.weight == pytest.approx(PACK.derived_by_id["fr-laggard"].weight * 0.8)
    assert (first.node, first.device, second.node, second.device) == ("cn4", "gpu2", None, None)
    assert first.captures == {
        "rank": "4", "ranks": "4,9", "group": "12", "seq": "77", "op": "all_reduce", "margin": "5", "confidence": "0.8",
        "host": "10.0.0.4", "gpu": "2",
    }  # fmt: skip
    assert (first.scope, first.role, first.seen_at) == (Scope.TRACES, Role.ROOT, READ_AT)


def test_an_unsure_root_is_only_a_maybe() -> None:
    hits = hits_of([replace(SIGN, confidence=0.4)], PACK.derived, READ_AT, mask=hide)
    assert {hit.role for hit in hits} == {Role.MAYBE}


def test_a_mismatch_names_ranks_and_suspects_none() -> None:
    (hit,) = hits_of([replace(SIGN, kind=SignKind.FR_COLLECTIVE_MISMATCH)], PACK.derived, READ_AT, mask=hide)
    assert hit.rank is None
    assert hit.captures["ranks"] == "4,9"


def test_sentences_are_masked_and_rules_that_are_off_give_no_hits() -> None:
    sign = replace(SIGN, because="a secret\x1b[31m\n", details={"message": "secret"})
    hit = hits_of([sign], PACK.derived, READ_AT, mask=hide)[0]
    assert hit.excerpt == "a *** [31m "
    assert hit.captures["message"] == "***"
    assert hits_of([sign], [], READ_AT, mask=hide) == ()


def test_stacks_with_labels_of_ranks_before_their_first_line_are_no_json() -> None:
    lines = (b"Current thread 0x00007f3409c1d2c0 (most recent call first):", b'  File "/w/train.py", line 12 in step')
    data = b"".join(b"[rank3]: " + line + b"\n" for line in lines)
    assert looks_like("stacks.txt", data) is TraceKind.STACKS
    stacks = parse(TraceFile(name="stacks.txt", data=data))
    assert isinstance(stacks, tuple)
    assert [stack.rank for stack in stacks if isinstance(stack, Stack)] == [3]
