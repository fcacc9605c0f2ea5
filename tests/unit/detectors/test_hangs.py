from __future__ import annotations

import json
from dataclasses import replace

import pytest

from relance.detectors.hangs import HangState, step
from relance.domain.encoding import decode, encode
from relance.domain.findings import Certainty, FindingKind, Sign
from relance.domain.observations import Life, NodeSign, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, StepSeen
from tests.unit.detectors.timelines import Timeline, at, hit


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(step=step, state=HangState())


def test_silence_is_suspected_after_twelve_seconds_and_told_again_once_when_it_lasts(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)

    (when, found), (later, lasting) = timeline.quiet(last, last + 3600, every_s=1)

    assert (last + 12 <= when <= last + 13, found.is_passing) == (True, True)
    assert (last + 150 <= later <= last + 151, lasting.is_passing) == (True, False)
    assert (found.kind, found.certainty, found.signs) == (FindingKind.HANG, Certainty.SUSPECTED, frozenset())
    assert found.symptom_at == at(last)


def test_a_silence_that_was_read_late_lasts_already(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)

    ((_, found),) = timeline.quiet(last + 900, last + 901, every_s=1)

    assert not found.is_passing


def test_slow_steps_are_given_four_times_their_usual_time(timeline: Timeline) -> None:
    timeline.median_s = 30.0
    last = timeline.steps(1, 10, 0.0, every_s=30.0)

    (when, _), (later, _) = timeline.quiet(last, last + 300, every_s=1)

    assert last + 120 <= when <= last + 121
    assert last + 150 <= later <= last + 151  # a little before signs may confirm it


def test_the_log_alone_never_confirms(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)

    found = timeline.quiet(last, last + 24 * 3600, every_s=60)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.SUSPECTED]


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (NodeSign(node="n1", sign="silent", at=at(10)), Sign.NODE_DOWN),
        (hit(10.0, "xid-79", node="n1"), Sign.KERNEL),
        (hit(10.0, "srun-killed", rank=3), Sign.PROCESS_DEATH),
    ],
    ids=["node", "kernel", "death"],
)
def test_an_independent_sign_confirms_after_three_minutes(timeline: Timeline, sign: NodeSign, expected: Sign) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(sign)

    found = timeline.quiet(last, last + 600, every_s=1)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.SUSPECTED, Certainty.CONFIRMED]
    assert last + 180 <= found[2][0] <= last + 181
    assert found[2][1].signs == {expected}


def test_a_sign_that_training_went_on_after_confirms_nothing(timeline: Timeline) -> None:
    timeline.steps(1, 10, 0.0)
    timeline.see(hit(5.0, "xid-79", node="n1"))
    last = timeline.steps(11, 20, 5.5)

    found = timeline.quiet(last, last + 3600, every_s=10)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.SUSPECTED]


def test_while_a_job_is_paused_silence_does_not_count_and_afterwards_it_counts_anew(timeline: Timeline) -> None:
    usual = replace(timeline.watched, hang_after_s=60.0)
    last = timeline.steps(1, 20, 0.0)
    timeline.watched = replace(usual, is_paused=True)
    assert timeline.quiet(last, last + 3600, every_s=5) == []
    timeline.watched = usual

    found = timeline.quiet(last + 3600, last + 3700, every_s=1)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.CONFIRMED]
    assert last + 3660 <= found[1][0] <= last + 3662


def test_the_owners_limit_confirms_without_another_sign(timeline: Timeline) -> None:
    timeline.watched = replace(timeline.watched, hang_after_s=20.0)
    last = timeline.steps(1, 20, 0.0)

    found = timeline.quiet(last, last + 100)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.CONFIRMED]
    assert last + 20 <= found[1][0] <= last + 20.5
    assert found[1][1].signs == {Sign.OWNER_LIMIT}


def test_an_owners_limit_below_the_suspicion_confirms_at_once(timeline: Timeline) -> None:
    timeline.watched = replace(timeline.watched, hang_after_s=5.0)
    last = timeline.steps(1, 20, 0.0)

    found = timeline.quiet(last, last + 100)

    assert [each.certainty for _, each in found] == [Certainty.CONFIRMED]


@pytest.mark.parametrize("phase", [Phase.SAVING, Phase.EVALUATING, Phase.LOADING])
def test_an_announced_phase_suspends_the_clock_up_to_its_own_limit(timeline: Timeline, phase: Phase) -> None:
    timeline.watched = replace(timeline.watched, hang_after_s=60.0)
    last = timeline.steps(1, 20, 0.0)
    timeline.phase(phase)

    assert timeline.quiet(last, last + 1800, every_s=5) == []
    found = timeline.quiet(last + 1800, last + 1900, every_s=1)
    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.CONFIRMED]


