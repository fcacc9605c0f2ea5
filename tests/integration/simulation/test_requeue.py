from __future__ import annotations

import time

import pytest

from relance.simulation.client import SchedulerRefused
from tests.integration.simulation.clusters import DEAF, SLEEP, RunningCluster
from tests.integration.simulation.conftest import ClusterMaker


def test_a_requeued_running_job_waits_with_begin_time_and_one_more_restart(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=2)
    before = cluster.job(job_id)
    cluster.ask("requeue", job_id=job_id)
    row = cluster.until(job_id, "PENDING")
    assert (row["reason"], row["restart_count"], row["node_list"]) == ("BeginTime", 1, [])
    assert row["submit_time"] > before["submit_time"]
    assert row["eligible_time"] == pytest.approx(row["submit_time"] + 30.0)
    first, second = cluster.attempts(job_id)
    assert (first["state"], first["exit_code"], first["derived_exit_code"]) == ("REQUEUED", "0:0", "0:15")
    assert first["nodes"] == before["node_list"]
    assert (second["state"], second["restart_count"], second["start_time"]) == ("PENDING", 1, None)
    assert "DUE TO JOB REQUEUE" in cluster.output(job_id)


def test_a_requeued_failed_job_is_pending_at_once_and_its_failure_stays_in_accounting(cluster: RunningCluster) -> None:
    job_id = cluster.failed()
    cluster.ask("requeue", job_id=job_id)
    row = cluster.job(job_id)
    assert (row["state"], row["restart_count"], row["reason"]) == ("PENDING", 1, "BeginTime")
    assert [(each["state"], each["exit_code"]) for each in cluster.attempts(job_id)] == [
        ("FAILED", "3:0"),
        ("PENDING", "0:0"),
    ]


