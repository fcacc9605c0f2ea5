from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from relance.domain.encoding import decode, encode
from relance.domain.faults import Scope
from relance.rules.scanning import MOST_HITS_OF_A_RULE, Scanner, ScanState
from tests.unit.rules.packs import READ_AT, block, hits, pack, packaged, rule, scan, scan_pieces


def test_a_hit_has_all_that_attribution_needs() -> None:
    text = b"fine\nsrun: error: cn07: task 3: Killed\n"
    (hit,) = scan(text, offset=100, line=11).hits
    assert (hit.rule, hit.symptom, hit.rank, hit.node, hit.line, hit.offset) == (
        "srun-task-killed",
        "task_killed",
        3,
        None,
        12,
        105,
    )
    assert hit.captures == {"node": "cn07", "task": "3", "signal": "Killed"}
    assert (hit.excerpt, hit.file, hit.seen_at, hit.at) == (
        "srun: error: cn07: task 3: Killed",
        "job.log",
        READ_AT,
        None,
    )


def test_node_and_rank_of_the_block_outrank_the_text() -> None:
    (hit,) = scan(b"3: RuntimeError: CUDA error: misaligned address\n", node="cn01", rank=40).hits
    assert (hit.node, hit.rank, hit.captures["task"]) == ("cn01", 40, "3")


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (b"12: KeyError: 'x'", 12),
        (b"[rank3]: KeyError: 'x'", 3),
        (b"2: [rank19]: KeyError: 'x'", 19),
        (b"[1,9]<stderr>:KeyError: 'x'", 9),
        (b"[5]: KeyError: 'x'", 5),
        (b"KeyError: 'x'", None),
        (b"2: AssertionError: Rank 21: found NaN in local grad norm for bucket #0. Device: 5, node: cn02", 21),
        (b"srun: error: cn07: tasks 3-5: Killed", None),
    ],
)
def test_the_rank_comes_from_label_or_line(line: bytes, rank: int | None) -> None:
    assert [hit.rank for hit in scan(line + b"\n").hits] == [rank]


def test_the_lines_own_time_is_read_and_the_kernels_uptime_is_not() -> None:
    zone = timezone(timedelta(hours=2))
    (hit,) = (
        Scanner(packaged(), zone=zone).scan(block(b"2026-05-02 11:12:00,500 ERROR GPU is lost\n"), ScanState())[1].hits
    )
    assert hit.at == datetime(2026, 5, 2, 9, 12, 0, 500000, UTC)
    (hit,) = scan(
        b"[ 12.7] NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\n", scope=Scope.KERNEL
    ).hits
    assert (hit.at, hit.device, hit.captures["xid"]) == (None, "0000:18:00", "79")


def test_an_xid_in_an_applications_log_is_only_text() -> None:
    line = b"NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert scan(line).counts == {}
    assert set(scan(line, scope=Scope.KERNEL).counts) == {"xid-79"}


def test_ncclss_prefix_gives_a_host_in_the_captures_but_never_the_node() -> None:
    (hit,) = scan(b"4: cn07:2210:2277 [6] net_ib.cc:98 NCCL WARN NET/IB : mlx5_2:1 async fatal event: X\n").hits
    assert (hit.node, hit.rank, hit.device) == (None, 4, "gpu6")
    assert hit.captures["host"] == "cn07"


def test_colours_carriage_returns_and_nuls_do_not_hide_a_line() -> None:
    text = (
        b"\x1b[31msrun: error: \x1b[1mcn07\x1b[0m: task 3: Killed\x1b[0m\r\n 10%|#\r 20%|##\r[rank1]: GPU is lost\n"
        b"\0\0\0\0GPU is lost\n"
    )
    result = scan(text)
    assert result.counts == {"srun-task-killed": 1, "gpu-lost": 2}
    assert [(hit.line, text[hit.offset :][:8]) for hit in result.hits] == [
        (1, b"\x1b[31msrun"[:8]),
        (2, b"[rank1]:"),
        (3, b"\0\0\0\0GPU "),
    ]
    assert result.hits[0].excerpt == "srun: error: cn07: task 3: Killed"


