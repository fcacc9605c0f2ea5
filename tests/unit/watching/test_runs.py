"""Where further runs begin in one output, and what of it belongs to which run."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import pytest

from relance.domain.faults import Scope
from relance.domain.findings import FindingKind, RuleHit
from relance.domain.observations import LogBlock
from relance.rules import Scanner, load_pack
from relance.rules.pack import read_texts
from relance.watching.evidence.contexts import Context, ContextError, context_of
from relance.watching.evidence.logs import FinishedLog, named
from relance.watching.finished import Finished, blocks_of, cases_of, read_finished
from relance.watching.runs import MOST_RUNS, starts_of
from tests.unit.watching.rooms import step_line

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)
PACK = load_pack({name: text for name, text in read_texts().items() if name in ("python.yaml", "slurm.yaml")})


@cache
def scanner() -> Scanner:
    return Scanner(PACK)


TRACEBACK = ["[rank3]: Traceback (most recent call last):", '[rank3]:   File "t.py", line 1', "[rank3]: KeyError: 'x'"]


def log(name: str, *lines: str) -> FinishedLog:
    return named(name, lambda: ["".join(f"{line}\n" for line in lines).encode()])


def begins(*lines: str) -> list[int]:
    """The numbers of the lines, from 0, at which further runs begin."""
    offsets = [sum(len(line) + 1 for line in lines[:at]) for at in range(len(lines))]
    return [offsets.index(start.offset) for start in starts_of(blocks_of(log("job.log", *lines), NOW))]


BANNERS: dict[str, tuple[list[str], list[int]]] = {
    "numbered banners": (["=== run 1 ===", "a", "=== run 2 ===", "b", "=== run 3 ==="], [2, 4]),
    "banners in brackets": (["[attempt 1] starts", "a", "[attempt 2] starts"], [2]),
    "one banner is one run": (["=== run 1 ===", "a"], []),
    "no banner at all": (["step 1", "a run 2 of the data", "try 3 later"], []),
    "the same number again, as each node tells it": (["## try 1", "## try 1", "a", "## try 2", "## try 2"], [3]),
    "an older banner that is quoted": (["## try 1", "a", "## try 2", "## try 1", "b"], [2]),
    "launchers, where there are no banners": (
        ["Rendezvous'ing worker group (attempt 1)", "a", "Rendezvous'ing worker group (attempt 2)"], [2],
    ),
    "what launchers print within the runs of banners": (
        ["## run 1", "SLURM_RESTART_COUNT=4", "a", "SLURM_RESTART_COUNT=5", "## run 2"], [4],
    ),
    "banners without numbers": (["==== job started ====", "a", "==== job restarted ====", "b"], [2]),
    "numbers go before those without": (
        ["==== start ====", "## run 1", "==== restart ====", "## run 2"], [3],
    ),
    "that it is tried again": (["a", "---- second try ----", "b", "---- third try ----"], [1, 3]),
    "a run's words within a line": (["a === run 1 ===", "b === run 2 ==="], []),
    "colours do not shift the place": (["\x1b[1m=== run 1 ===\x1b[0m", "\x1b[31ma", "\x1b[1m=== run 2 ==="], [2]),
}  # fmt: skip


@pytest.mark.parametrize("name", BANNERS)
def test_a_run_begins_where(name: str) -> None:
    lines, places = BANNERS[name]
    assert begins(*lines) == places


def test_a_banner_may_name_the_node() -> None:
    blocks = list(blocks_of(log("job.log", "## run 1 on gpu07", "## run 2 on node gpu-11 ==", "## run 3"), NOW))
    assert [(start.number, start.node) for start in starts_of(blocks)] == [(2, "gpu-11"), (3, None)]


def test_whether_somebody_began_it_again_or_a_restarter_inside_the_job() -> None:
    banners = starts_of(blocks_of(log("job.log", "## run 1", "## run 2"), NOW))
    launches = starts_of(blocks_of(log("job.log", "SLURM_RESTART_COUNT=0", "SLURM_RESTART_COUNT=1"), NOW))
    assert [start.by_hand for start in (*banners, *launches)] == [True, False]


def test_too_many_runs_end_in_the_last_that_counts() -> None:
    lines = [f"## run {number}" for number in range(1, 200)]
    assert len(begins(*lines)) == MOST_RUNS


def test_offsets_are_of_the_output_not_of_the_block() -> None:
    data = b"## run 1\n" + b"x" * 50 + b"\n## run 2\n"
    blocks = [
        LogBlock(file="job.log", offset=at, data=part, scope=Scope.APPLICATION, read_at=NOW)
        for at, part in ((0, data[:60]), (60, data[60:]))
    ]
    (start,) = starts_of(blocks)
    assert start.offset == data.index(b"## run 2")


def read(*logs: FinishedLog, context: Context | None = None) -> Finished:
    return read_finished(list(logs), context or Context(), PACK, NOW, scanner())


def lines_of(finished: Finished, run: int) -> list[RuleHit]:
    return [hit for finding in finished.runs[run].findings for hit in finding.hits if hit.symptom == "python_exception"]


THREE = ["## run 1", *TRACEBACK, "", "## run 2", step_line(1, NOW), step_line(2, NOW), "## run 3", "x", *TRACEBACK]


def test_each_run_has_the_lines_and_steps_between_its_banner_and_the_next() -> None:
    found = read(log("job.log", *THREE))
    assert [bool(lines_of(found, run)) for run in range(3)] == [True, False, True]
    assert [run.progress.step for run in found.runs] == [None, 2, None]


def test_a_line_has_its_number_and_its_byte_in_the_whole_output() -> None:
    found = read(log("job.log", *THREE))
    whole = "".join(f"{line}\n" for line in THREE)
    for run in (0, 2):
        hit = lines_of(found, run)[0]
        begin = [at for at, line in enumerate(THREE) if line == TRACEBACK[0]][run // 2]
        assert hit.line is not None
        assert begin + 1 <= hit.line <= begin + 3
        assert whole.count("\n", 0, hit.offset) + 1 == hit.line


def test_what_is_in_other_logs_is_of_every_run() -> None:
    killed = log("srun.err", "srun: error: n2: task 3: Killed")
    found = read(log("job.log", *THREE), killed)
    assert all(any(hit.symptom == "task_killed" for one in run.findings for hit in one.hits) for run in found.runs)


def test_the_output_with_the_most_runs_is_the_one_that_is_cut() -> None:
    found = read(log("a.log", "## run 1", "## run 2"), log("job.log", *THREE))
    assert len(found.runs) == 3


def test_a_run_is_on_the_node_that_its_banner_names() -> None:
    found = read(log("job.log", "## run 1", *TRACEBACK, "## run 2 on n2", *TRACEBACK))
    assert [lines_of(found, run)[0].node for run in (0, 1)] == [None, "n2"]


def test_ranks_may_be_elsewhere_in_each_run() -> None:
    context = context_of({"nodes": ["n1", "n2", "n3"], "rank_to_node": {"run1 0-1": "n1", "run 2: 0 - 1": "n2"}})
    assert context.places_of_run == {1: {0: "n1", 1: "n1"}, 2: {0: "n2", 1: "n2"}}
    cases = cases_of(read(log("job.log", *THREE), context=context), context, NOW)
    assert [case.rank_to_node.get(1) for case in cases] == ["n1", "n2", None]
    assert [case.nodes for case in cases] == [("n1",), ("n2",), ("n1", "n2", "n3")]
    assert len({case.attempt for case in cases}) == 3


@pytest.mark.parametrize(
    ("ranks", "places"),
    [("0", {0: "n1"}), (" 2 - 3 ", {2: "n1", 3: "n1"}), (4, {4: "n1"}), ("all", {}), (True, {}), ("3-1", {})],
)
def test_ranks_are_written_as_one_or_from_to(ranks: object, places: dict[int, str]) -> None:
    assert context_of({"rank_to_node": [{"ranks": ranks, "node": "n1"}]}).rank_to_node == places


@pytest.mark.parametrize(
    "data",
    [
        {"rank_to_node": {"0-7": ""}},
        {"rank_to_node": {"0-9999999": "n1"}},
        {"rank_to_node": "n1"},
        {"nodes": [""]},
        {"scheduler": True},
        ["n1"],
    ],
)
def test_a_context_that_cannot_be_meant_is_refused(data: object) -> None:
    with pytest.raises(ContextError):
        context_of(data)


def test_times_of_reading_are_no_times_of_steps() -> None:
    untimed = [f"step {number} loss 1.0" for number in range(1, 5)]
    (case,) = cases_of(read(log("job.log", *untimed)), Context(), NOW)
    assert case.progress is not None
    assert (case.progress.step, case.progress.first_step_at, case.progress.step_at) == (4, None, None)
    timed = [f"2026-05-02 11:00:0{number} step {number} loss 1.0" for number in range(1, 5)]
    (case,) = cases_of(read(log("job.log", *timed)), Context(), NOW)
    assert case.progress is not None
    assert case.progress.step_at == datetime(2026, 5, 2, 11, 0, 4, tzinfo=UTC)


def test_only_the_last_run_can_stand_still_to_the_end() -> None:
    """Whoever told of the job after an earlier run told of the next."""
    steps = [f"2026-05-02 10:{minute:02}:00 step {minute} loss 1.0" for minute in range(1, 9)]
    job = log("job.log", "## run 1", *steps[:4], "## run 2", *steps[4:])
    agent = log("agent.log", "2026-05-02 11:55:00 [gpu07] all 8 ranks of the job are running")
    first, second = cases_of(read(job, agent), Context(), NOW)
    assert [finding.kind for finding in second.findings] == [FindingKind.HANG]
    assert first.findings == ()
