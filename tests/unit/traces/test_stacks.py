from __future__ import annotations

import faulthandler
import json
from pathlib import Path

import pytest

from relance.traces.reading import looks_like
from relance.traces.signs import SignKind, TraceFile, TraceKind, TraceSign, UnreadableTraceError
from relance.traces.stack_signs import signs_of_stacks
from relance.traces.stacks import Stack, read_stacks
from relance.traces.standing import At, at_of

Frames = list[tuple[str, str, int]]

OUTER: Frames = [("train", "pretrain.py", 310), ("main", "train.py", 88), ("<module>", "train.py", 140)]
REDUCE: Frames = [
    ("all_reduce", "torch/distributed/distributed_c10d.py", 2501),
    ("wrapper", "torch/distributed/c10d_logger.py", 81),
    ("finish_grad_sync", "core/param_and_grad_buffer.py", 250),
    *OUTER,
]
BARRIER: Frames = [("barrier", "torch/distributed/distributed_c10d.py", 4159), ("after_save", "train.py", 61), *OUTER]
LOADING: Frames = [
    ("poll", "multiprocessing/popen_fork.py", 27),
    ("_next_data", "torch/utils/data/dataloader.py", 1448),
    ("__next__", "torch/utils/data/dataloader.py", 701),
    *OUTER,
]
SAVING: Frames = [("_save", "torch/serialization.py", 850), ("save_checkpoint", "checkpointing.py", 402), *OUTER]
OWN: Frames = [("scrub", "own/filters.py", 12), ("clean", "own/filters.py", 30), *OUTER]
BACKWARD: Frames = [
    ("_engine_run_backward", "torch/autograd/graph.py", 825),
    ("backward", "torch/_tensor.py", 581),
    *OUTER,
]
WORKER: Frames = [
    ("wait", "threading.py", 320),
    ("_worker_loop", "torch/utils/data/_utils/worker.py", 275),
    ("run", "multiprocessing/process.py", 108),
]


def spy(frames: Frames, *, pid: int = 4242, command: str = "python -u train.py", native: bool = False) -> str:
    lines = [
        f"Process {pid}: {command}",
        "Python v3.11.9 (/usr/bin/python3.11)",
        "",
        f'Thread {pid} (active): "MainThread"',
    ]
    if native:
        lines += ["    0x7f31c02d (libcuda.so.550.54)", "    cuStreamSynchronize (libcuda.so.550.54)"]
    lines += [f"    {function} ({file}:{line})" for function, file, line in frames]
    lines += [f'Thread {pid + 1} (idle): "Thread-1"', "    wait (threading.py:320)", "    run (threading.py:982)"]
    return "\n".join(lines) + "\n"


def spy_json(frames: Frames, *, pid: int = 4242) -> str:
    threads = [
        {"pid": pid, "thread_id": 1, "thread_name": name, "os_thread_id": pid, "active": True, "owns_gil": False,
         "frames": [{"name": function, "filename": f"/opt/venv/lib/{file}", "module": None, "short_filename": file,
                     "line": line, "locals": None} for function, file, line in each],
         "process_info": {"pid": pid, "command_line": "python -u train.py", "parent": None}}
        for name, each in (("Thread-1", [("run", "threading.py", 1)]), ("MainThread", frames))
    ]  # fmt: skip
    return json.dumps(threads, indent=2)


def handler(frames: Frames) -> str:
    lines = ["Timeout (0:10:00)!", "Thread 0x00007f20a1fff640 (most recent call first):"]
    lines += [
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait',
        "",
        "Thread 0x00007f21b2c74740 (most recent call first):",
    ]
    lines += [f'  File "/srv/{file}", line {line} in {function}' for function, file, line in frames]
    return "\n".join(lines) + "\n"


def traceback(frames: Frames) -> str:
    lines = ["Traceback (most recent call last):"]
    for function, file, line in reversed(frames):
        lines += [f'  File "/srv/{file}", line {line}, in {function}', "    something()"]
    return "\n".join([*lines, "KeyboardInterrupt"]) + "\n"


def stacks(texts: dict[int, str]) -> list[Stack]:
    return [
        stack
        for rank, text in texts.items()
        for stack in read_stacks(TraceFile(name=f"pyspy-rank{rank}.txt", data=text.encode()))
    ]


