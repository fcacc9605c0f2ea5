from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relance.simulation.client import SchedulerRefused
from tests.integration.simulation.clusters import SLEEP, RunningCluster, until_gone
from tests.integration.simulation.conftest import ClusterMaker


def test_each_line_carries_its_rank_and_the_last_one_needs_no_newline(cluster: RunningCluster) -> None:
    script = (
        'echo "rank $RANK of $WORLD_SIZE on $NODE_NAME local $LOCAL_RANK attempt ${RESTART_COUNT-unset}"; printf end'
    )
    job_id = cluster.submit(["sh", "-c", script], nodes=6, ranks_per_node=2)
    cluster.until(job_id, "COMPLETED")
    lines = cluster.output(job_id).splitlines()
    assert "03: rank 3 of 12 on node002 local 1 attempt unset" in lines
    assert sorted(line for line in lines if line.endswith(": end")) == [f"{rank:02d}: end" for rank in range(12)]


def test_a_killed_rank_is_named_by_srun_and_takes_the_others_with_it(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=2, ranks_per_node=2)
    cluster.ask("kill_rank", job_id=job_id, rank=3)
    row = cluster.until(job_id, "FAILED")
    assert (row["exit_code"], row["derived_exit_code"], row["reason"]) == ("137:0", "0:9", "NonZeroExitCode")
    lines = cluster.output(job_id).splitlines()
    assert lines[:2] == ["srun: error: node002: task 3: Killed", f"srun: Terminating StepId={job_id}.0"]
    stamp = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    assert re.fullmatch(rf"slurmstepd: error: \*\*\* STEP {job_id}\.0 ON node001 CANCELLED AT {stamp} \*\*\*", lines[2])
    assert set(lines[3:]) == {
        "srun: error: node001: tasks 0-1: Terminated",
        "srun: error: node002: task 2: Terminated",
    }


def test_without_kill_on_bad_exit_the_other_ranks_live_on(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=2, kill_on_bad_exit=False)
    cluster.ask("kill_rank", job_id=job_id, rank=0, signal="SEGV")
    time.sleep(0.4)
    assert cluster.job(job_id)["state"] == "RUNNING"
    assert cluster.ask("rank_pid", job_id=job_id, rank=1)["alive"]
    assert cluster.output(job_id) == "srun: error: node001: task 0: Segmentation fault\n"
    cluster.ask("signal", job_id=job_id, signal="TERM")
    row = cluster.until(job_id, "FAILED")
    assert row["exit_code"] == "143:0"
    assert row["cancelled_by"] is None


def test_a_cancel_is_recorded_with_the_uid_of_who_asked(cluster: RunningCluster) -> None:
    own = cluster.running(SLEEP)
    cluster.ask("cancel", job_id=own)
    other = cluster.running(SLEEP)
    cluster.ask("cancel", job_id=other, acting_uid=4711)
    assert cluster.until(own, "CANCELLED")["cancelled_by"] == os.getuid()
    cluster.until(other, "CANCELLED")
    assert cluster.attempts(own)[0]["state"] == f"CANCELLED by {os.getuid()}"
    assert cluster.attempts(other)[0]["state"] == "CANCELLED by 4711"


