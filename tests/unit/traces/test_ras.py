from __future__ import annotations

import json
from typing import Any

import pytest

from relance.traces.ras import read_ras_json
from relance.traces.ras_signs import rank_hosts_of, signs_of_answers
from relance.traces.ras_text import read_ras_text
from relance.traces.signs import SignKind, TraceSign, UnreadableTraceError

HEADER = """NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""


def row(errors: str, *, group: int = 0, size: int = 8) -> str:
    return f"{group:5}  {1:8}  {2:8}  {4:>8}  {size:8}  {8:8}  {'RUNNING':>8}  {errors:>6}\n"


def place(rank: int) -> str:
    return f"GPU {rank % 4} managed by process {4000 + rank} on node 10.4.0.{1 + rank // 4}"


def mismatch(*, high: int = 77, op: str = "AllReduce") -> str:
    return (
        f"{HEADER}{row('MISMATCH')}\nErrors\n======\n\nWarnings\n========\n\n#0-0 (7bd3cd901b4f1a75) MISMATCH\n"
        f"  Communicator ranks have different {op} operation counts\n  7 ranks have launched up to operation {high}\n"
        f"  Rank 5 has launched up to operation {high - 3} -- {place(5)}\n"
    )


def text_signs(*texts: str) -> tuple[TraceSign, ...]:
    return signs_of_answers(
        [answer for at, text in enumerate(texts) for answer in read_ras_text(text.encode(), f"ras-{at}.txt")]
    )


def world(**changes: str) -> dict[str, Any]:
    """An answer of JSON: two hosts, eight ranks, one communicator over all."""
    ranks = [
        {"rank": rank, "host": f"10.4.0.{1 + rank // 4}", "pid": 4000 + rank,
         "cuda_dev": rank % 4, "nvml_dev": rank % 4,
         "status": {"init_state": 0, "async_error": 0, "abort_flag": False},
         "collective_counts": {"AllReduce": 900, "AllGather": 40}}
        for rank in range(8)
    ]  # fmt: skip
    return {
        "nccl_version": "2.28.9", "timestamp": changes.get("timestamp", "2026-03-04 05:06:07"),
        "communicators": [
            {"hash": "0xab", "secondary_hash": "0x1:0x2", "size": 8, "ranks_count": 8, "missing_ranks_count": 0,
             "ranks": ranks, "missing_ranks": []}
        ],
    }  # fmt: skip


def lose(answer: dict[str, Any], rank: int, **status: bool) -> dict[str, Any]:
    comm = answer["communicators"][0]
    gone = comm["ranks"].pop(rank)
    gone["status"] = {"unresponsive": True, "considered_dead": False} | status
    comm["missing_ranks"].append(gone)
    comm["missing_ranks_count"] = 1
    return answer


def json_signs(*answers: dict[str, Any]) -> tuple[TraceSign, ...]:
    return signs_of_answers(
        read_ras_json("\n".join(json.dumps(each, indent=1) for each in answers).encode(), "ras.json")
    )


def test_a_job_at_work_says_nothing() -> None:
    assert text_signs(f"{HEADER}{row('OK')}\nErrors\n======\n\nWarnings\n========\n\n") == ()
    assert json_signs(world()) == ()


def test_a_process_without_an_answer_is_its_rank_host_and_gpu() -> None:
    text = (
        f"{HEADER}{row('INCOMPLETE')}\nErrors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n"
        "  Process 4006 on node 10.4.0.2 managing GPU 2\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
        f"  Missing communicator data from 1 rank\n  Rank 6 -- {place(6)}\n\nWarnings\n========\n\n"
        "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"
    )
    (sign,) = text_signs(text)
    assert (sign.kind, sign.ranks, sign.host, sign.gpu) == (SignKind.RAS_RANK_UNRESPONSIVE, (6,), "10.4.0.2", 2)


def test_a_process_that_is_considered_dead_is_so_in_old_and_new_texts() -> None:
    dead = (
        "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
        "  Process 4006 on node 10.4.0.2 managing GPU 2\n\n"
    )
    comm = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    for rank_line in ("  The missing rank: 6\n", f"  Rank 6 -- {place(6)}\n"):
        (sign,) = text_signs(f"{HEADER}{row('INCOMPLETE')}\nErrors\n======\n\n{dead}{comm}{rank_line}\n")
        assert (sign.kind, sign.ranks) == (SignKind.RAS_RANK_DEAD, (6,))
        assert sign.confidence > 0.8


@pytest.mark.parametrize("rank", range(8))
def test_json_names_missing_ranks(rank: int) -> None:
    (silent,) = json_signs(lose(world(), rank))
    assert (silent.kind, silent.ranks, silent.gpu) == (SignKind.RAS_RANK_UNRESPONSIVE, (rank,), rank % 4)
    (dead,) = json_signs(lose(world(), rank, considered_dead=True))
    assert (dead.kind, dead.ranks, dead.host) == (SignKind.RAS_RANK_DEAD, (rank,), f"10.4.0.{1 + rank // 4}")
    assert dead.at is not None


def test_a_rank_that_stays_silent_is_surer() -> None:
    once = json_signs(lose(world(), 3))[0]
    twice = json_signs(lose(world(), 3), lose(world(timestamp="2026-03-04 05:07:07"), 3))[0]
    assert twice.confidence > once.confidence


def test_counts_that_differ_once_are_a_skew_and_blame_nobody() -> None:
    (sign,) = text_signs(mismatch())
    assert (sign.kind, sign.ranks) == (SignKind.RAS_SKEW, ())
    (sign,) = text_signs(mismatch(), mismatch(high=90))
    assert sign.kind is SignKind.RAS_SKEW


def test_a_skew_is_over_once_a_later_answer_shows_all_well() -> None:
    well = f"{row('OK')}\nErrors\n======\n\nWarnings\n========\n"
    assert text_signs(mismatch(), HEADER + well) == ()
    assert text_signs(mismatch(), mismatch(), HEADER[HEADER.index("Communicators") :] + well) == ()


def test_a_host_of_which_all_processes_are_dead_is_one_sign() -> None:
    gone = "".join(f"  Process {4000 + rank} on node 10.4.0.2 managing GPU {rank - 4}\n" for rank in range(4, 8))
    text = (
        f"{HEADER}{row('INCOMPLETE,MISMATCH')}\nErrors\n======\n\nDEAD\n"
        f"  4 job processes are considered dead (unreachable via the RAS network)\n{gone}\nWarnings\n========\n"
    )
    (sign,) = text_signs(text)
    assert (sign.kind, sign.ranks, sign.host, sign.gpu) == (SignKind.RAS_RANK_DEAD, (), "10.4.0.2", None)
    assert "4 processes on 10.4.0.2" in sign.because


def test_counts_that_stay_different_name_the_rank_with_the_fewest() -> None:
    for texts in ((mismatch(), mismatch()), (mismatch() + mismatch(),), (mismatch(high=60), mismatch(), mismatch())):
        (sign,) = text_signs(*texts)
        assert (sign.kind, sign.ranks, sign.margin) == (SignKind.RAS_COLLECTIVE_STUCK, (5,), 3)
        assert (sign.host, sign.gpu) == ("10.4.0.2", 1)
        assert sign.confidence >= 0.75


@pytest.mark.parametrize("rank", range(8))
def test_json_counts_that_stay_different_name_the_rank_with_the_fewest(rank: int) -> None:
    answers = [world(), world(timestamp="2026-03-04 05:07:07")]
    for answer in answers:
        answer["communicators"][0]["ranks"][rank]["collective_counts"]["AllReduce"] = 899
    (sign,) = json_signs(*answers)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_COLLECTIVE_STUCK, (rank,))


def test_most_ranks_behind_a_few_are_not_blamed() -> None:
    answers = [world(), world()]
    for answer in answers:
        answer["communicators"][0]["ranks"][0]["collective_counts"]["AllReduce"] = 901
    (sign,) = json_signs(*answers)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_COLLECTIVE_STUCK, ())
    assert sign.confidence <= 0.3


def test_errors_at_first_hand_outrank_those_of_the_other_ends() -> None:
    answer = world()
    for rank, code in ((1, 6), (2, 6), (4, 1)):
        answer["communicators"][0]["ranks"][rank]["status"]["async_error"] = code
    (sign,) = json_signs(answer)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_ASYNC_ERROR, (4,))
    assert "unhandled CUDA error" in sign.because


def test_errors_in_text_are_read() -> None:
    text = (
        f"{HEADER}{row('ERROR')}\nErrors\n======\n\n#0-0 (cf264af53edbe986) ERROR\n  Asynchronous errors on 3 ranks\n"
        f"  2 ranks reported remote error\n  Rank 0 -- {place(0)}\n  Rank 1 -- {place(1)}\n"
        f"  Rank 7 reported internal error -- {place(7)}\n\nWarnings\n========\n"
    )
    (sign,) = text_signs(text)
    assert (sign.kind, sign.ranks, sign.host) == (SignKind.RAS_ASYNC_ERROR, (7,), "10.4.0.2")


def test_an_aborted_job_blames_nobody() -> None:
    answer = world()
    for rank in answer["communicators"][0]["ranks"]:
        rank["status"]["abort_flag"] = True
    (sign,) = json_signs(answer)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_ASYNC_ERROR, ())


def test_data_that_is_missing_without_a_name_is_a_blind_spot() -> None:
    text = (
        f"{HEADER}{row('INCOMPLETE')}\nErrors\n======\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 4 ranks\n\nWarnings\n========\n"
    )
    (sign,) = text_signs(text)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_PARTIAL, ())


def test_a_rank_of_a_small_communicator_is_not_taken_for_a_rank_of_the_job() -> None:
    answer = world()
    ranks = answer["communicators"][0]["ranks"]
    small = {
        "hash": "0xcd", "secondary_hash": "0x3:0x4", "size": 2, "ranks": [dict(ranks[4], rank=0)],
        "missing_ranks": [dict(ranks[7], rank=1, status={"considered_dead": True})], "missing_ranks_count": 1,
    }  # fmt: skip
    answer["communicators"].append(small)
    (sign,) = json_signs(answer)
    assert (sign.kind, sign.ranks) == (SignKind.RAS_RANK_DEAD, (7,))


def test_the_monitor_tells_of_lost_processes_and_of_those_that_came_back() -> None:
    lines = (
        "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n"
        "================================================================\n"
        "[2026-03-04 05:06:07] PEER_UNRESPONSIVE: Process 4001 on node 10.4.0.1 managing GPU 1\n"
        "[2026-03-04 05:06:09] PEER_RECOVERED: Process 4001 on node 10.4.0.1 managing GPU 1\n"
        "[2026-03-04 05:07:07] PEER_DEAD: Process 4006 on node 10.4.0.2 managing GPU 2\n"
    )
    (sign,) = text_signs(lines)
    assert (sign.kind, sign.host, sign.gpu) == (SignKind.RAS_RANK_DEAD, "10.4.0.2", 2)
    assert sign.at is not None


def test_ranks_hosts_and_gpus_are_facts_of_their_own() -> None:
    found = rank_hosts_of(read_ras_json(json.dumps(world()).encode(), "ras.json"))
    assert [(each.rank, each.host, each.gpu) for each in found] == [
        (r, f"10.4.0.{1 + r // 4}", r % 4) for r in range(8)
    ]


@pytest.mark.parametrize("data", [b"", b"hello\n", b"{}", b"[1, 2]", b'{"communicators": '])
def test_what_is_no_answer_is_refused_with_a_remedy(data: bytes) -> None:
    for read in (read_ras_json, read_ras_text):
        with pytest.raises(UnreadableTraceError, match=r"\. \S"):
            read(data, "x")


def test_odd_shapes_are_passed_over() -> None:
    odd = {"communicators": [3, {"ranks": {"a": 1}, "missing_ranks": [None, {"rank": -1}], "size": "8"}, {}]}
    assert signs_of_answers(read_ras_json(json.dumps(odd).encode(), "x")) == ()
