"""What confirms a hang beside the silence, after how long, and who is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from relance.detectors.hangs import HangState, step
from relance.detectors.watched import Watched
from relance.domain.findings import Certainty, Finding, Sign
from relance.domain.observations import Activity, DevicePicture, Life, Observation, OddDevice
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen
from tests.unit.detectors.timelines import ATTEMPT, SIGNS, Timeline, at, hit

NODES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
SPINNING: Mapping[Activity, int] = {Activity.SPINNING: 32}
IDLE: Mapping[Activity, int] = {Activity.IDLE: 32}


@pytest.fixture
def timeline() -> Timeline:
    made = Timeline(step=step, state=HangState())
    made.watched = Watched(attempt=ATTEMPT, signs=SIGNS, nodes=NODES, ranks_per_node=4)
    return made


def picture(seconds: float, counts: Mapping[Activity, int] = SPINNING, *odd: OddDevice) -> DevicePicture:
    return DevicePicture(at=at(seconds), counts=counts, odd=odd)


def looked_at(
    timeline: Timeline, begin_s: float, end_s: float, counts: Mapping[Activity, int] = SPINNING, *odd: OddDevice
) -> list[tuple[float, Finding]]:
    """Nothing but looks at logs and GPUs, every five seconds."""
    before = len(timeline.findings)
    seconds = begin_s
    while seconds <= end_s:
        timeline.see(picture(seconds, counts, *odd))
        timeline.quiet(seconds, seconds)
        seconds += 5.0
    return timeline.findings[before:]


def confirmed(found: list[tuple[float, Finding]]) -> list[tuple[float, Finding]]:
    return [(when, each) for when, each in found if each.certainty is Certainty.CONFIRMED]


@pytest.mark.parametrize(
    ("sign", "kind"),
    [
        (hit(11.0, "metric-xid", node="n3"), Sign.DEVICE),
        (hit(11.0, "metric-gone", node="n3"), Sign.NODE_SILENT),
        (hit(11.0, "ras-rank-dead", rank=9), Sign.COLLECTIVE),
        (hit(11.0, "fr-missing-rank", rank=9), Sign.COLLECTIVE),
        (hit(11.0, "stack-minority", rank=9), Sign.STACKS),
    ],
    ids=lambda value: value.value if isinstance(value, Sign) else "",
)
def test_each_independent_sign_confirms_after_three_minutes_and_names_the_node(
    timeline: Timeline, sign: Observation, kind: Sign
) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(sign)

    ((when, found),) = confirmed(timeline.quiet(last, last + 900, every_s=1))

    assert last + 180 <= when <= last + 181
    assert found.signs == {kind}
    assert [(odd.node, odd.by) for odd in found.odd] == [("n3", frozenset({kind}))]
    assert "n3 stands out" in found.summary
    assert found.hits == (sign,)


def test_slow_steps_have_five_times_their_usual_time_until_a_sign_confirms(timeline: Timeline) -> None:
    timeline.median_s = 60.0
    last = timeline.steps(1, 10, 0.0, every_s=60.0)
    timeline.see(hit(last, "metric-xid", node="n3"))

    ((when, _),) = confirmed(timeline.quiet(last, last + 900, every_s=1))

    assert last + 300 <= when <= last + 301


@pytest.mark.parametrize("node", ["n99", "m3"])
def test_metrics_of_other_nodes_are_no_sign(timeline: Timeline, node: str) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "metric-xid", node=node))
    timeline.see(hit(last, "metric-gone", node=node))

    assert confirmed(timeline.quiet(last, last + 3600, every_s=5)) == []


def test_the_telemetry_of_many_nodes_that_ends_is_a_store_s_trouble_and_no_sign(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for node in NODES[:3]:
        timeline.see(hit(last, "metric-gone", node=node))

    assert confirmed(timeline.quiet(last, last + 3600, every_s=5)) == []


@pytest.mark.parametrize("counts", [SPINNING, IDLE, {Activity.SPINNING: 28, Activity.IDLE: 4}])
def test_a_picture_of_all_gpus_confirms_after_twenty_minutes(
    timeline: Timeline, counts: Mapping[Activity, int]
) -> None:
    last = timeline.steps(1, 20, 0.0)

    ((when, found),) = confirmed(looked_at(timeline, last + 15, last + 3000, counts))

    assert last + 1200 <= when <= last + 1206
    assert found.signs == {Sign.GPU_SIGNATURE}


def test_the_picture_waits_for_three_times_the_longest_pause_of_the_workflow(timeline: Timeline) -> None:
    timeline.watched = replace(timeline.watched, pause_before_s=700.0)
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, longest_pause_s=90.0)

    ((when, _),) = confirmed(looked_at(timeline, last + 15, last + 3000))

    assert last + 2100 <= when <= last + 2106


def test_one_gpu_that_works_is_no_standstill(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)

    assert confirmed(looked_at(timeline, last, last + 7200, {Activity.SPINNING: 31, Activity.WORKING: 1})) == []


def test_work_that_is_seen_once_begins_the_standstill_anew(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    looked_at(timeline, last, last + 1100)
    timeline.see(picture(last + 1102, {Activity.WORKING: 32}))

    ((when, _),) = confirmed(looked_at(timeline, last + 1105, last + 3000))

    assert last + 1105 + 900 <= when <= last + 1105 + 910


def test_a_time_in_which_nobody_looked_is_no_standstill(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    looked_at(timeline, last, last + 300)
    assert confirmed(timeline.quiet(last + 301, last + 1500, every_s=5)) == []

    ((when, _),) = confirmed(looked_at(timeline, last + 1500, last + 4000))

    assert last + 1500 + 900 <= when <= last + 1500 + 910


@pytest.mark.parametrize("phase", [Phase.SAVING, Phase.EVALUATING])
@pytest.mark.parametrize("is_announced", [True, False])
def test_a_save_or_evaluation_by_one_rank_of_fifteen_minutes_is_never_confirmed(
    timeline: Timeline, phase: Phase, is_announced: bool
) -> None:
    last = timeline.steps(1, 20, 0.0)
    if is_announced:
        timeline.phase(phase)
        timeline.see(PhaseSeen(at=at(last), phase=phase))
    timeline.see(hit(last + 20, "fr-missing-rank", rank=0))  # what a look at collectives shows meanwhile
    timeline.see(hit(last + 20, "stack-minority", rank=0, captures={"ranks": "0,8"}))
    idle = OddDevice(node="n1", device="gpu0", activity=Activity.IDLE)

    found = looked_at(timeline, last, last + 900, {Activity.SPINNING: 31, Activity.IDLE: 1}, idle)

    assert confirmed(found) == []
    assert len(found) == (0 if is_announced else 2)


def test_the_first_rank_elsewhere_is_a_sign_only_after_the_time_of_a_picture(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "stack-minority", rank=0))

    ((when, found),) = confirmed(timeline.quiet(last, last + 3000, every_s=1))

    assert last + 1200 <= when <= last + 1201
    assert found.signs == {Sign.STACKS}


def test_a_dead_first_rank_is_dead(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 20, "fr-missing-rank", rank=0))
    timeline.see(hit(last + 20, "ras-rank-dead", rank=0))

    ((when, _),) = confirmed(timeline.quiet(last, last + 3000, every_s=1))

    assert last + 180 <= when <= last + 181


def test_a_growing_checkpoint_folder_is_life_whatever_the_gpus_show(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for number in range(120):
        timeline.see(Life(at=at(last + number * 30), what="checkpoint folder"))
        looked_at(timeline, last + number * 30, last + number * 30 + 25)

    assert confirmed(timeline.findings) == []


def test_the_one_that_idles_while_the_others_wait_is_named(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    odd = OddDevice(node="n5", device="gpu3", activity=Activity.IDLE)
    once = OddDevice(node="n7", device="gpu0", activity=Activity.IDLE)
    timeline.see(picture(last + 12, {Activity.SPINNING: 30, Activity.IDLE: 2}, odd, once))

    ((_, found),) = confirmed(
        looked_at(timeline, last + 15, last + 1300, {Activity.SPINNING: 31, Activity.IDLE: 1}, odd)
    )

    assert [each.node for each in found.odd] == ["n5"]
    assert "n5 stands out: its GPUs idle while the others wait" in found.summary


def test_who_is_named_by_a_host_comes_first(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "stack-minority", rank=1))
    timeline.see(hit(last, "metric-xid", node="n8"))

    ((_, found),) = confirmed(timeline.quiet(last, last + 300, every_s=1))

    assert [each.node for each in found.odd] == ["n8", "n1"]


def test_further_signs_are_told_as_they_come(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "metric-xid", node="n3"))
    timeline.quiet(last, last + 300, every_s=1)
    timeline.see(hit(last + 300, "stack-minority", rank=9))
    timeline.quiet(last + 301, last + 400, every_s=1)

    assert [found.signs for _, found in confirmed(timeline.findings)] == [
        {Sign.DEVICE},
        {Sign.DEVICE, Sign.STACKS},
    ]


def test_pauses_that_came_before_are_waited_for_by_what_may_be_a_pause(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    last = timeline.steps(21, 40, last + 300)
    timeline.see(hit(last, "metric-gone", node="n3"))

    ((when, _),) = confirmed(timeline.quiet(last, last + 900, every_s=1))

    assert last + 600 <= when <= last + 601


def test_during_the_first_steps_only_what_no_compilation_shows_confirms(timeline: Timeline) -> None:
    timeline.median_s = 0.0
    last = timeline.steps(1, 2, 0.0)
    timeline.progress = replace(timeline.progress, median_step_s=None)
    timeline.see(hit(last, "metric-gone", node="n3"))
    assert confirmed(timeline.quiet(last, last + 1000, every_s=5)) == []
    timeline.see(hit(last + 1000, "metric-xid", node="n3"))

    ((_, found),) = confirmed(timeline.quiet(last + 1000, last + 1010, every_s=5))

    assert found.signs == {Sign.DEVICE}


def test_what_was_learned_to_be_steps_is_waited_for_longer_and_confirmed_by_deaths_alone(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, is_learned=True)
    timeline.see(hit(last, "metric-xid", node="n3"))

    (when, _), (_, lasting) = looked_at(timeline, last, last + 5000)

    assert (lasting.certainty, lasting.hits) == (Certainty.SUSPECTED, ())
    assert last + 60 <= when <= last + 65

    timeline.see(hit(last + 5000, "srun-killed", rank=3))
    assert [each.signs for _, each in timeline.quiet(last + 5000, last + 5010)] == [{Sign.PROCESS_DEATH}]


def test_a_save_has_as_long_as_others_took_some_times_over(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, longest_save_s=900.0)
    timeline.phase(Phase.SAVING)
    timeline.see(CheckpointSeen(at=at(last), event=CheckpointEvent.BEGUN, step=20))

    (when, _), *_ = timeline.quiet(last, last + 4000, every_s=1)

    assert last + 2700 + 12 <= when <= last + 2700 + 13


def test_once_saves_are_known_a_hang_in_one_is_suspected_sooner(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, longest_save_s=20.0)
    timeline.phase(Phase.SAVING)
    timeline.see(CheckpointSeen(at=at(last), event=CheckpointEvent.BEGUN, step=20))

    (when, _), *_ = timeline.quiet(last, last + 4000, every_s=1)

    assert last + 1200 + 12 <= when <= last + 1200 + 13


def test_a_long_save_that_was_announced_is_no_reason_to_wait_in_training(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.phase(Phase.SAVING)
    timeline.see(CheckpointSeen(at=at(last), event=CheckpointEvent.BEGUN, step=20))
    timeline.quiet(last, last + 900, every_s=5)
    timeline.progress = replace(timeline.progress, longest_pause_s=900.0)
    last = timeline.steps(21, 40, last + 900)

    (when, _), *_ = timeline.quiet(last, last + 100, every_s=1)

    assert last + 12 <= when <= last + 13


def test_a_pause_of_yesterday_that_came_but_once_is_forgotten(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    last = timeline.steps(21, 40, last + 600)
    last = timeline.steps(41, 1700, last + 30.0, every_s=30.0)
    last = timeline.steps(1701, 1720, last + 0.5)

    (when, _), *_ = timeline.quiet(last, last + 900, every_s=1)

    assert last + 60 <= when <= last + 61  # the pauses of 30 s came again and again


@pytest.mark.parametrize(("before_s", "limit_s"), [(None, 3600), (600.0, 1800), (20.0, 300), (7200.0, 21600)])
def test_a_start_may_take_some_times_what_earlier_starts_of_the_workflow_took(
    timeline: Timeline, before_s: float | None, limit_s: float
) -> None:
    timeline.watched = replace(timeline.watched, expects_steps=True, start_before_s=before_s)

    ((when, found),) = timeline.quiet(0.0, 30_000.0, every_s=10)

    assert limit_s <= when <= limit_s + 10
    assert found.symptom == "start_hang"


def test_what_training_went_on_after_is_no_sign_when_it_is_told_again(timeline: Timeline) -> None:
    timeline.steps(1, 20, 0.0)
    last = timeline.steps(21, 500, 10.0)  # four minutes of training after the fault
    timeline.quiet(last, last + 20, every_s=1)
    timeline.see(hit(last + 20, "metric-xid", node="n3", at=at(9.0)))  # the watcher was started again meanwhile
    timeline.see(hit(9.0, "stack-minority", rank=9))

    assert confirmed(timeline.quiet(last + 21, last + 900, every_s=5)) == []


def test_a_fault_that_was_read_before_the_last_steps_because_logs_lag_is_a_sign(timeline: Timeline) -> None:
    last = timeline.steps(1, 200, 0.0)
    timeline.see(hit(last + 15, "metric-xid", node="n3", at=at(last - 60.0)))

    assert len(confirmed(timeline.quiet(last + 15, last + 900, every_s=5))) == 1