def test_a_cancelled_step_leaves_a_failed_job_and_only_the_step_says_who(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    cluster.ask("cancel_step", job_id=job_id, acting_uid=4711)
    row = cluster.until(job_id, "FAILED")
    assert (row["exit_code"], row["cancelled_by"]) == ("137:0", None)
    (attempt,) = cluster.attempts(job_id)
    assert [(step["step"], step["state"]) for step in attempt["steps"]] == [
        ("batch", "FAILED"),
        ("0", "CANCELLED by 4711"),
    ]


def test_a_lost_node_ends_the_attempt_and_slurm_requeues_the_job_by_itself(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=2)
    pids = [cluster.ask("rank_pid", job_id=job_id, rank=rank)["pid"] for rank in (0, 1)]
    cluster.ask("node_down", node="node002")
    row = cluster.until(job_id, "PENDING")
    assert (row["restart_count"], row["reason"]) == (1, "BeginTime")
    assert cluster.attempts(job_id)[0]["state"] == "NODE_FAIL"
    assert cluster.node("node002")["state"] == "down"
    assert "srun: error: Node failure on node002" in cluster.output(job_id)
    assert until_gone(pids)
    time.sleep(0.35)
    cluster.ask("update", job_id=job_id, start_time="now")
    assert cluster.until(job_id, "RUNNING")["node_list"] == ["node001", "node003"]


def test_a_lost_node_ends_a_job_that_does_not_want_to_be_requeued(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, requeue=False)
    cluster.ask("node_down", node="node001")
    assert cluster.until(job_id, "NODE_FAIL")["exit_code"] == "1:0"
    cluster.ask("node_up", node="node001")
    assert cluster.node("node001")["state"] == "idle"


def test_nodes_that_are_drained_reserved_or_down_get_no_work(cluster: RunningCluster) -> None:
    cluster.ask("drain", node="node001", reason="fan", acting_uid=7)
    cluster.ask("reserve", node="node002", kind="maint")
    cluster.ask("node_down", node="node003")
    assert [cluster.node(f"node00{number}")["state"] for number in (1, 2, 3)] == ["drained", "maint", "down"]
    assert (cluster.node("node001")["reason"], cluster.node("node001")["reason_uid"]) == ("fan", 7)
    assert cluster.job(cluster.running(SLEEP, nodes=3))["node_list"] == ["node004", "node005", "node006"]
    waiting = cluster.submit(SLEEP)
    time.sleep(0.2)
    assert cluster.job(waiting)["reason"] == "Resources"
    cluster.ask("resume", node="node001")
    assert cluster.until(waiting, "RUNNING")["node_list"] == ["node001"]


def test_a_time_limit_ends_the_job_and_the_reason_is_in_its_output(cluster: RunningCluster) -> None:
    job_id = cluster.submit(SLEEP, time_limit_s=0.3)
    assert cluster.until(job_id, "TIMEOUT")["exit_code"] == "0:0"
    assert "DUE TO TIME LIMIT" in cluster.output(job_id)


def test_a_rank_killed_for_memory_ends_out_of_memory_and_the_kernel_says_so(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, nodes=2)
    cluster.ask("oom_rank", job_id=job_id, rank=1)
    assert cluster.until(job_id, "OUT_OF_MEMORY")["exit_code"] == "0:125"
    assert "srun: error: node002: task 1: Out Of Memory" in cluster.output(job_id)
    assert "Memory cgroup out of memory" in Path(cluster.node("node002")["kernel_log"]).read_text()


def test_preempted_ranks_that_leave_in_the_grace_time_make_a_failed_job(cluster: RunningCluster) -> None:
    script = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(1)); print('up', flush=True); time.sleep(60)"
    )
    job_id = cluster.running([sys.executable, "-c", script])
    deadline = time.monotonic() + 5
    while "up" not in cluster.output(job_id) and time.monotonic() < deadline:
        time.sleep(0.02)
    cluster.ask("preempt", job_id=job_id, grace_s=5.0)
    row = cluster.until(job_id, "FAILED")
    assert (row["exit_code"], row["preempt_time"] is not None) == ("1:0", True)


