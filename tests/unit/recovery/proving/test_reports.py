from __future__ import annotations

from relance.domain.faults import Remedy
from relance.domain.findings import Sight
from relance.domain.progress import Progress
from relance.domain.stages import EndRunning
from relance.domain.views import JobState
from relance.recovery.proving.reports import Evidence, proofs, to_ask_for
from tests.unit.recovery.proving.made_up import (
    NOON,
    acted,
    advised,
    hour,
    job,
    key,
    measured,
    opened,
    ran,
    report,
    requeued,
)

FIRST = key()
SECOND = key(restart_count=1)
HANG = EndRunning.HANG


def test_an_advice_to_end_an_attempt_that_later_made_a_step_is_listed() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG))
    found = report(job(FIRST, *ran(FIRST, 0, 3, JobState.COMPLETED), *story, measured(FIRST, last_step_h=2)))
    assert (found.ends.advised, found.ends.false, found.ends.not_known) == (1, 1, 0)
    (wrong,) = found.ends.listed
    assert (wrong.subject.attempt, wrong.advised_at, wrong.step, wrong.step_at) == (FIRST, hour(1.5), 90, hour(2))
    assert wrong.kind is HANG


def test_an_advice_to_end_an_attempt_that_made_no_further_step_was_right() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG))
    found = report(job(FIRST, *ran(FIRST, 0, 3), *story, measured(FIRST, last_step_h=1)))
    assert (found.ends.advised, found.ends.false) == (1, 0)


def test_an_advice_that_is_held_asked_for_nothing() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG, hold=True))
    assert report(job(FIRST, *ran(FIRST, 0, 3), *story, measured(FIRST, last_step_h=2))).ends.advised == 0


def test_the_first_of_several_advices_counts_once() -> None:
    story = (*opened(FIRST, 1), *(advised(FIRST, 1.5 + n, ends=HANG, generation=n + 1) for n in range(3)))
    found = report(job(FIRST, *ran(FIRST, 0, 9), *story, measured(FIRST, last_step_h=2)))
    assert (found.ends.advised, found.ends.false) == (1, 1)
    assert found.ends.listed[0].advised_at == hour(1.5)


def test_without_a_known_step_nothing_is_proved() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG))
    found = report(job(FIRST, *ran(FIRST, 0, 3), *story))
    assert (found.ends.advised, found.ends.false, found.ends.not_known) == (1, 0, 1)
    assert "of which no step is known" in " ".join(found.promotions[0].missing)


def test_an_attempt_that_still_runs_is_judged_by_its_newest_progress() -> None:
    record = job(FIRST, *ran(FIRST, 0), *opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG))
    assert to_ask_for((record,), NOON) == (FIRST,)
    progress = {FIRST: Progress(as_of=hour(4), step=120, step_at=hour(3))}
    found = proofs(Evidence(records=(record,), since=NOON, now=hour(5), progress=progress))
    assert (found.ends.false, found.ends.listed[0].step) == (1, 120)


def test_a_requeue_by_hand_gives_the_hours_since_our_advice() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25), requeued(FIRST, 4.25), *ran(SECOND, 4.5))
    saved = report(job(FIRST, *ran(FIRST, 0, 1), *story)).savings
    assert (saved.restarts_by_hand, saved.hours, saved.node_hours, saved.gpu_hours) == (1, 3.0, 6.0, 48.0)
    assert (saved.saved.median_s, saved.hands.median_s) == (3 * 3600, 3.25 * 3600)
    assert saved.listed[0].how == "requeued"


def test_a_copy_submitted_after_the_end_gives_them_too() -> None:
    record = job(FIRST, *ran(FIRST, 0, 1), *opened(FIRST, 1), advised(FIRST, 1.25))
    copy = key("18", submitted_h=2.25)
    saved = report(record, job(copy, *ran(copy, 2.5))).savings
    assert (saved.restarts_by_hand, saved.hours, saved.listed[0].how) == (1, 1.0, "resubmitted as 18")


def test_a_job_of_the_same_name_from_another_folder_is_no_copy() -> None:
    record = job(FIRST, *ran(FIRST, 0, 1), *opened(FIRST, 1), advised(FIRST, 1.25))
    other, earlier, late = key("18", submitted_h=2), key("19", submitted_h=0.5), key("20", submitted_h=24 * 8)
    saved = report(record, job(other, work_dir="/home/ada/y"), job(earlier), job(late)).savings
    assert saved.restarts_by_hand == 0


def test_one_copy_stands_for_one_failure_only() -> None:
    one, two = key("17"), key("16")
    records = [job(each, *ran(each, 0, 1), *opened(each, 1), advised(each, 1.25)) for each in (one, two)]
    assert report(*records, job(key("18", submitted_h=2))).savings.restarts_by_hand == 1


def test_what_the_scheduler_requeued_is_no_persons_hand() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25), requeued(FIRST, 1.5, "scheduler"), *ran(SECOND, 2))
    found = report(job(FIRST, *ran(FIRST, 0, 1, JobState.NODE_FAIL), *story))
    assert found.savings.restarts_by_hand == 0
    assert (found.agreement.compared, found.agreement.not_yet) == (0, 0)