def signs(odd: Frames, usual: Frames, *, at: int = 5, ranks: int = 8) -> tuple[TraceSign, ...]:
    return signs_of_stacks(stacks({rank: spy(odd if rank == at else usual) for rank in range(ranks)}))


@pytest.mark.parametrize("rank", range(8))
@pytest.mark.parametrize("form", [spy, spy_json, handler, traceback])
def test_the_one_rank_that_stands_elsewhere_is_named_in_every_form(rank: int, form: object) -> None:
    assert callable(form)
    (sign,) = signs_of_stacks(stacks({each: form(LOADING if each == rank else REDUCE) for each in range(8)}))
    assert (sign.kind, sign.ranks) == (SignKind.STACK_MINORITY, (rank,))
    assert sign.confidence >= 0.7
    assert sign.margin == 6
    assert "loading data" in sign.because


@pytest.mark.parametrize("usual", [REDUCE, BARRIER, BACKWARD])
def test_ranks_that_all_wait_are_not_to_blame(usual: Frames) -> None:
    (sign,) = signs(usual, usual)
    assert (sign.kind, sign.ranks) == (SignKind.STACK_ALL_WAITING, ())


def test_a_rank_that_saves_alone_may_be_meant_to() -> None:
    (sign,) = signs(SAVING, BARRIER, at=0)
    assert (sign.kind, sign.ranks) == (SignKind.STACK_MINORITY, (0,))
    assert sign.confidence <= 0.3
    assert "as the program means it to" in sign.because
    (other,) = signs(SAVING, BARRIER, at=3)
    assert sign.confidence < other.confidence < 0.5


def test_own_code_of_one_rank_is_a_minority() -> None:
    (sign,) = signs(OWN, REDUCE)
    assert sign.kind is SignKind.STACK_MINORITY
    assert "scrub (own/filters.py:12)" in sign.because


def test_stages_of_a_pipeline_that_wait_in_different_places_are_victims() -> None:
    recv: Frames = [("irecv", "torch/distributed/distributed_c10d.py", 2200), *OUTER]
    send: Frames = [("isend", "torch/distributed/distributed_c10d.py", 2100), *OUTER]
    texts = {rank: spy((REDUCE, recv, send, BARRIER)[rank % 4]) for rank in range(16)}
    (sign,) = signs_of_stacks(stacks(texts))
    assert (sign.kind, sign.ranks) == (SignKind.STACK_ALL_WAITING, ())
    (odd,) = signs_of_stacks(stacks(texts | {9: spy(LOADING)}))
    assert (odd.kind, odd.ranks) == (SignKind.STACK_MINORITY, (9,))


def test_two_waiting_places_hint_at_the_order_of_calls() -> None:
    (sign,) = signs(BARRIER, REDUCE)
    assert sign.kind is SignKind.STACK_MINORITY
    assert sign.confidence < 0.5
    assert "different orders" in sign.because


def test_other_lines_of_the_same_functions_are_a_weak_minority() -> None:
    moved = [("train", "pretrain.py", 355), *OUTER[1:]]
    (sign,) = signs([*REDUCE[:3], *moved], REDUCE)
    assert (sign.kind, sign.ranks) == (SignKind.STACK_MINORITY, (5,))
    assert sign.confidence <= 0.3


def test_two_processes_have_no_majority() -> None:
    for first, second in ((REDUCE, BARRIER), (LOADING, OWN), (REDUCE, REDUCE)):
        (sign,) = signs(first, second, at=1, ranks=2)
        assert sign.kind is SignKind.STACK_UNDECIDED


def test_of_two_processes_the_one_that_does_not_wait_is_named_with_doubt() -> None:
    (sign,) = signs(LOADING, REDUCE, at=1, ranks=2)
    assert (sign.kind, sign.ranks) == (SignKind.STACK_MINORITY, (1,))
    assert sign.confidence < 0.5
    assert "only 2 processes" in sign.because


def test_half_against_half_is_undecided() -> None:
    (sign,) = signs_of_stacks(stacks({rank: spy(OWN if rank % 2 else LOADING) for rank in range(8)}))
    assert sign.kind is SignKind.STACK_UNDECIDED