def test_a_stopped_rank_does_not_keep_its_job_from_ending(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    cluster.ask("stop_rank", job_id=job_id, rank=0)
    cluster.ask("requeue", job_id=job_id)
    cluster.until(job_id, "PENDING", limit_s=2.0)


def test_a_command_that_cannot_be_run_fails_with_a_word(cluster: RunningCluster) -> None:
    job_id = cluster.submit(["/no/such/program"], nodes=2)
    assert cluster.until(job_id, "FAILED")["exit_code"] == "2:0"
    assert "slurmstepd: error: execve(): /no/such/program: No such file or directory" in cluster.output(job_id)


def test_a_new_attempt_truncates_the_log_unless_it_is_to_append(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(requeue_delay_s=0.1)
    jobs = {
        mode: cluster.submit(["sh", "-c", "echo $RANDOM; exit 1"], open_mode=mode) for mode in ("append", "truncate")
    }
    for job_id in jobs.values():
        cluster.until(job_id, "FAILED")
        cluster.ask("requeue", job_id=job_id)
    for mode, job_id in jobs.items():
        assert cluster.until(job_id, "FAILED")["restart_count"] == 1
        assert cluster.output(job_id).count("Exited with exit code 1") == (2 if mode == "append" else 1)


def test_files_per_rank_hold_the_lines_without_labels(cluster: RunningCluster, tmp_path: Path) -> None:
    where = {"work_dir": str(tmp_path), "output": "logs/%x-%j-%N.log", "ranks_files": "logs/rank-%t.log"}
    job_id = cluster.submit(["sh", "-c", "echo $RANK"], nodes=2, name="llm", **where)
    row = cluster.until(job_id, "COMPLETED")
    assert row["std_out"] == str(tmp_path / f"logs/llm-{job_id}-node001.log")
    assert [Path(path).read_text() for path in row["ranks_files"]] == ["0\n", "1\n"]
    assert cluster.output(job_id) == ""


def test_a_kernel_line_has_time_and_node_before_it(cluster: RunningCluster) -> None:
    cluster.ask("kernel_line", node="node004", text="NVRM: Xid (PCI:0000:9b:00): 31, pid=1")
    line = Path(cluster.node("node004")["kernel_log"]).read_text()
    assert re.fullmatch(
        r"[0-9-]{10}T[0-9:.]{15}\+00:00 node004 kernel: NVRM: Xid \(PCI:0000:9b:00\): 31, pid=1\n", line
    )


def test_dependencies_are_asked_once_and_not_again_after_a_requeue(cluster: RunningCluster) -> None:
    first = cluster.running(SLEEP, name="chain")
    second = cluster.submit(SLEEP, name="chain", dependency="singleton")
    time.sleep(0.15)
    assert cluster.job(second)["reason"] == "Dependency"
    cluster.ask("kill_rank", job_id=first, rank=0)
    cluster.until(second, "RUNNING")
    cluster.ask("requeue", job_id=first)
    time.sleep(0.35)
    cluster.ask("update", job_id=first, start_time="now")
    cluster.until(first, "RUNNING")
    assert cluster.job(second)["state"] == "RUNNING"


def test_a_failed_afterok_stays_failed_until_it_is_set_again(cluster: RunningCluster) -> None:
    first = cluster.running(["sh", "-c", 'test -n "$RESTART_COUNT" || sleep 60'])
    dependent = cluster.submit(SLEEP, dependency=f"afterok:{first}")
    cluster.ask("kill_rank", job_id=first, rank=0)
    cluster.until(first, "FAILED")
    time.sleep(0.1)
    assert cluster.job(dependent)["reason"] == "DependencyNeverSatisfied"
    cluster.ask("requeue", job_id=first)
    time.sleep(0.35)
    cluster.ask("update", job_id=first, start_time="now")
    cluster.until(first, "COMPLETED")
    time.sleep(0.1)
    assert cluster.job(dependent)["reason"] == "DependencyNeverSatisfied"
    cluster.ask("update", job_id=dependent, dependency=f"afterok:{first}")
    cluster.until(dependent, "RUNNING")


def test_bad_requests_are_refused_with_a_word(cluster: RunningCluster) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"op": "nonsense"}, "unknown operation"),
        ({"op": "job"}, "missing field job_id"),
        ({"op": "job", "job_id": "1"}, "field job_id has the wrong type"),
        ({"op": "submit", "name": "x", "argv": ["true"], "nodes": 7}, "Requested node configuration is not available"),
        ({"op": "submit", "name": "x", "argv": [], "nodes": 1}, "argv is empty"),
        ({"op": "drain", "node": "nosuch", "reason": "x"}, "Invalid node name specified"),
    ]
    for fields, word in cases:
        with pytest.raises(SchedulerRefused, match=word):
            cluster.ask(**fields)
    assert cluster.ask("info")["info"]["release"] == "simulated 1"


def test_a_wait_returns_when_something_changes(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP)
    time.sleep(0.2)
    change = cluster.ask("info")["change"]
    began = time.monotonic()
    assert cluster.ask("wait", after=change, timeout_s=0.3)["change"] == change
    assert 0.3 <= time.monotonic() - began < 15
    os.kill(cluster.ask("rank_pid", job_id=job_id, rank=0)["pid"], signal.SIGKILL)
    began = time.monotonic()
    assert cluster.ask("wait", after=change, timeout_s=60.0)["change"] > change
    assert time.monotonic() - began < 30
