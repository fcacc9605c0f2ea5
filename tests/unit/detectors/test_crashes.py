from __future__ import annotations

import json
from dataclasses import replace

import pytest

from relance.detectors.crashes import FINDINGS_AT_MOST, CrashState, step
from relance.domain.encoding import decode, encode
from relance.domain.faults import Role, Scope
from relance.domain.findings import Certainty, FindingKind, RuleHit, Sign
from relance.domain.observations import NodeSign, SeenUpTo
from relance.domain.progress import StepSeen
from tests.unit.detectors.timelines import Timeline, at, hit


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(step=step, state=CrashState())


def test_a_proven_death_is_told_within_two_seconds_as_confirmed(timeline: Timeline) -> None:
    timeline.steps(1, 20, 0.0)
    timeline.see(hit(10.0, "srun-killed", rank=3))

    ((when, found),) = timeline.quiet(10.2, 15.0)

    assert when <= 11.5
    assert (found.kind, found.certainty) == (FindingKind.CRASH, Certainty.CONFIRMED)
    assert found.signs == {Sign.PROCESS_DEATH}
    assert found.symptom == "srun_killed"
    assert found.symptom_at == at(9.5)
    assert found.first_evidence_at == at(10.0)


def test_evidence_of_the_first_moments_is_told_together_and_the_root_names_it(timeline: Timeline) -> None:
    timeline.steps(1, 20, 0.0)
    timeline.see(hit(10.0, "traceback", rank=3))
    timeline.see(hit(10.2, "srun-killed", rank=3))

    ((_, found),) = timeline.quiet(10.2, 15.0)

    assert [each.rule for each in found.hits] == ["traceback", "srun-killed"]
    assert found.symptom == "traceback"
    assert found.counts == {"traceback": 1, "srun-killed": 1}


def test_a_frightening_line_while_training_goes_on_is_noted_and_never_told(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for number in range(50):
        timeline.see(hit(last + 0.1, "traceback", rank=0))
        timeline.see(hit(last + 0.1, "srun-killed", rank=0))
        last = timeline.steps(21 + 3 * number, 23 + 3 * number, last + 0.5)

    assert timeline.findings == []
    assert timeline.state.noted == 50
    assert timeline.quiet(last, last + 600) == []


def test_a_caught_traceback_with_a_long_recovery_is_told_as_suspected_at_most(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "traceback", rank=0))

    found = timeline.quiet(last, last + 90)
    timeline.steps(21, 30, last + 90)

    assert [each.certainty for _, each in found] == [Certainty.SUSPECTED]


def test_an_unproven_root_is_told_when_steps_have_stopped(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last + 0.2, "traceback", rank=3))

    ((when, found),) = timeline.quiet(last + 0.2, last + 20)

    assert last + 2.0 <= when <= last + 2.6
    assert (found.certainty, found.signs) == (Certainty.SUSPECTED, frozenset())


def test_slow_steps_are_given_three_times_their_usual_time(timeline: Timeline) -> None:
    timeline.median_s = 30.0
    last = timeline.steps(1, 5, 0.0, every_s=30.0)
    timeline.see(hit(last + 1, "traceback", rank=3))

    ((when, _),) = timeline.quiet(last + 1, last + 120, every_s=1)

    assert last + 90 <= when <= last + 93


def test_a_report_every_hundredth_step_is_waited_for_before_a_line_counts(timeline: Timeline) -> None:
    last = 0.0
    for number in range(6):
        last = timeline.steps(100 * number, 100 * number, 100.0 * number)
    timeline.see(hit(last + 1, "traceback", rank=3))

    assert timeline.quiet(last + 1, last + 299, every_s=5) == []
    assert len(timeline.quiet(last + 301, last + 310, every_s=5)) == 1


