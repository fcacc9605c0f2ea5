from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from relance.traces.dumps import read_dump
from relance.traces.recorder import signs_of_dumps
from relance.traces.signs import SignKind, TraceFile, TraceSign
from tests.unit.traces.worlds import GROUPS, WORLD, Fault, Run, file, group_of, programme

RANKS = range(WORLD)
PLACES = (9, 12, 17)
"""Operations of the second step at which faults begin; of a rank of each stage some are sends, some collectives."""


def signs(files: list[TraceFile]) -> tuple[TraceSign, ...]:
    return signs_of_dumps([read_dump(each) for each in files])


def kinds(found: tuple[TraceSign, ...]) -> set[SignKind]:
    return {sign.kind for sign in found}


def collective(rank: int, at: int) -> int:
    """The first place from `at` on where the rank calls a collective."""
    return next(place for place in range(at, 99) if " " not in programme(rank)[place][1])


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("form", ["torch", "python", "json", "old"])
def test_a_rank_that_stops_calling_comes_first_whichever_it_is(rank: int, form: str) -> None:
    for at in PLACES if form == "torch" else PLACES[:1]:
        found = signs(Run(Fault(stops={rank: at})).files(form=form, only_active=form != "old"))
        assert (found[0].kind, found[0].ranks) == (SignKind.FR_IDLE_RANK, (rank,)), (at, found)
        assert found[0].confidence >= 0.85
        assert SignKind.FR_LAGGARD not in kinds(found)


@pytest.mark.parametrize("rank", RANKS)
def test_a_rank_that_did_not_join_is_named_with_the_collective_that_waits_for_it(rank: int) -> None:
    at = collective(rank, 9)
    found = signs(Run(Fault(stops={rank: at})).files())
    missing = next(sign for sign in found if sign.kind is SignKind.FR_MISSING_RANK)
    group, op = programme(rank)[at]
    assert (missing.ranks, missing.group, missing.op) == ((rank,), group, op)
    assert missing.at is not None


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("only_active", [True, False])
def test_a_rank_whose_gpu_died_comes_first_whichever_it_is(rank: int, only_active: bool) -> None:
    for at in PLACES:
        found = signs(Run(Fault(dies={rank: collective(rank, at)})).files(only_active=only_active))
        assert (found[0].kind, found[0].ranks) == (SignKind.FR_LAGGARD, (rank,)), (at, found)
        assert found[0].margin is not None
        assert found[0].margin >= 1


@pytest.mark.parametrize("rank", RANKS)
def test_a_rank_that_left_no_dump_is_told_apart_from_one_that_is_idle(rank: int) -> None:
    found = signs(Run(Fault(stops={rank: 10})).files(without=(rank,)))
    assert (found[0].kind, found[0].ranks) == (SignKind.FR_NO_DUMP, (rank,))
    assert SignKind.FR_IDLE_RANK not in kinds(found)


@pytest.mark.parametrize("rank", RANKS)
def test_a_rank_that_calls_another_operation_proves_a_fault_of_the_program_and_blames_no_node(rank: int) -> None:
    at = next(at for at in range(9, 20) if len(GROUPS[programme(rank)[at][0]][1]) > 2 and at == collective(rank, at))
    group, _ = programme(rank)[at]
    found = signs(Run(Fault(swaps={rank: (at, (group, "broadcast"))})).files())
    assert found[0].kind is SignKind.FR_COLLECTIVE_MISMATCH
    assert found[0].ranks == (rank,)
    assert found[0].group == group
    assert not kinds(found) & {SignKind.FR_TRANSPORT_STALL, SignKind.FR_IDLE_RANK, SignKind.FR_LAGGARD}


def test_two_ranks_that_differ_have_no_majority() -> None:
    at = next(at for at, (group, _) in enumerate(programme(3)) if group == group_of(3, "DATA_PARALLEL_GROUP"))
    found = signs(Run(Fault(swaps={3: (at, (group_of(3, "DATA_PARALLEL_GROUP"), "broadcast"))})).files())
    assert found[0].kind is SignKind.FR_COLLECTIVE_MISMATCH
    assert found[0].ranks == ()


@pytest.mark.parametrize("name", [name for name, (about, _) in GROUPS.items() if "PIPELINE" not in about])
def test_a_collective_that_all_joined_blames_nobody(name: str) -> None:
    found = signs(Run(Fault(stalls=(name, 2))).files())
    assert found[0].kind is SignKind.FR_TRANSPORT_STALL
    assert found[0].ranks == ()
    assert found[0].group == name
    assert not kinds(found) & {SignKind.FR_IDLE_RANK, SignKind.FR_LAGGARD, SignKind.FR_MISSING_RANK}


