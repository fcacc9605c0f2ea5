"""A heterogeneous job is told of as one job: its leader's, with the nodes, steps and states of all components."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relance.controllers.slurm.hets import joined, joined_past
from relance.controllers.slurm.kinds import component_against, only_watched
from relance.domain.views import Hold, JobState, JobView, PastAttempt, StepView, Wish
from relance.slurm.parsing.jobs import parse_jobs
from tests.unit.slurm.recorded import RELEASES, job_with, recorded

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=120)
LEADER = JobView(
    raw_id="10", first_submitted_at=AT, submitted_at=AT, restart_count=0, name="moe", user="ada", owner_uid=1001,
    partition="gpu", state=JobState.RUNNING, nodes=("gpu001",), started_at=AT, requeue_allowed=True, gpu_count=8,
    steps=(StepView(name="batch", state=JobState.RUNNING), StepView(name="0", state=JobState.RUNNING)),
)  # fmt: skip
OTHER = replace(
    LEADER, raw_id="11", nodes=("gpu002", "gpu003"), node_count=2, gpu_count=16,
    steps=(StepView(name="extern", state=JobState.RUNNING), StepView(name="0", state=JobState.RUNNING)),
)  # fmt: skip


def both(leader: JobView = LEADER, other: JobView = OTHER) -> JobView:
    return joined(leader, [other], is_whole=True)


def test_all_components_are_one_job_with_all_their_nodes_and_steps() -> None:
    view = both()
    assert (view.raw_id, view.state, view.nodes) == ("10", JobState.RUNNING, ("gpu001", "gpu002", "gpu003"))
    assert (view.node_count, view.gpu_count, view.only_watched) == (3, 24, "")
    assert [step.name for step in view.steps or ()] == ["batch", "0", "+1.0"]


def test_a_step_that_was_cancelled_in_another_component_is_seen() -> None:
    ended = (StepView(name="0", state=JobState.CANCELLED, cancelled_by=1001),)
    view = both(replace(LEADER, state=JobState.FAILED), replace(OTHER, state=JobState.FAILED, steps=ended))
    assert [step.cancelled_by for step in view.steps or ()] == [None, None, 1001]


def test_while_the_steps_of_one_component_cannot_be_read_nobodys_decision_is_ruled_out() -> None:
    assert both(other=replace(OTHER, steps=None)).steps is None


@pytest.mark.parametrize(
    ("leader", "other", "both_of_them"),
    [
        (JobState.FAILED, JobState.COMPLETING, JobState.COMPLETING),
        (JobState.FAILED, JobState.RUNNING, JobState.COMPLETING),
        (JobState.RUNNING, JobState.FAILED, JobState.RUNNING),
        (JobState.FAILED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.FAILED, JobState.NODE_FAIL, JobState.NODE_FAIL),
        (JobState.FAILED, JobState.UNKNOWN, JobState.UNKNOWN),
        (JobState.PENDING, JobState.RUNNING, JobState.CONFIGURING),
        (JobState.SUSPENDED, JobState.RUNNING, JobState.SUSPENDED),
        (JobState.PENDING, JobState.PENDING, JobState.PENDING),
    ],
)
def test_the_job_is_over_when_all_components_are(leader: JobState, other: JobState, both_of_them: JobState) -> None:
    assert both(replace(LEADER, state=leader), replace(OTHER, state=other)).state is both_of_them


def test_while_a_component_is_cleared_away_the_attempt_before_is_the_one_that_is_shown() -> None:
    waiting = replace(
        LEADER, state=JobState.PENDING, restart_count=1, submitted_at=LATER, nodes=(), started_at=None, steps=()
    )
    view = both(waiting, replace(OTHER, state=JobState.COMPLETING))
    assert (view.state, view.restart_count, view.submitted_at) == (JobState.COMPLETING, 0, AT)
    assert view.nodes == ("gpu002", "gpu003")
    ready = both(waiting, replace(waiting, raw_id="11", eligible_at=LATER))
    assert (ready.state, ready.restart_count, ready.eligible_at) == (JobState.PENDING, 1, LATER)


def test_a_hold_of_any_component_holds_the_job() -> None:
    waiting = replace(LEADER, state=JobState.PENDING)
    assert both(waiting, replace(OTHER, state=JobState.PENDING, hold=Hold.USER)).hold is Hold.USER


def test_what_cannot_be_done_to_all_components_alike_is_only_watched() -> None:
    same = both(replace(LEADER, excluded=("gpu009",)), replace(OTHER, excluded=("gpu009",)))
    assert (same.excluded, same.only_watched) == (("gpu009",), "")
    assert "exclude different nodes" in both(replace(LEADER, excluded=("gpu009",))).only_watched
    assert "different reservations" in both(other=replace(OTHER, reservation="night")).only_watched
    assert "not all components" in joined(LEADER, [], is_whole=False).only_watched
    assert joined(LEADER, [OTHER], is_whole=True, against="licences").only_watched == "licences"


def test_components_of_other_partitions_count_for_the_stage_and_ask_for_what_they_have_in_common() -> None:
    view = both(
        replace(LEADER, partition="cpu", features=("ib",), devices=()),
        replace(OTHER, features=("ib", "h100"), devices=("gpu:h100",)),
    )
    assert (view.partition, view.features, view.devices) == ("cpu,gpu", ("ib",), ())


def test_an_ended_attempt_has_the_nodes_of_all_components() -> None:
    row = PastAttempt(
        raw_id="10", first_submitted_at=AT, restart_count=0, state=JobState.NODE_FAIL, nodes=("gpu001",)
    )  # fmt: skip
    others = [replace(row, raw_id="11", nodes=("gpu002",)), replace(row, raw_id="11", restart_count=1, nodes=("x",))]
    assert joined_past(row, others).nodes == ("gpu001", "gpu002")


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_shows_which_components_there_are(release: str) -> None:
    jobs = {job.job_id: job for job in parse_jobs(recorded(release, "1-mixed", "squeue.json"))}
    assert jobs[10].het_ids == jobs[11].het_ids == (10, 11)
    assert only_watched(jobs[10], Wish(), release) == ""
    assert "restarts with its leader" in only_watched(jobs[11], Wish(), release)
    assert all(not job.het_ids and not job.is_external for job in jobs.values() if job.het_job_id is None)


def test_licences_of_any_component_keep_the_whole_job_from_a_requeue_that_loses_them() -> None:
    part = job_with(het_job_id=10, het_offset=1, licenses="fluent:2")
    assert component_against(part, "25.05.2").startswith("its component 1: it holds licences (fluent:2)")
    assert (
        component_against(part, "25.11.7") == component_against(job_with(het_job_id=10, het_offset=1), "25.05.2") == ""
    )


def test_a_job_that_holds_nodes_for_pods_is_refused_in_words() -> None:
    words = only_watched(job_with(is_batch=False, is_external=True), Wish(), "25.11.7")
    assert "slurm-bridge" in words
    assert "interactive" in only_watched(job_with(is_batch=False), Wish(), "25.11.7")