def test_a_line_in_a_pause_of_the_usual_length_is_not_told(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.progress = replace(timeline.progress, longest_pause_s=10.0)
    timeline.see(hit(last + 1, "traceback", rank=3))

    assert timeline.quiet(last + 1, last + 15.5) == []
    assert len(timeline.quiet(last + 16, last + 17)) == 1


def test_without_recognised_steps_a_line_is_told_only_after_the_attempts_end(timeline: Timeline) -> None:
    timeline.see(hit(1.0, "traceback", rank=3))
    assert timeline.quiet(1.0, 100.0, every_s=5) == []

    timeline.watched = replace(timeline.watched, ended_at=at(101))

    ((_, found),) = timeline.quiet(101.0, 102.0)
    assert found.certainty is Certainty.SUSPECTED


def test_without_recognised_steps_a_proven_death_is_told_at_once(timeline: Timeline) -> None:
    timeline.see(hit(1.0, "srun-killed", rank=3))

    ((when, _),) = timeline.quiet(1.0, 100.0)

    assert when == pytest.approx(1.6, abs=0.2)


def test_steps_from_a_buffer_do_not_count_as_going_on(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "srun-killed", rank=3))
    for number in range(10, 20):
        timeline.see(StepSeen(at=at(last), step=number, file="rank-1.log"))

    assert len(timeline.quiet(last + 0.2, last + 5)) == 1


def test_one_step_that_was_under_way_does_not_clear_a_death(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "srun-killed", rank=3))
    timeline.see(StepSeen(at=at(last), step=21))

    assert len(timeline.quiet(last + 0.2, last + 5)) == 1


def test_consequences_alone_open_only_when_steps_stop_and_shut_down_noise_never(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "store-lost", role=Role.TEARDOWN))
    timeline.see(hit(last, "advice", role=Role.DIAGNOSTIC))
    assert timeline.quiet(last, last + 60) == []

    timeline.see(hit(last + 60, "collective-timeout", role=Role.CASCADE))

    assert len(timeline.quiet(last + 60, last + 70)) == 1


def test_decisive_new_evidence_is_told_again_with_all_there_is(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "cuda-error", rank=3))
    timeline.see(hit(last, "srun-killed", rank=3))
    timeline.quiet(last + 0.2, last + 10)
    timeline.see(hit(last + 12, "xid-79", node="n1"))
    timeline.see(hit(last + 12, "xid-79", node="n1", offset=999))

    (first, second) = [found for _, found in timeline.findings] + [
        found for _, found in timeline.quiet(last + 12, last + 30)
    ]

    assert first.id != second.id
    assert second.signs == {Sign.PROCESS_DEATH, Sign.KERNEL}
    assert [each.rule for each in second.hits] == ["cuda-error", "srun-killed", "xid-79", "xid-79"]


def test_a_proof_of_death_after_a_suspicion_confirms_it_at_once(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "traceback", rank=3))
    timeline.quiet(last, last + 3)
    timeline.see(hit(last + 3.2, "srun-killed", rank=3))
    timeline.quiet(last + 3.4, last + 6)

    assert [found.certainty for _, found in timeline.findings] == [Certainty.SUSPECTED, Certainty.CONFIRMED]