def test_left_alone_a_requeued_job_starts_by_itself_after_the_delay(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(requeue_delay_s=0.6)
    job_id = cluster.failed()
    cluster.ask("requeue", job_id=job_id)
    asked = cluster.job(job_id)["submit_time"]
    row = cluster.until(job_id, "FAILED")
    assert row["restart_count"] == 1
    assert 0.6 <= row["start_time"] - asked < 15


def test_start_time_now_after_a_pause_starts_the_job_at_once(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=4, ranks_per_node=2)
    cluster.ask("requeue", job_id=job_id)
    cluster.until(job_id, "PENDING")
    time.sleep(0.35)
    cluster.ask("update", job_id=job_id, start_time="now", exclude=["node001"])
    asked = time.monotonic()
    row = cluster.until(job_id, "RUNNING")
    assert time.monotonic() - asked < 15  # the delay after a requeue is twice that
    assert row["node_list"] == ["node002", "node003", "node004", "node005"]
    time.sleep(0.3)
    assert cluster.job(job_id)["state"] == "RUNNING"


def test_start_time_now_right_after_pending_kills_the_new_attempt_at_launch(cluster: RunningCluster) -> None:
    job_id = cluster.failed()
    cluster.ask("requeue", job_id=job_id)
    cluster.ask("update", job_id=job_id, start_time="now")
    row = cluster.until(job_id, "FAILED")
    assert (row["restart_count"], row["reason"]) == (1, "JobLaunchFailure")
    assert cluster.attempts(job_id)[1]["steps"] == []
    assert "Job credential revoked" in (cluster.state_dir / "scheduler.log").read_text()
    assert cluster.node("node001")["state"] == "idle"


def test_without_the_race_the_same_command_starts_the_job(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(launch_race=False)
    job_id = cluster.failed()
    cluster.ask("requeue", job_id=job_id)
    cluster.ask("update", job_id=job_id, start_time="now")
    assert cluster.until(job_id, "FAILED")["reason"] == "NonZeroExitCode"
    assert cluster.attempts(job_id)[1]["exit_code"] == "3:0"


def test_start_time_now_while_completing_is_accepted_and_then_overwritten(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(kill_wait_s=2.0)
    job_id = cluster.running(DEAF)
    cluster.ask("requeue", job_id=job_id)
    assert cluster.job(job_id)["state"] == "COMPLETING"
    cluster.ask("update", job_id=job_id, start_time="now", exclude=["node001"])
    row = cluster.until(job_id, "PENDING")
    assert (row["reason"], row["exclude"]) == ("BeginTime", ["node001"])
    assert row["eligible_time"] == pytest.approx(row["submit_time"] + 30.0)


def test_requeuehold_holds_until_release_and_release_leaves_the_begin_time(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    cluster.ask("requeuehold", job_id=job_id)
    row = cluster.until(job_id, "PENDING")
    assert (row["reason"], row["hold"], row["priority"]) == ("JobHeldUser", "user", 0)
    assert row["description"] == "job requeued in held state"
    cluster.ask("release", job_id=job_id)
    time.sleep(0.2)
    row = cluster.job(job_id)
    assert (row["state"], row["reason"], row["hold"]) == ("PENDING", "BeginTime", "none")


@pytest.mark.parametrize("ending", ["CANCELLED", "COMPLETED"])
def test_a_cancelled_or_completed_job_runs_again_when_requeued(cluster: RunningCluster, ending: str) -> None:
    if ending == "CANCELLED":
        job_id = cluster.running(SLEEP)
        cluster.ask("cancel", job_id=job_id)
    else:
        job_id = cluster.submit(["true"])
    cluster.until(job_id, ending)
    cluster.ask("requeue", job_id=job_id)
    row = cluster.job(job_id)
    assert (row["state"], row["restart_count"], row["cancelled_by"]) == ("PENDING", 1, None)


def test_a_job_submitted_without_requeue_cannot_be_requeued(cluster: RunningCluster) -> None:
    job_id = cluster.failed(requeue=False)
    for op in ("requeue", "requeuehold"):
        with pytest.raises(SchedulerRefused, match=f"Requested operation is presently disabled for job {job_id}"):
            cluster.ask(op, job_id=job_id)
    with pytest.raises(SchedulerRefused, match="Job has already finished"):
        cluster.ask("update", job_id=job_id, requeue=True)


def test_a_purged_job_is_gone_for_good_but_in_accounting(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(min_job_age_s=1.5)  # it is to be seen to fail before it is gone
    job_id = cluster.failed()
    deadline = time.monotonic() + 30
    while cluster.ask("jobs")["jobs"]:
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)
    with pytest.raises(SchedulerRefused, match="Job is no longer known"):
        cluster.ask("requeue", job_id=job_id)
    with pytest.raises(SchedulerRefused, match="Invalid job id specified"):
        cluster.ask("requeue", job_id=job_id + 1)
    assert [each["state"] for each in cluster.attempts(job_id)] == ["FAILED"]


def test_an_exclusion_that_leaves_too_few_nodes_is_accepted_and_the_job_stuck_until_it_is_taken_back(
    cluster: RunningCluster,
) -> None:
    job_id = cluster.failed(nodes=6)
    cluster.ask("requeue", job_id=job_id)
    time.sleep(0.35)
    cluster.ask("update", job_id=job_id, start_time="now", exclude="node002")
    time.sleep(0.2)
    row = cluster.job(job_id)
    assert (row["state"], row["reason"], row["priority"]) == ("PENDING", "BadConstraints", 0)
    cluster.ask("update", job_id=job_id, exclude=[])
    assert cluster.until(job_id, "FAILED")["restart_count"] == 1


def test_exclusions_are_refused_on_a_running_job_and_with_an_unknown_node(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    with pytest.raises(SchedulerRefused, match="Job is no longer pending execution"):
        cluster.ask("update", job_id=job_id, exclude=["node001"])
    cluster.ask("requeue", job_id=job_id)
    cluster.until(job_id, "PENDING")
    with pytest.raises(SchedulerRefused, match="Invalid node name specified"):
        cluster.ask("update", job_id=job_id, exclude=["node001", "nosuch"])
    assert cluster.job(job_id)["exclude"] == []
    cluster.ask("update", job_id=job_id, exclude=["node001"])
    assert cluster.job(job_id)["exclude"] == ["node001"]
