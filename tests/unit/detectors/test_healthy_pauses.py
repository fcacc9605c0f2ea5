"""Pauses of healthy jobs, whatever is seen of them meanwhile: none is a hang that is confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from relance.detectors.hangs import HangState, step
from relance.detectors.watched import Watched
from relance.domain.faults import Role, Scope
from relance.domain.findings import Certainty, RuleHit, Sign
from relance.domain.observations import Activity, DevicePicture, Life, NodeSign
from relance.domain.progress import Phase, PhaseSeen, StepSeen
from tests.unit.detectors.timelines import ATTEMPT, SIGNS, Timeline, at, hit

NODES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
MEANINGS = SIGNS | {
    "stack-all-waiting": frozenset({Sign.STACKS}),
    "fr-transport-stall": frozenset({Sign.COLLECTIVE}),
    "fr-gpu-stall": frozenset({Sign.COLLECTIVE}),
    "fr-laggard": frozenset({Sign.COLLECTIVE}),
    "ras-collective-stuck": frozenset({Sign.COLLECTIVE}),
    "ras-rank-unresponsive": frozenset({Sign.COLLECTIVE}),
}
SPINNING: Mapping[Activity, int] = {Activity.SPINNING: 32}
WORKING: Mapping[Activity, int] = {Activity.WORKING: 32}
ONE_WORKS: Mapping[Activity, int] = {Activity.SPINNING: 31, Activity.WORKING: 1}
BUSY = ("save", "evaluation", "logging", "data", "compiling", "starting")


@pytest.fixture
def timeline() -> Timeline:
    made = Timeline(step=step, state=HangState())
    made.watched = Watched(attempt=ATTEMPT, signs=MEANINGS, nodes=NODES, ranks_per_node=4)
    return made


def confirmed_after(timeline: Timeline, begin_s: float, for_s: float, counts: Mapping[Activity, int] | None) -> float:
    """After how many seconds of silence a hang is confirmed, `inf` if never; GPUs show this whenever looked at."""
    seconds = begin_s
    while seconds <= begin_s + for_s:
        if counts is not None:
            timeline.see(DevicePicture(at=at(seconds), counts=counts))
        timeline.quiet(seconds, seconds)
        seconds += 5.0
    found = [when for when, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    return found[0] - begin_s if found else float("inf")


@pytest.mark.parametrize(
    "rule", ["metric-gone", "stack-minority", "stack-all-waiting", "fr-missing-rank", "ras-rank-dead"]
)
@pytest.mark.parametrize("counts", [WORKING, ONE_WORKS])
def test_while_a_gpu_of_the_job_works_no_sign_of_where_it_stands_confirms(
    timeline: Timeline, rule: str, counts: Mapping[Activity, int]
) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, rule, node="n3" if rule == "metric-gone" else None, rank=9))

    assert confirmed_after(timeline, last, 3000.0, counts) == float("inf")


@pytest.mark.parametrize("sign", [hit(11.0, "metric-xid", node="n3"), NodeSign(node="n3", sign="down", at=at(11.0))])
def test_what_broke_confirms_though_the_other_gpus_seem_to_work(timeline: Timeline, sign: RuleHit | NodeSign) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(sign)

    assert 180.0 <= confirmed_after(timeline, last, 600.0, WORKING) <= 190.0


def test_a_picture_from_just_before_the_standstill_holds_nothing_up(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "stack-minority", rank=9))
    timeline.see(DevicePicture(at=at(last), counts=WORKING))

    assert 180.0 <= confirmed_after(timeline, last + 15.0, 600.0, SPINNING) + 15.0 <= 190.0


@pytest.mark.parametrize("doing", BUSY)
@pytest.mark.parametrize("rank", [0, 9, 31])
def test_a_rank_that_is_busy_for_all_confirms_no_sooner_than_the_picture_of_all_gpus(
    timeline: Timeline, doing: str, rank: int
) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "stack-minority", rank=rank, captures={"doing": doing}))

    assert 1200.0 <= confirmed_after(timeline, last, 3000.0, None) <= 1210.0


@pytest.mark.parametrize("rule", ["stack-minority", "fr-missing-rank", "fr-laggard", "ras-collective-stuck"])
def test_the_last_rank_may_log_or_save_as_the_first_one_may(timeline: Timeline, rule: str) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, rule, rank=31))

    assert 1200.0 <= confirmed_after(timeline, last, 3000.0, None) <= 1210.0


@pytest.mark.parametrize(
    "trace",
    [
        hit(30.0, "stack-all-waiting", role=Role.CONTEXT),
        hit(30.0, "stack-minority", rank=9, role=Role.MAYBE),
        hit(30.0, "ras-rank-unresponsive", rank=9, role=Role.MAYBE),
        hit(30.0, "fr-transport-stall", role=Role.MAYBE),
        hit(30.0, "fr-transport-stall", role=Role.MAYBE, at=at(29.0)),
        hit(30.0, "fr-missing-rank", rank=9, at=at(28.0)),
    ],
    ids=lambda trace: trace.rule,
)
def test_traces_that_an_evaluation_by_all_ranks_shows_confirm_no_sooner_than_the_picture(
    timeline: Timeline, trace: RuleHit
) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(trace)

    assert 1200.0 <= confirmed_after(timeline, last, 3000.0, None) <= 1210.0


@pytest.mark.parametrize("rule", ["fr-transport-stall", "fr-gpu-stall"])
def test_a_collective_that_all_joined_minutes_ago_confirms_after_three_minutes(timeline: Timeline, rule: str) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 120.0, rule, role=Role.MAYBE, at=at(last)))

    assert 180.0 <= confirmed_after(timeline, last, 600.0, None) <= 190.0


@pytest.mark.parametrize("counts", [SPINNING, None])
def test_a_rank_in_a_debugger_is_somebody_at_work_for_as_long_as_it_takes(
    timeline: Timeline, counts: Mapping[Activity, int] | None
) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "stack-minority", rank=9, role=Role.MAYBE, captures={"doing": "debugger"}))
    timeline.see(hit(last + 20, "fr-missing-rank", rank=9))

    assert confirmed_after(timeline, last, 4 * 3600.0, counts) == float("inf")


def test_after_the_debugger_training_is_watched_as_before(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "stack-minority", rank=9, captures={"doing": "debugger"}))
    timeline.quiet(last, last + 60, every_s=1)
    last = timeline.steps(21, 40, last + 60)
    timeline.see(hit(last, "metric-xid", node="n3"))

    assert 180.0 <= confirmed_after(timeline, last, 600.0, None) <= 190.0


@pytest.mark.parametrize("counts", [None, WORKING])
def test_steps_and_metrics_that_one_agent_sends_end_together_and_the_job_goes_on(
    timeline: Timeline, counts: Mapping[Activity, int] | None
) -> None:
    timeline.watched = replace(timeline.watched, are_steps_shipped=True)
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "metric-gone", node="n1"))

    assert confirmed_after(timeline, last, 4 * 3600.0, counts) == float("inf")


def test_a_node_that_goes_silent_while_the_gpus_of_the_others_wait_is_a_sign_however_steps_come(
    timeline: Timeline,
) -> None:
    timeline.watched = replace(timeline.watched, are_steps_shipped=True)
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "metric-gone", node="n3"))

    assert 180.0 <= confirmed_after(timeline, last, 600.0, {Activity.SPINNING: 28, Activity.SILENT: 4}) <= 190.0


@pytest.mark.parametrize("phase", [Phase.SAVING, Phase.EVALUATING, Phase.COMPILING, Phase.LOADING])
def test_an_announced_pause_of_forty_minutes_by_one_rank_is_never_confirmed(timeline: Timeline, phase: Phase) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.phase(phase)
    timeline.see(PhaseSeen(at=at(last), phase=phase))
    timeline.see(hit(last + 20, "stack-minority", rank=0))
    timeline.see(hit(last + 20, "fr-missing-rank", rank=0))

    assert confirmed_after(timeline, last, 2400.0, SPINNING) == float("inf")


def test_a_suspended_job_counts_anew_from_when_it_goes_on(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "stack-minority", rank=9))
    timeline.watched = replace(timeline.watched, is_paused=True)
    assert confirmed_after(timeline, last, 2400.0, {Activity.IDLE: 32}) == float("inf")

    timeline.watched = replace(timeline.watched, is_paused=False)
    assert confirmed_after(timeline, last + 2405.0, 150.0, SPINNING) == float("inf")


def test_a_save_of_forty_minutes_whose_folder_grows_is_life(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "metric-gone", node="n3"))
    timeline.see(hit(last + 20, "stack-minority", rank=0))
    for number in range(40):
        timeline.see(Life(at=at(last + number * 60), what="checkpoint folder"))
        assert confirmed_after(timeline, last + number * 60, 55.0, SPINNING) == float("inf")


@pytest.mark.parametrize("rule", ["node-failed", "srun-killed"])
def test_words_of_the_job_name_no_node_that_stands_out(timeline: Timeline, rule: str) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, rule, captures={"node": "n3"}))
    told = confirmed_after(timeline, last, 600.0, None)

    (found,) = [each for _, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    assert told <= 190.0
    assert found.odd == ()


def test_the_scheduler_s_words_name_a_node_that_stands_out(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "node-failed", scope=Scope.SCHEDULER, captures={"node": "n3"}))
    confirmed_after(timeline, last, 600.0, None)

    (found,) = [each for _, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    assert [odd.node for odd in found.odd] == ["n3"]


def test_a_fault_that_most_nodes_tell_of_is_of_what_they_share_and_names_none(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for node in NODES[:5]:
        timeline.see(hit(last, "metric-xid", node=node, file=f"prometheus/{node}"))
    confirmed_after(timeline, last, 600.0, None)

    (found,) = [each for _, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    assert found.odd == ()


def test_however_many_devices_of_the_first_nodes_tell_first_a_crowd_is_one(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for node in NODES:
        for device in range(8):
            timeline.see(hit(last, "metric-xid", node=node, file=f"prometheus/{node}/{device}"))
    confirmed_after(timeline, last, 600.0, None)

    (found,) = [each for _, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    assert found.odd == ()


def test_the_two_ends_of_a_link_are_both_named(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for node in NODES[2:4]:
        timeline.see(hit(last, "metric-xid", node=node, file=f"prometheus/{node}"))
    confirmed_after(timeline, last, 600.0, None)

    (found,) = [each for _, each in timeline.findings if each.certainty is Certainty.CONFIRMED]
    assert [odd.node for odd in found.odd] == ["n3", "n4"]


@pytest.mark.parametrize(("stepped_s", "confirmed"), [(0.0, True), (55.0, True), (70.0, False), (110.0, False)])
def test_an_exporter_that_ended_while_steps_went_on_is_no_node_that_fell_silent(
    timeline: Timeline, stepped_s: float, confirmed: bool
) -> None:
    ended = timeline.steps(1, 40, 0.0)
    last = timeline.steps(41, 41 + int(stepped_s * 2), ended + 0.5) if stepped_s else ended
    timeline.quiet(last, last + 60, every_s=5)
    timeline.see(hit(last + 60, "metric-gone", node="n3", at=at(ended)))  # it is told of two minutes late

    assert (confirmed_after(timeline, last + 60, 900.0, None) < float("inf")) == confirmed


def test_a_node_that_fell_silent_while_the_log_s_clock_is_ahead_is_a_sign(timeline: Timeline) -> None:
    for number in range(1, 61):
        timeline.see(StepSeen(at=at(3600.0 + number), step=number, file="job.out", offset=number * 100))
        timeline.quiet(number, number)
    timeline.see(hit(70.0, "metric-gone", node="n3", at=at(60.0)))

    assert confirmed_after(timeline, 61.0, 900.0, None) < float("inf")