def test_invalid_utf_8_is_shown_replaced() -> None:
    (hit,) = scan(b"[rank1]: KeyError: '\xe9'\n").hits
    assert hit.captures["message"] == "'\ufffd'"
    assert "KeyError" in hit.excerpt


def test_a_storm_gives_the_first_hit_of_each_rank_and_counts_the_rest() -> None:
    lines = b"".join(b"[rank%d]: ncclRemoteError: gone\n" % (at % 4) for at in range(100_000))
    result = scan(lines)
    assert [hit.rank for hit in result.hits] == [0, 1, 2, 3]
    assert [hit.line for hit in result.hits] == [1, 2, 3, 4]
    assert result.counts == {"nccl-remote-error": 100_000}
    assert result.left_out == {"nccl-remote-error": 99_996}


def test_a_storm_of_different_lines_is_bounded_too() -> None:
    lines = b"".join(b"srun: error: cn%d: task %d: Killed\n" % (at, at) for at in range(2000))
    result = scan(lines)
    assert len(result.hits) == MOST_HITS_OF_A_RULE
    assert result.counts == {"srun-task-killed": 2000}


def test_tasks_of_one_rule_are_told_apart() -> None:
    result = scan(b"".join(b"srun: error: cn07: task %d: Terminated\n" % task for task in (3, 4, 3, 3)))
    assert [hit.captures["task"] for hit in result.hits] == ["3", "4"]


def test_of_what_can_name_a_cause_the_last_hit_is_kept_too_because_the_first_may_have_been_caught() -> None:
    lines = [b"[rank1]: KeyError: 'caught'\n", *[b"[rank1]: KeyError: 'again'\n"] * 5, b"[rank1]: KeyError: 'fatal'\n"]
    result = scan(b"".join(lines))
    assert [hit.captures["message"] for hit in result.hits] == ["'caught'", "'fatal'"]
    assert [hit.line for hit in result.hits] == [1, 7]
    assert result.counts == {"python-lookup": 7}


def test_a_fallback_steps_back_before_any_other_rule_of_the_line() -> None:
    rules = pack(
        rule("any", "valve", fallback=True), rule("stuck", "stuck"), rule("heavy", "valve", fallback=True, weight=0.9)
    )
    assert scan(b"valve stuck\n", rules).counts == {"stuck": 1}
    assert scan(b"valve open\n", rules).counts == {"heavy": 1}


def test_several_rules_may_hit_one_line() -> None:
    line = b"Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure\n"
    assert set(scan(line).counts) == {"nccl-watchdog-exception", "nccl-watchdog-cuda-error"}


def test_a_line_in_overlapping_pieces_is_reported_once() -> None:
    line = (
        b"[rank7]: "
        + b"x" * 3000
        + b" GPU is lost "
        + b"y" * 3000
        + b" ncclRemoteError "
        + b"GPU is lost"
        + b"z" * 900
        + b"\n"
    )
    whole = hits(scan_pieces([line]))
    for size in (600, 1000, 2500):
        pieces = [line[max(0, at - 200) : at + size] for at in range(0, len(line), size)]
        found = scan_pieces(pieces, overlap=200)
        assert [(hit.rule, hit.rank) for hit in hits(found)] == [("gpu-lost", 7), ("nccl-remote-error", 7)]
        assert sum(result.counts["gpu-lost"] for result in found if result.counts.get("gpu-lost")) == 1
    assert {hit.rule for hit in whole} == {"gpu-lost", "nccl-remote-error"}


def test_the_cut_of_a_long_line_is_no_beginning_of_a_line() -> None:
    rules = Scanner(pack(rule("begins", "^needle")))
    state, _ = rules.scan(block(b"x" * 500), ScanState())
    assert rules.scan(block(b"needle" + b"x" * 500 + b"\n", 494, overlap=6), state)[1].counts == {}
    assert scan(b"needle in a line of its own\n", pack(rule("begins", "^needle"))).counts == {"begins": 1}


