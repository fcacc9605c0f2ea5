from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.faults import Scope
from relance.domain.findings import Certainty, FindingKind, Sign
from relance.watching.finished import (
    Context,
    ContextError,
    FinishedLog,
    blocks_of,
    cases_of,
    context_of,
    named,
    read_finished,
)
from tests.unit.watching.rooms import PACK, step_line

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
XID = "[88120.110022] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
TRACEBACK = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 1\n[rank3]: KeyError: 'x'"


def log(name: str, *lines: str) -> FinishedLog:
    return named(name, whole("".join(f"{line}\n" for line in lines)))


def whole(text: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [text.encode()]


def steps(first: int, last: int) -> list[str]:
    return [step_line(number, NOW) for number in range(first, last + 1)]


def test_a_log_that_ends_in_a_failure_gives_one_finding_with_its_progress() -> None:
    found = read_finished(
        [log("job.log", *steps(1, 20), TRACEBACK, "srun: error: n2: task 3: Killed")], Context(), PACK, NOW
    )

    (finding,) = found.findings
    assert (finding.kind, finding.certainty) == (FindingKind.CRASH, Certainty.CONFIRMED)
    assert Sign.PROCESS_DEATH in finding.signs
    assert found.progress.step == 20


def test_what_training_went_on_after_gives_no_finding() -> None:
    found = read_finished([log("job.log", *steps(1, 10), TRACEBACK, *steps(11, 20))], Context(), PACK, NOW)

    assert found.findings == ()


def test_a_line_of_one_log_is_not_outlived_by_the_steps_of_another() -> None:
    logs = [log("a-rank-3.log", TRACEBACK), log("job.log", *steps(1, 20)), log("dmesg-n1.log", XID)]

    (finding,) = read_finished(logs, Context(nodes=("n1",)), PACK, NOW).findings

    assert {(hit.rank, hit.node) for hit in finding.hits} >= {(3, None), (None, "n1")}
    assert Sign.KERNEL in finding.signs


def test_the_case_has_all_that_attribution_asks_for() -> None:
    context = Context(nodes=("n1", "n2"), rank_to_node={3: "n2"})
    found = read_finished([log("job.log", TRACEBACK)], context, PACK, NOW)

    (case,) = cases_of(found, context, NOW)

    assert (case.nodes, case.rank_to_node, case.findings) == (("n1", "n2"), {3: "n2"}, found.findings)
    assert [entry.source for entry in case.coverage] == ["job.log"]


@pytest.mark.parametrize(
    ("name", "scope", "node", "rank"),
    [
        ("dmesg-gpu-017.log", Scope.KERNEL, "gpu-017", None),
        ("/var/log/kern.log", Scope.KERNEL, None, None),
        ("console-jz03.log", Scope.KERNEL, "jz03", None),
        ("slurmd-thr05.log", Scope.SCHEDULER, "thr05", None),
        ("controller.log", Scope.SCHEDULER, None, None),
        ("fabricmanager-n1.log", Scope.DEVICE, "n1", None),
        ("logs/rank-12.log", Scope.APPLICATION, None, 12),
        ("worker_3.err", Scope.APPLICATION, None, 3),
        ("slurm-4711.out", Scope.APPLICATION, None, None),
        ("journal-sp2.log", Scope.KERNEL, "sp2", None),
    ],
)
def test_a_files_name_tells_what_kind_of_log_it_is(name: str, scope: Scope, node: str | None, rank: int | None) -> None:
    made = named(name, whole(""))

    assert (made.scope, made.node, made.rank) == (scope, node, rank)


def test_a_context_places_ranks_on_nodes() -> None:
    data = {"nodes": ["n1", "n2"], "rank_to_node": [{"ranks": "0-1", "node": "n1"}, {"ranks": 2, "node": "n2"}]}

    assert context_of(data) == Context(nodes=("n1", "n2"), rank_to_node={0: "n1", 1: "n1", 2: "n2"})
    assert context_of({"rank_to_node": [{"ranks": "run1 0", "node": "n1"}]}).rank_to_node == {}
    with pytest.raises(ContextError, match="nodes"):
        context_of({"nodes": "n1"})
    with pytest.raises(ContextError, match="rank_to_node"):
        context_of({"rank_to_node": [["0", "n1"]]})


@given(
    st.lists(st.sampled_from([b"x", b"line\n", b"bar\r", b"\r\n", b"y" * 30_000, b"z" * 70_000, b"\n"]), max_size=20),
    st.lists(st.integers(1, 60_000), max_size=20),
)
def test_however_a_log_is_cut_its_bytes_come_once_and_in_order(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)

    def chunks() -> Iterable[bytes]:
        begin = 0
        for size in cuts:
            yield data[begin : begin + size]
            begin += size
        yield data[begin:]

    blocks = list(blocks_of(FinishedLog(name="job.log", chunks=chunks), NOW))

    assert b"".join(block.data[block.overlap :] for block in blocks) == data
    for block in blocks:
        assert data[block.offset : block.offset + len(block.data)] == block.data
        assert block.line == data.count(b"\n", 0, block.offset + block.overlap) + 1


def test_a_long_output_of_several_runs_is_not_kept_in_memory() -> None:
    filler = b"nothing to see here, move along\n" * (1 << 15)

    def chunks() -> Iterable[bytes]:
        for number in range(1, 3):
            yield f"===== run {number} =====\n".encode()
            yield from (filler for _ in range(12))

    tracemalloc.start()
    try:
        found = read_finished([FinishedLog(name="job.log", chunks=chunks)], Context(), PACK, NOW)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found.runs) == 2
    assert most < 10 * len(filler)


def minutes(count: int, text: str) -> list[str]:
    return [f"[{(NOW + timedelta(minutes=at)).isoformat()}] {text} {at}" for at in range(1, count)]


@pytest.mark.parametrize("text", ["evaluating batch", "indexed documents", "upload is tried again"])
def test_a_program_that_goes_on_writing_does_not_stand_still(text: str) -> None:
    read_at = NOW + timedelta(days=1)
    found = read_finished([log("job.log", *steps(1, 20), *minutes(40, text))], Context(), PACK, read_at)

    (case,) = cases_of(found, Context(), read_at)

    assert case.findings == ()


@pytest.mark.parametrize(
    ("name", "text"), [("monitor.log", "load of the node"), ("slurmctld.log", "step 7 of JobId=9")]
)
def test_what_is_told_of_others_makes_no_program_stand_still(name: str, text: str) -> None:
    read_at, others = NOW + timedelta(days=1), log(name, *minutes(40, text))

    found = read_finished([log("job.log", *steps(1, 20)), others], Context(), PACK, read_at)
    (case,) = cases_of(found, Context(), read_at)

    assert case.findings == ()


def test_a_program_that_is_silent_while_others_tell_of_it_stands_still() -> None:
    read_at, others = NOW + timedelta(days=1), log("agent.log", *minutes(40, "all processes alive"))

    found = read_finished([log("job.log", *steps(1, 20)), others], Context(), PACK, read_at)
    (case,) = cases_of(found, Context(), read_at)

    assert [(each.kind, each.symptom) for each in case.findings] == [(FindingKind.HANG, "hang_no_progress")]