def test_a_storm_of_lines_gives_few_findings_and_keeps_the_first_of_each_rank(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    for number in range(3000):
        rank = number % 64
        timeline.see(hit(last, "traceback", rank=rank, node=f"n{rank // 8}", offset=number, excerpt="x" * 2000))
    timeline.see(hit(last, "srun-killed", rank=3))
    timeline.quiet(last + 0.2, last + 2)
    for number in range(64, 128):
        timeline.see(hit(last + 2 + number / 10, "traceback", rank=number))
        timeline.quiet(last + 2 + number / 10, last + 2.1 + number / 10)

    found = [each for _, each in timeline.findings]
    assert len(found) <= FINDINGS_AT_MOST
    assert {each.rank for each in found[0].hits} >= set(range(64))
    assert found[0].counts["traceback"] == 3000
    assert len(found[-1].hits) <= 200
    assert len(json.dumps(encode(timeline.state))) <= 256 * 1024


def test_text_that_json_writes_long_stays_within_the_bounds_as_well(timeline: Timeline) -> None:
    for number in range(300):
        timeline.see(hit(1.0, f"rule-{number}", role=Role.ROOT, rank=number, excerpt="\u5931" * 2000, offset=number))

    assert len(json.dumps(encode(timeline.state))) <= 256 * 1024


def test_no_more_than_two_hundred_hits_and_firsts_push_out_repeats(timeline: Timeline) -> None:
    for number in range(300):
        timeline.see(hit(1.0, f"rule-{number}", role=Role.CONTEXT, offset=number))
    timeline.see(hit(2.0, "traceback", rank=5))

    hits = timeline.state.evidence.hits

    assert len(hits) == 200
    assert hits[-1].rank == 5


def test_a_lost_node_is_a_proven_death(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(NodeSign(node="n1", sign="down", at=at(last)))

    ((_, found),) = timeline.quiet(last + 0.2, last + 5)

    assert (found.certainty, found.signs) == (Certainty.CONFIRMED, frozenset({Sign.NODE_DOWN}))


def test_hardware_signs_outlive_the_steps_that_follow_them(timeline: Timeline) -> None:
    timeline.steps(1, 10, 0.0)
    timeline.see(hit(5.0, "xid-63", node="n1", role=Role.CONTEXT))
    timeline.see(hit(5.0, "warning", role=Role.CONTEXT))
    last = timeline.steps(11, 20, 5.5)
    timeline.see(hit(last, "srun-killed", rank=3))

    ((_, found),) = timeline.quiet(last + 0.2, last + 5)

    assert [each.rule for each in found.hits] == ["xid-63", "srun-killed"]


def test_an_attempt_that_ended_is_told_of_at_once(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.watched = replace(timeline.watched, ended_at=at(last + 0.1))
    timeline.see(hit(last + 0.2, "traceback", rank=3))

    assert len(timeline.quiet(last + 0.4, last + 0.4)) == 1


def test_late_hardware_evidence_after_the_end_is_told(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "srun-killed", rank=3))
    timeline.watched = replace(timeline.watched, ended_at=at(last + 1))
    timeline.quiet(last + 1, last + 12)
    timeline.see(hit(last + 12, "xid-79", node="n1"))

    assert len(timeline.quiet(last + 12.2, last + 13)) == 1


def test_the_same_story_gives_the_same_ids(timeline: Timeline) -> None:
    again = Timeline(step=step, state=CrashState())
    for each in (timeline, again):
        last = each.steps(1, 20, 0.0)
        each.see(hit(last, "traceback", rank=3))
        each.quiet(last, last + 3)
        each.see(hit(last + 3, "srun-killed", rank=3))
        each.quiet(last + 3.2, last + 6)

    assert [found.id for _, found in timeline.findings] == [found.id for _, found in again.findings]
    assert len({found.id for _, found in timeline.findings}) == 2


def test_its_state_is_stored_and_read_back(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "srun-killed", rank=3))
    timeline.state = decode(CrashState, json.loads(json.dumps(encode(timeline.state))))

    assert len(timeline.quiet(last + 0.2, last + 5)) == 1


@pytest.mark.parametrize("seconds_ahead", [-7200, 7200])
def test_a_clock_in_another_zone_does_not_shift_the_decision(timeline: Timeline, seconds_ahead: float) -> None:
    seconds = 0.0
    for number in range(1, 21):
        timeline.see(StepSeen(at=at(seconds + seconds_ahead), step=number))
        timeline.see(SeenUpTo(source="files", at=at(seconds)))
        seconds += 0.5
    timeline.see(replace(hit(seconds, "traceback", rank=3), at=at(seconds + seconds_ahead)))

    ((when, found),) = timeline.quiet(seconds, seconds + 10)

    assert when <= seconds + 2.6
    assert found.symptom_at <= at(when)


def test_scopes_other_than_the_kernels_are_cleared_by_steps(timeline: Timeline) -> None:
    timeline.steps(1, 10, 0.0)
    observations: list[RuleHit] = [hit(5.0, "traceback", rank=1), hit(5.0, "device-line", scope=Scope.DEVICE)]
    for each in observations:
        timeline.see(each)
    timeline.steps(11, 13, 5.5)

    assert timeline.state.evidence.hits == ()


def test_lines_that_open_nothing_are_told_at_the_end_of_an_attempt_that_has_an_incident(timeline: Timeline) -> None:
    last = timeline.steps(1, 20, 0.0)
    timeline.see(hit(last, "terminated", role=Role.TEARDOWN))
    timeline.watched = replace(timeline.watched, ended_at=at(last + 1))
    assert timeline.quiet(last + 1, last + 2) == []

    timeline.watched = replace(timeline.watched, has_incident=True)

    ((_, found),) = timeline.quiet(last + 2.2, last + 10)
    assert (found.certainty, found.symptom) == (Certainty.SUSPECTED, "terminated")