def test_a_megabyte_in_one_line_is_scanned_and_its_excerpt_stays_short_and_shows_the_match() -> None:
    line = b"{" + b'"k": 1, ' * 125_000 + b"} GPU is lost after all\n"
    (hit,) = scan(line).hits
    assert "GPU is lost" in hit.excerpt
    assert len(hit.excerpt) <= 2048


def test_excerpts_and_captures_are_masked() -> None:
    line = b"[rank0]: RuntimeError: cannot open https://bob:hunter2@store.example/x, token=abcdef123 password='pa ss'\n"
    (hit,) = scan(line).hits
    shown = hit.excerpt + " ".join(hit.captures.values())
    assert "[masked]" in hit.excerpt
    assert "[masked]" in hit.captures["message"]
    assert all(secret not in shown for secret in ("hunter2", "abcdef123", "pa ss"))


def test_a_secret_at_the_edge_of_a_long_excerpt_does_not_show_in_part() -> None:
    for begin in range(2000, 2060, 7):
        line = b"x" * begin + b" password=hunter2hunter2hunter2 GPU is lost\n"
        (hit,) = scan(line).hits
        assert "hunter" not in hit.excerpt


def test_a_failure_table_gives_rank_host_and_time_of_a_process() -> None:
    text = (
        b"Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-02_11:12:09\n  host      : cn07\n"
        b"  rank      : 58 (local_rank: 2)\n  exitcode  : -9 (pid: 33012)\n  error_file: <N/A>\n"
    )
    for cut in [0, *[at + 1 for at, byte in enumerate(text) if byte == 10]]:
        (hit,) = hits(scan_pieces([piece for piece in (text[:cut], text[cut:]) if piece]))
        assert (hit.rule, hit.rank, hit.at) == ("elastic-exit-killed", 58, datetime(2026, 5, 2, 11, 12, 9, 0, UTC))
        assert (hit.captures["host"], hit.captures["local_rank"], hit.captures["pid"]) == ("cn07", "2", "33012")


def test_a_table_of_one_process_is_not_read_into_the_next() -> None:
    text = b"  host      : cn07\n  rank      : 58 (local_rank: 2)\n  other line\n  exitcode  : -9 (pid: 33012)\n"
    (hit,) = scan(text).hits
    assert "host" not in hit.captures


def test_the_state_is_small_plain_and_survives_writing_down() -> None:
    using = Scanner(packaged())
    state, _ = using.scan(block(b"fine\n"), ScanState())
    assert state == ScanState()
    text = b"".join(
        b'[rank%d]: Traceback (most recent call last):\n[rank%d]:   File "/a.py", line 1, in f\n' % (at, at)
        for at in range(500)
    )
    state, _ = using.scan(block(text), ScanState())
    written = json.dumps(encode(state))
    assert decode(ScanState, json.loads(written)) == state
    assert len(written) < 64 * 1024


def test_states_of_two_files_do_not_mix_and_a_gap_forgets() -> None:
    using = Scanner(packaged())
    open_text = b'Traceback (most recent call last):\n  File "/repo/a.py", line 7, in f\n'
    state, _ = using.scan(block(open_text, file="a.log"), ScanState())
    state, _ = using.scan(block(b"fine\n", file="b.log"), state)
    assert [each.file for each in state.files] == ["a.log"]
    _, followed = using.scan(block(b"KeyError: 'x'\n", len(open_text), file="a.log"), state)
    assert followed.hits[0].captures["frame"] == "/repo/a.py:7 in f"
    _, after_gap = using.scan(block(b"KeyError: 'x'\n", len(open_text) + 10, file="a.log"), state)
    assert "frame" not in after_gap.hits[0].captures


def test_a_rule_of_the_scheduler_counts_where_srun_writes() -> None:
    line = b"srun: error: Node failure on cn07\n"
    counts = [scan(line, scope=scope).counts for scope in (Scope.APPLICATION, Scope.SCHEDULER, Scope.KERNEL)]
    assert counts == [{"srun-node-failed": 1}, {"srun-node-failed": 1}, {}]
