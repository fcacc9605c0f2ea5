from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.simulation.clusters import SLEEP, RunningCluster, until_gone
from tests.integration.simulation.conftest import ClusterMaker


def rank_pids(cluster: RunningCluster, job_id: int, count: int) -> list[int]:
    return [int(cluster.ask("rank_pid", job_id=job_id, rank=rank)["pid"]) for rank in range(count)]


def test_ranks_and_their_children_die_with_the_daemon_and_the_next_one_calls_them_lost(cluster: RunningCluster) -> None:
    script = "sleep 61 & echo $!; wait"
    job_id = cluster.running(["sh", "-c", script], nodes=2)
    stubborn = cluster.running(SLEEP, requeue=False)
    deadline = time.monotonic() + 5
    while cluster.output(job_id).count("\n") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    children = [int(line.split()[1]) for line in cluster.output(job_id).splitlines()]
    pids = rank_pids(cluster, job_id, 2) + rank_pids(cluster, stubborn, 1)
    cluster.stop(signal.SIGKILL)
    assert len(children) == 2
    assert until_gone(pids + children)
    cluster.start()
    row = cluster.job(job_id)
    assert (row["state"], row["restart_count"], row["reason"]) == ("PENDING", 1, "BeginTime")
    assert cluster.attempts(job_id)[0]["state"] == "NODE_FAIL"
    assert cluster.job(stubborn)["state"] == "NODE_FAIL"
    assert cluster.submit(SLEEP) == stubborn + 1


def test_a_terminated_daemon_ends_its_ranks_first(cluster: RunningCluster) -> None:
    job_id = cluster.running(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], nodes=2)
    pids = rank_pids(cluster, job_id, 2)
    cluster.stop()
    assert cluster.process.returncode == 0
    assert until_gone(pids, limit_s=0.2)
    state = json.loads((cluster.state_dir / "scheduler.json").read_text())
    assert [job["state"] for job in state["jobs"]] == ["PENDING"]


def test_jobs_holds_and_accounting_survive_a_restart(cluster: RunningCluster) -> None:
    job_id = cluster.running(SLEEP, comment="keep me")
    cluster.ask("requeuehold", job_id=job_id)
    cluster.until(job_id, "PENDING")
    cluster.ask("drain", node="node006", reason="fan")
    before, rows, change = cluster.job(job_id), cluster.attempts(job_id), cluster.ask("info")["change"]
    cluster.stop()
    cluster.start()
    assert (cluster.job(job_id), cluster.attempts(job_id)) == (before, rows)
    assert cluster.node("node006")["state"] == "drained"
    assert cluster.ask("info")["change"] >= change


def test_the_socket_is_the_owners_alone_and_a_second_daemon_is_refused(cluster: RunningCluster) -> None:
    assert stat.S_IMODE((cluster.state_dir / "scheduler.sock").stat().st_mode) == 0o600
    command = [sys.executable, "-m", "relance.simulation.scheduler", "--state-dir", str(cluster.state_dir)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert "another scheduler runs" in second.stderr


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "settings.json"
    config.write_text('{"requeue_delay": 1}')
    command = [
        sys.executable,
        "-m",
        "relance.simulation.scheduler",
        "--state-dir",
        str(tmp_path),
        "--config",
        str(config),
    ]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "unknown fields of Settings: requeue_delay" in refused.stderr) == (2, True)


def test_ids_partitions_and_features_come_from_the_settings(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(
        nodes=4,
        first_job_id=48_211,
        partitions={"big": ["node001", "node002", "node003"], "small": ["node004"]},
        features={"node003": ["h200"]},
    )
    assert cluster.ask("info")["info"]["partitions"] == ["big", "small"]
    assert cluster.running(SLEEP, features=["h200"]) == 48_211
    assert cluster.job(48_211)["node_list"] == ["node003"]
    assert cluster.job(cluster.running(SLEEP, partition="small"))["node_list"] == ["node004"]