def test_a_gpu_that_has_not_begun_is_named_where_the_recorder_sees_starts() -> None:
    run = Run(Fault(stalls=("0", 2)))
    files = [
        *(each for rank in RANKS if rank != 6 for each in run.files(started=True)[rank : rank + 1]),
        run.files()[6],
    ]
    found = signs(files)
    assert (found[0].kind, found[0].ranks) == (SignKind.FR_GPU_STALL, (6,))


@pytest.mark.parametrize("rank", RANKS)
def test_counters_alone_name_the_rank_that_stopped(rank: int) -> None:
    run = Run(Fault(stops={rank: collective(rank, 9)}))
    found = signs([file(each, run.dump(each) | {"entries": []}) for each in RANKS])
    assert (found[0].kind, found[0].ranks) == (SignKind.FR_IDLE_RANK, (rank,))


@pytest.mark.parametrize("rank", RANKS)
def test_counters_of_a_pipeline_are_not_compared(rank: int) -> None:
    run = Run(Fault(dies={rank: collective(rank, 9)}))
    dumps = {each: run.dump(each) for each in RANKS}
    for each, dump in dumps.items():
        dump["entries"] = [entry for entry in dump["entries"] if not entry["is_p2p"]]
        pipe = dump["pg_status"].get("3")
        if each < 8 and pipe is not None:
            dump["pg_status"]["3"] = dict.fromkeys(pipe, 500)
    found = signs([file(each, dump) for each, dump in dumps.items()])
    assert (found[0].kind, found[0].ranks) == (SignKind.FR_LAGGARD, (rank,))


@pytest.mark.parametrize("pair", [(0, 5), (9, 14), (10, 15)])
def test_two_culprits_are_both_named(pair: tuple[int, int]) -> None:
    found = signs(Run(Fault(stops=dict.fromkeys(pair, 10))).files())
    assert found[0].kind is SignKind.FR_IDLE_RANK
    assert set(found[0].ranks) <= set(pair)
    assert found[0].ranks


def test_a_job_in_which_nobody_waits_says_nothing() -> None:
    assert signs(Run(Fault()).files()) == ()
    assert signs(Run(Fault()).files(only_active=False)) == ()


def test_a_sign_names_the_dump_of_its_rank_and_the_node_that_its_path_tells() -> None:
    files = [replace(each, node=f"cn{at // 8}") for at, each in enumerate(Run(Fault(stops={9: 10})).files())]
    found = signs(files)[0]
    assert (found.file, found.node) == ("nccl_trace_rank_9", "cn1")


def test_the_order_of_the_files_makes_no_difference() -> None:
    files = Run(Fault(dies={5: 12})).files()
    assert signs(files) == signs(files[::-1])


def test_a_crowd_of_idle_ranks_is_told_with_less_confidence() -> None:
    one = signs(Run(Fault(stops={0: 10})).files())[0]
    many = next(
        sign
        for sign in signs(Run(Fault(stops=dict.fromkeys(range(1, WORLD), 8))).files())
        if sign.kind is SignKind.FR_IDLE_RANK
    )
    assert many.confidence < one.confidence / 2
    assert "save or an evaluation" in many.because


def test_few_dumps_decide_nothing() -> None:
    found = signs(Run(Fault(stops={4: 10})).files(without=tuple(range(1, WORLD))))
    assert SignKind.FR_UNDECIDED in kinds(found)
    assert all(sign.confidence <= 0.3 for sign in found)
    assert all(sign.ranks == () for sign in found)


def test_ranks_that_wait_for_each_other_in_two_groups_show_another_order_of_calls() -> None:
    run = Run(Fault())
    dumps = {rank: run.dump(rank) for rank in (0, 1)}
    for rank, groups in ((0, ("9", "0")), (1, ("0", "9"))):
        dumps[rank]["pg_config"] = {
            "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"},
            "9": {"name": "9", "desc": "second", "ranks": "[0, 1]"},
        }
        dumps[rank]["pg_status"] = {
            "0": {"last_enqueued_collective": 5 - (groups[0] != "0"), "last_completed_collective": 4},
            "1": {"last_enqueued_collective": 5 - (groups[0] != "9"), "last_completed_collective": 4},
        }
        dumps[rank]["entries"] = [
            {"record_id": 40, "pg_id": 0 if groups[0] == "0" else 1, "process_group": (groups[0], ""),
             "collective_seq_id": 5, "profiling_name": "nccl:all_reduce", "state": "scheduled"},
        ]  # fmt: skip
    found = signs([file(rank, dump) for rank, dump in dumps.items()])
    assert found[0].kind is SignKind.FR_ORDER_CYCLE
    assert found[0].ranks == (0, 1)


def test_signs_come_surest_first() -> None:
    found = signs(Run(Fault(stops={7: 10})).files())
    assert all(first.confidence >= second.confidence for first, second in pairwise(found))