def test_a_person_who_was_first_saves_us_nothing() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5), requeued(FIRST, 1.25), *ran(SECOND, 2))
    saved = report(job(FIRST, *ran(FIRST, 0, 1), *story)).savings
    assert (saved.restarts_by_hand, saved.person_first, saved.hours) == (1, 1, 0.0)


def test_gpus_that_are_not_known_are_left_out_and_counted() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25), requeued(FIRST, 2.25))
    saved = report(job(FIRST, *ran(FIRST, 0, 1, gpus=None), *story)).savings
    assert (saved.gpu_hours, saved.gpus_not_known, saved.node_hours) == (0.0, 1, 2.0)


def test_our_own_restarts_are_estimated_by_the_median_hand() -> None:
    hands = [key(str(100 + n)) for n in range(5)]
    records = [
        job(each, *ran(each, 0, 1), *opened(each, 1), advised(each, 1), requeued(each, 3), work_dir=f"/{each}")
        for each in hands
    ]
    ours = job(FIRST, *ran(FIRST, 0, 1), *opened(FIRST, 1), advised(FIRST, 1), *acted(FIRST, 1.5))
    saved = report(*records, ours).savings
    assert (saved.hands.median_s, saved.ours.median_s, saved.estimate_hours) == (7200, 1800, 1.5)
    assert report(*records[1:], ours).savings.estimate_hours is None


def test_a_failure_without_an_incident_is_missed_and_one_found_late_is_late() -> None:
    missed = job(key("1"), *ran(key("1"), 0, 1))
    late = job(key("2"), *ran(key("2"), 0, 1), *opened(key("2"), 1.5))
    seen = job(key("3"), *ran(key("3"), 0, 1), *opened(key("3"), 1.01))
    cancelled = job(key("4"), *ran(key("4"), 0, 1, cancelled_by=1000))
    done = job(key("5"), *ran(key("5"), 0, 1, JobState.COMPLETED))
    found = report(missed, late, seen, cancelled, done).misses
    assert (found.failures, found.missed, found.late) == (3, 1, 1)
    assert {item.subject.attempt.job.raw_id: item.found_after_s for item in found.listed_failures} == {
        "1": None,
        "2": 1800.0,
    }


def test_a_job_cancelled_long_after_its_last_step_may_have_hung() -> None:
    silent = job(key("1"), *ran(key("1"), 0, 3, JobState.CANCELLED), measured(key("1"), last_step_h=1))
    lively = job(key("2"), *ran(key("2"), 0, 3, JobState.CANCELLED), measured(key("2"), last_step_h=2.9))
    unknown = job(key("3"), *ran(key("3"), 0, 3, JobState.TIMEOUT))
    waiting = job(key("4"), *ran(key("4"), 0, 3, JobState.CANCELLED)[1:])
    told = job(key("5"), *ran(key("5"), 0, 3, JobState.CANCELLED), *opened(key("5"), 2), measured(key("5")))
    found = report(silent, lively, unknown, waiting, told).misses
    assert (found.silent_ends, found.silence_not_known) == (1, 1)
    assert (found.listed_ends[0].subject.attempt, found.listed_ends[0].silent_s) == (key("1"), 7200.0)


def test_coverage_is_by_gpu_hours_inside_the_window() -> None:
    read = job(key("1"), *ran(key("1"), -2, 2), measured(key("1"), kernel=Sight.SEEN))
    refused = job(key("2"), *ran(key("2"), 0, 1), measured(key("2"), log=Sight.REFUSED, steps_seen=0))
    unseen = job(key("3"), *ran(key("3"), 0, 1))
    older = job(key("4"), *ran(key("4"), 0, 1, is_measured=False))
    rows = report(read, refused, unseen, older).coverage
    row = rows[0]
    assert [each.partition for each in rows] == ["gpu", "all"]
    assert (row.unit, row.attempts, row.hours, row.known) == ("GPU", 4, 16 * 5.0, 16 * 4.0)
    assert (row.read, row.progress, row.kernel) == (32.0, 32.0, 32.0)
    assert row.read_share == 0.5


def test_coverage_is_by_node_hours_where_some_gpus_are_not_known() -> None:
    known = job(key("1"), *ran(key("1"), 0, 1), measured(key("1")))
    not_known = job(key("2"), *ran(key("2"), 0, 1, gpus=None), measured(key("2")))
    row = report(known, not_known).coverage[0]
    assert (row.unit, row.hours, row.read) == ("node", 4.0, 4.0)


def test_an_attempt_that_has_just_ended_may_yet_be_measured() -> None:
    record = job(FIRST, *ran(FIRST, 0, 1))
    assert report(record, until_h=1.1).coverage[0].known == 0.0
    assert report(record, until_h=1.2).coverage[0].read_share == 0.0