def test_helpers_and_native_frames_do_not_count() -> None:
    text = "".join(
        spy(frames, pid=pid, command=command, native=frames is not WORKER) + "\n"
        for pid, frames, command in (
            (100, REDUCE, "python train.py --rank=0"), (101, WORKER, "python"), (102, WORKER, "python"),
            (103, REDUCE, "python train.py --rank 1"), (104, WORKER, "python"),
            (105, LOADING, "python train.py --rank 2"), (106, REDUCE, "python train.py --rank 3"),
        )
    )  # fmt: skip
    (sign,) = signs_of_stacks(read_stacks(TraceFile(name="gpu003.txt", data=text.encode(), node="gpu003")))
    assert (sign.kind, sign.ranks, sign.node) == (SignKind.STACK_MINORITY, (2,), "gpu003")


def test_labels_tell_ranks_apart_in_one_file() -> None:
    lines = [
        f"{rank}: {line}"
        for rank in range(4)
        for line in handler(LOADING if rank == 2 else REDUCE).splitlines()
        if line
    ]
    (sign,) = signs_of_stacks(read_stacks(TraceFile(name="stacks.log", data="\n".join(lines).encode())))
    assert sign.ranks == (2,)


def test_files_that_are_numbered_from_nought_on_are_ranks() -> None:
    texts = [spy(LOADING if rank == 2 else REDUCE, pid=rank + 90) for rank in range(4)]
    files = [TraceFile(name=f"stack_{rank}.txt", data=text.encode()) for rank, text in enumerate(texts)]
    (sign,) = signs_of_stacks([stack for file in files for stack in read_stacks(file)])
    assert sign.ranks == (2,)
    others = [TraceFile(name=f"stack_{rank + 40}.txt", data=text.encode()) for rank, text in enumerate(texts)]
    (sign,) = signs_of_stacks([stack for file in others for stack in read_stacks(file)])
    assert sign.ranks == ()
    assert "Process 92 of stack_42.txt" in sign.because


def test_the_names_of_classes_before_functions_change_nothing() -> None:
    waits: Frames = [("Condition.wait", "threading.py", 331), ("Work.all_reduce", "own/comm.py", 4), *OUTER]
    (sign,) = signs([("Condition.wait", "threading.py", 331), ("Own.scrub", "own/filters.py", 9), *OUTER], waits)
    assert (sign.kind, sign.ranks, sign.op) == (SignKind.STACK_MINORITY, (5,), "Own.scrub")
    assert sign.confidence >= 0.7


@pytest.mark.parametrize("all_threads", [True, False])
def test_what_faulthandler_really_writes_is_read(tmp_path: Path, all_threads: bool) -> None:
    def all_reduce_like() -> None:
        with (tmp_path / "dump.txt").open("w+b") as out:
            faulthandler.dump_traceback(out, all_threads=all_threads)

    all_reduce_like()
    data = (tmp_path / "dump.txt").read_bytes()
    assert looks_like("rank-0.txt", data) is TraceKind.STACKS
    (stack,) = read_stacks(TraceFile(name="faulthandler-0.txt", data=data))
    assert [frame.function for frame in stack.frames[:2]] == [
        "all_reduce_like", "test_what_faulthandler_really_writes_is_read",
    ]  # fmt: skip


def test_what_a_process_is_at_is_told_from_its_innermost_calls() -> None:
    for frames, at in (
        (REDUCE, At.COLLECTIVE), (BARRIER, At.COLLECTIVE), (BACKWARD, At.DEVICE), (LOADING, At.DATA),
        (SAVING, At.SAVE), (OWN, At.OTHER),
    ):  # fmt: skip
        (stack,) = read_stacks(TraceFile(name="x", data=spy(frames).encode()))
        assert at_of(stack) is at, frames


@pytest.mark.parametrize("data", [b"1: \n" * 500_000, b"x" * 40_000_000])
def test_a_text_that_is_too_large_is_refused_before_it_is_read(data: bytes) -> None:
    with pytest.raises(UnreadableTraceError, match="one file for each node"):
        read_stacks(TraceFile(name="x", data=data))


@pytest.mark.parametrize("data", [b"", b"Process 3: python\nPython v3.11\n", b"[]", b"[{}]", b"{}", b'[{"frames": 3}]'])
def test_what_holds_no_stack_is_refused_with_a_remedy(data: bytes) -> None:
    with pytest.raises(UnreadableTraceError, match="py-spy dump"):
        read_stacks(TraceFile(name="x", data=data))