def test_the_clock_begins_anew_when_a_phase_ends(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.phase(Phase.SAVING)
    timeline.see(CheckpointSeen(at=at(last), event=CheckpointEvent.BEGUN, step=20))
    timeline.quiet(last, last + 100, every_s=1)
    timeline.phase(Phase.TRAINING)
    timeline.see(CheckpointSeen(at=at(last + 100), event=CheckpointEvent.DURABLE, step=20))

    (when, _), *_ = timeline.quiet(last + 100, last + 200, every_s=1)

    assert last + 112 <= when <= last + 113


def test_a_checkpoint_folder_that_grows_is_life(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for number in range(60):
        timeline.see(Life(at=at(last + number * 10), what="checkpoint folder"))
        assert timeline.quiet(last + number * 10, last + number * 10 + 9, every_s=1) == []


def test_a_save_that_grows_beyond_its_limit_is_no_hang_until_it_stops_growing(timeline: Timeline) -> None:
    timeline.watched = replace(timeline.watched, hang_after_s=60.0)
    last = timeline.steps(1, 20, 0.0)
    timeline.phase(Phase.SAVING)
    limit_s = timeline.watched.hang.phase_limit_s
    for number in range(round(3 * limit_s / 30)):
        timeline.see(Life(at=at(last + number * 30), what="checkpoint folder"))
        assert timeline.quiet(last + number * 30, last + number * 30 + 29, every_s=1) == []
    grew = last + 3 * limit_s - 30

    assert timeline.quiet(grew + 30, grew + limit_s, every_s=5) == []
    found = timeline.quiet(grew + limit_s, grew + 2 * limit_s, every_s=1)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED, Certainty.CONFIRMED]


def test_a_pause_that_the_attempt_got_over_is_no_news_the_next_time(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    assert len(timeline.quiet(last, last + 40, every_s=1)) == 1
    last = timeline.steps(21, 40, last + 40)
    timeline.progress = replace(timeline.progress, longest_pause_s=40.0)

    assert timeline.quiet(last, last + 79, every_s=1) == []
    assert len(timeline.quiet(last + 80, last + 82, every_s=1)) == 1
    assert timeline.state.healed == 1


def test_pauses_of_twenty_times_the_step_are_never_suspected(timeline: Timeline) -> None:
    seconds = 0.0
    for number in range(100):
        seconds = timeline.steps(number * 5, number * 5 + 4, seconds) + 10.0

    assert timeline.findings == []


def test_a_report_every_hundredth_step_is_waited_for_by_its_own_rhythm(timeline: Timeline) -> None:
    seconds = 0.0
    for number in range(10):
        timeline.steps(100 * number, 100 * number, seconds)
        seconds += 300.0
        assert timeline.quiet(seconds - 299, seconds - 1, every_s=10) == []

    timeline.quiet(seconds, seconds + 2000, every_s=10)
    assert [when >= seconds - 300 + 1200 for when, _ in timeline.findings] == [True, True]


def test_before_the_rhythm_is_known_the_first_steps_take_as_long_as_they_take(timeline: Timeline) -> None:
    timeline.median_s = 0.0
    timeline.steps(1, 2, 0.0)
    timeline.progress = replace(timeline.progress, median_step_s=None)

    assert timeline.quiet(1.0, 1700.0, every_s=10) == []
    assert len(timeline.quiet(1700.0, 1900.0, every_s=10)) == 1


def test_without_recognised_steps_nothing_is_said_however_long(timeline: Timeline) -> None:
    assert timeline.quiet(0.0, 100_000.0, every_s=60) == []


def test_where_steps_are_expected_a_start_of_an_hour_is_suspected(timeline: Timeline) -> None:
    timeline.watched = replace(timeline.watched, expects_steps=True)

    ((when, found),) = timeline.quiet(0.0, 10_000.0, every_s=60)

    assert 3600 <= when <= 3660
    assert (found.certainty, found.symptom) == (Certainty.SUSPECTED, "start_hang")


def test_nothing_is_said_of_an_attempt_that_has_ended(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.watched = replace(timeline.watched, ended_at=at(last + 1), hang_after_s=5.0)

    assert timeline.quiet(last + 1, last + 600, every_s=1) == []


def test_nothing_is_said_after_the_last_step(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, total_steps=20)

    assert timeline.quiet(last, last + 2400, every_s=5) == []


def test_silence_in_which_nothing_was_read_does_not_count(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(SeenUpTo(source="files", at=at(last)))
    timeline.see(StepSeen(at=at(last + 3599), step=21))  # the watcher was away for an hour

    assert timeline.quiet(last + 3600, last + 3611, every_s=1) == []


def test_a_clock_in_another_zone_does_not_make_a_hang(timeline: Timeline) -> None:
    seconds = 0.0
    for number in range(1, 100):
        timeline.see(StepSeen(at=at(seconds - 7200), step=number))
        timeline.see(SeenUpTo(source="files", at=at(seconds)))
        seconds += 0.5

    assert timeline.findings == []


def test_its_state_is_stored_and_read_back(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "xid-79", node="n1"))
    timeline.state = decode(HangState, json.loads(json.dumps(encode(timeline.state))))

    assert len(timeline.quiet(last, last + 200, every_s=1)) == 3


def test_a_silence_begins_with_the_last_step_though_it_is_known_only_up_to_a_while_before(timeline: Timeline) -> None:
    """A log store delivers a line at once, and is known to be read to its end only up to some seconds ago."""
    for number in range(1, 21):
        timeline.see(StepSeen(at=at(number * 0.5), step=number, file="job.out", offset=number * 100))
        timeline.see(SeenUpTo(source="loki", at=at(number * 0.5 - 10.0)))

    (when, found), *_ = timeline.quiet(0.5, 100.0, every_s=0.5)

    assert 10.0 + 12.0 <= when <= 10.0 + 13.0
    assert found.symptom_at == at(10.0)
