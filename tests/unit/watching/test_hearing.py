"""Who wrote in finished logs, when each was last heard, and when finished logs are taken to be read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.domain.verdicts import Presence
from relance.watching import hearing
from relance.watching.evidence.logs import FinishedLog, named
from relance.watching.finished import blocks_of
from relance.watching.hearing import Ears, reading_time

NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)


def at(second: int) -> datetime:
    return datetime(2026, 5, 2, 11, tzinfo=UTC) + timedelta(seconds=second)


def stamp(second: int) -> str:
    return at(second).strftime("%Y-%m-%d %H:%M:%S")


def log(name: str, *lines: str) -> FinishedLog:
    return named(name, lambda: ["".join(f"{line}\n" for line in lines).encode()])


def heard(*logs: FinishedLog) -> Presence:
    return ears(*logs).presence()


def ears(*logs: FinishedLog) -> Ears:
    listening = Ears(NOW)
    for each in logs:
        for block in blocks_of(each, NOW):
            listening.take(block)
    return listening


def test_ranks_are_heard_by_the_labels_of_their_lines() -> None:
    assert heard(log("job.log", "[rank3]: a", "5: b", "no label", "[rank3]: c")).ranks == {3, 5}


def test_a_log_of_one_rank_speaks_for_it_whatever_its_lines_say() -> None:
    presence = heard(log("rank-7.log", f"{stamp(0)} [rank3] reads", f"{stamp(9)} goes on"))
    assert presence.ranks == {7}
    assert presence.last_at == {7: at(9)}


def test_in_a_common_log_it_is_chance_who_writes_last() -> None:
    assert heard(log("job.log", f"[rank3]: {stamp(0)} a", f"[rank3]: {stamp(1)} [gpu012] b")).last_at == {}


def test_hosts_are_heard_by_labels_and_by_the_name_of_their_log() -> None:
    presence = heard(
        log("job.log", f"{stamp(4)} [gpu012] starts", "gpu013:411:411 [0] NCCL INFO comm"),
        log("slurm-gpu014.out", f"{stamp(8)} starts"),
    )
    assert {"gpu012", "gpu013"} <= presence.nodes
    assert presence.node_last_at["gpu012"] == at(4)


@pytest.mark.parametrize("name", ["dmesg-n1.log", "slurmctld.log", "fabricmanager-n1.log"])
def test_what_others_write_about_the_job_is_no_sign_of_life(name: str) -> None:
    presence = heard(log(name, f"{stamp(0)} [rank3]: a"))
    assert (presence.ranks, presence.nodes, presence.first_at) == (frozenset(), frozenset(), None)


def test_the_output_began_with_its_first_time_and_each_log_of_job_and_scheduler_has_its_latest() -> None:
    listening = ears(
        log("job.log", "no time", f"{stamp(5)} a", f"{stamp(9)} b"),
        log("rank-1.log", f"{stamp(3)} c"),
        log("slurmctld.log", f"{stamp(0)} d", f"{stamp(900)} e"),
        log("dmesg-n1.log", f"{stamp(5000)} f"),
    )
    assert listening.presence().first_at == at(3)
    assert listening.latest() == {"job.log": at(9), "rank-1.log": at(3), "slurmctld.log": at(900)}


def test_the_latest_is_the_greatest_time_not_that_of_the_last_line() -> None:
    assert ears(log("job.log", f"{stamp(9)} a", f"{stamp(5)} late in its buffer")).latest() == {"job.log": at(9)}


def test_logs_without_times_tell_nothing_of_when() -> None:
    listening = ears(log("rank-1.log", "a", "b"))
    assert (listening.latest(), listening.presence().first_at, listening.presence().last_at) == ({}, None, {})


def filler(size: int) -> Iterable[str]:
    return ["x" * 99] * (size // 100)


def test_of_a_long_log_the_beginning_and_the_end_are_heard() -> None:
    long = [*filler(300_000), "[rank2]: in the middle", *filler(300_000)]
    presence = heard(log("job.log", "[rank1]: first", *long, f"[rank3]: {stamp(7)} last"))
    assert presence.ranks == {1, 3}


def test_of_a_log_that_is_little_longer_than_its_beginning_nothing_is_missed() -> None:
    """Whole lines, also the one that stands across the end of what counts as the beginning."""
    for size in (hearing._BYTES - 30, hearing._BYTES - 5, hearing._BYTES):  # noqa: SLF001 - where the beginning ends
        before = "x" * (size - 1)
        presence = heard(log("job.log", before, "[rank12]: across, and then on for a while", "[rank4]: last"))
        assert presence.ranks == {12, 4}


@pytest.mark.parametrize("missing", range(12))
def test_half_a_line_at_the_end_names_no_rank(missing: int) -> None:
    """A line such as `step 45: loss` that is cut before its number looks like one of task 45."""
    cut = b"step 45: loss 2.0\n"[missing:]
    tail = cut + b"y" * (hearing._BYTES - len(cut) - 1) + b"\n"  # noqa: SLF001 - how much of the end is heard
    data = b"x" * (2 * hearing._BYTES) + b"step 45: loss 2.0\n"[:missing] + tail  # noqa: SLF001 - and of the beginning
    block = LogBlock(file="job.log", offset=0, data=data, scope=Scope.APPLICATION, read_at=NOW)
    listening = Ears(NOW)
    listening.take(block)
    assert listening.presence().ranks == frozenset()


def test_a_piece_that_is_delivered_again_is_heard_once() -> None:
    """What overlaps is only there for patterns across the cut."""
    listening = Ears(NOW)
    first = LogBlock(file="job.log", offset=0, data=b"[ra", scope=Scope.APPLICATION, read_at=NOW)
    again = LogBlock(file="job.log", offset=0, data=b"[rank3]: b\n", scope=Scope.APPLICATION, read_at=NOW, overlap=3)
    listening.take(first)
    listening.take(again)
    assert listening.presence().ranks == {3}


def test_finished_logs_are_read_a_day_after_the_last_date_that_any_ends_with() -> None:
    ends = [lambda: [f"{stamp(0)} a\n{stamp(60)} b\nno date\n".encode()], lambda: [f"{stamp(30)} c".encode()]]
    assert reading_time(ends, NOW) == at(60) + timedelta(days=1)


def test_where_no_log_bears_a_date_it_is_the_time_that_is_given() -> None:
    assert reading_time([lambda: [b"a\n", b"b\n"], list], NOW) == NOW


def test_a_date_across_two_chunks_is_one() -> None:
    whole = f"{stamp(60)} b\n".encode()
    assert reading_time([lambda: [whole[:7], whole[7:]]], NOW) == at(60) + timedelta(days=1)


def test_only_lines_that_tell_of_a_program_tell_that_it_should_go_on() -> None:
    listening = ears(log("agent.log", f"{stamp(5)} 8 ranks are running", f"{stamp(900)} disk at 40 percent"))
    assert listening.told() == {"agent.log": at(5)}
    assert listening.latest() == {"agent.log": at(900)}