def test_an_attempt_that_runs_is_covered_by_what_is_seen_now() -> None:
    record = job(FIRST, *ran(FIRST, 0))
    evidence = Evidence(records=(record,), since=NOON, now=hour(1), seen={FIRST: measured(FIRST)})
    assert proofs(evidence).coverage[0].read_share == 1.0
    assert proofs(Evidence(records=(record,), since=NOON, now=hour(1))).coverage[0].read_share is None


def test_people_who_restart_what_we_would_have_restarted_agree() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25), requeued(FIRST, 2), *ran(SECOND, 2.5, 9, highest_step=200))
    same = report(job(FIRST, *ran(FIRST, 0, 1, highest_step=90), *story)).agreement
    assert (same.compared, same.agreed) == (1, 1)
    assert (same.rows[0].restarted, same.rows[0].went_on) == (1, 1)


def test_work_that_nobody_restarts_for_a_day_was_left() -> None:
    restart = job(key("1"), *ran(key("1"), 0, 1), *opened(key("1"), 1), advised(key("1"), 1.25), name="a")
    stop = job(key("2"), *ran(key("2"), 0, 1), *opened(key("2"), 1), advised(key("2"), 1.25, Remedy.STOP), name="b")
    same = report(restart, stop).agreement
    assert (same.compared, same.agreed, same.not_yet) == (2, 1, 0)
    assert report(restart, stop, until_h=20).agreement.not_yet == 2


def test_an_attempt_that_completed_all_the_same_left_nothing_to_decide() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25, ends=HANG), measured(FIRST, last_step_h=2))
    assert report(job(FIRST, *ran(FIRST, 0, 3, JobState.COMPLETED), *story)).agreement.compared == 0


def test_a_stop_after_which_a_persons_restart_made_new_steps_was_wrong() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.25, Remedy.STOP), requeued(FIRST, 2))
    after = ran(SECOND, 2.5, 9, JobState.COMPLETED, highest_step=200)
    same = report(job(FIRST, *ran(FIRST, 0, 1, highest_step=90), *story, *after)).agreement
    assert (same.compared, same.agreed) == (1, 0)
    assert [item.attempt for item in same.disproved_stops] == [FIRST]


def test_what_comes_after_a_persons_decision_is_not_our_last_word() -> None:
    story = (
        *opened(FIRST, 1),
        advised(FIRST, 1.25),
        requeued(FIRST, 2),
        advised(FIRST, 2.1, Remedy.NONE, generation=2),
    )
    found = report(job(FIRST, *ran(FIRST, 0, 1), *story, *ran(SECOND, 2.5)))
    assert (found.agreement.agreed, found.savings.hours) == (1, 0.75)


def test_suspect_nodes_that_were_used_again_are_counted_with_their_failures() -> None:
    def again(raw_id: str, nodes: tuple[str, ...], outcome: JobState) -> object:
        first, second = key(raw_id), key(raw_id, restart_count=1)
        story = (*opened(first, 1), advised(first, 1.1, Remedy.RESTART_EXCLUDING, exclude=("n2",)), requeued(first, 2))
        return job(first, *ran(first, 0, 1), *story, *ran(second, 3, 4, outcome, nodes=nodes), work_dir=f"/{raw_id}")

    records = (
        again("1", ("n1", "n2"), JobState.FAILED),
        again("2", ("n2", "n3"), JobState.COMPLETED),
        again("3", ("n1", "n3"), JobState.COMPLETED),
    )
    same = report(*records).agreement  # type: ignore[arg-type]
    assert (same.nodes_kept_out, same.nodes_used_again, same.nodes_failed_again) == (1, 2, 1)


def test_a_partition_is_ready_by_figures_after_enough_days_and_incidents_without_a_false_end() -> None:
    attempts = [key(str(100 + n)) for n in range(30)]
    records = [job(each, *ran(each, 0, 1), *opened(each, 1), advised(each, 1.1), name=str(each)) for each in attempts]
    small = job(FIRST, *ran(FIRST, 0, 1), *opened(FIRST, 1), partition="small")
    ready, other = report(*records, small).promotions
    assert (ready.partition, ready.ready, ready.missing) == ("gpu", True, ())
    assert (other.partition, other.ready, other.missing) == ("small", False, ("1 of 30 incidents",))
    early = report(*records, until_h=24 * 3).promotions[0]
    assert early.missing == (
        "it knows 3 of the 3 days that this report looks back, and 14 are needed: --since 30d looks further",
    )


def test_one_false_end_speaks_against_promotion() -> None:
    story = (*opened(FIRST, 1), advised(FIRST, 1.5, ends=HANG), measured(FIRST, last_step_h=2))
    found = report(job(FIRST, *ran(FIRST, 0, 3), *story))
    assert found.promotions[0].missing[-1] == (
        "1 time it would have ended an attempt that later made a step; none is allowed"
    )


def test_a_partition_is_reported_alone_with_copies_from_all() -> None:
    record = job(FIRST, *ran(FIRST, 0, 1), *opened(FIRST, 1), advised(FIRST, 1.25))
    elsewhere = job(key("18", submitted_h=2.25), partition="big")
    found = report(record, elsewhere, partition="gpu")
    assert (found.jobs, found.savings.hours) == (1, 1.0)
