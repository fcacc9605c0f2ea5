from __future__ import annotations

import json
import os
import pwd
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

import pytest

from relance.simulation.private_slurm import (
    ClusterPlan,
    PartitionPlan,
    PrivateSlurmError,
    RunningCluster,
    start_cluster,
)
from relance.simulation.private_slurm.leftovers import processes_of
from tests.components.slurm import EVERYBODY, LeasedNodes, leased_nodes, require_slurm

SLEEP = "#!/bin/sh\nexec sleep 600\n"
SMALL = ClusterPlan(
    node_count=1,
    node_prefix="small",
    extra_lines=("MessageTimeout=3",),
    cluster_name="small",
    partitions=(PartitionPlan(name="all", options="Default=YES"),),
)
QUICK_TO_GIVE_UP = ClusterPlan(node_count=2, slurmd_timeout_s=5, extra_lines=("MessageTimeout=3",))
PATIENCE_S = 60.0


def await_(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_job_runs_as_its_owner_and_its_exit_code_is_kept(slurm_nodes: LeasedNodes) -> None:
    cluster = slurm_nodes.cluster
    job = slurm_nodes.submit("owner1", "#!/bin/sh\nid -un\nexit 3\n")
    cluster.wait_for_state(job, "FAILED")
    assert cluster.job_fields(job)["ExitCode"] == "3:0"
    assert (cluster.work_dir("owner1") / f"slurm-{job}.out").read_text() == "owner1\n"


def test_a_job_stays_on_the_leased_nodes(slurm_nodes: LeasedNodes) -> None:
    cluster = slurm_nodes.cluster
    job = slurm_nodes.submit("owner1", SLEEP, options=["--nodes=3"])
    cluster.wait_for_state(job, "RUNNING")
    hosts = cluster.must("root", ["scontrol", "show", "hostnames", cluster.job_fields(job)["NodeList"]]).split()
    assert tuple(hosts) == slurm_nodes.nodes


def test_a_job_without_a_partition_is_refused_on_the_shared_cluster(slurm_cluster: RunningCluster) -> None:
    with pytest.raises(PrivateSlurmError, match="partition"):
        slurm_cluster.submit("owner1", SLEEP)


def test_the_operator_requeues_a_failed_job_and_another_owner_may_not(slurm_nodes: LeasedNodes) -> None:
    cluster = slurm_nodes.cluster
    job = slurm_nodes.submit("owner1", "#!/bin/sh\nexit 1\n")
    cluster.wait_for_state(job, "FAILED")
    refused = cluster.run_as("owner2", ["scontrol", "requeue", str(job)])
    assert (refused.returncode, "Access/permission denied" in refused.stderr) == (1, True)
    cluster.must("relance", ["scontrol", "requeue", str(job)])
    assert cluster.wait_for_state(job, "PENDING") == "PENDING"
    assert cluster.job_fields(job)["Restarts"] == "1"


def test_the_operator_is_an_operator_and_no_administrator(slurm_cluster: RunningCluster) -> None:
    users = slurm_cluster.must("relance", ["sacctmgr", "-nP", "show", "user", "format=user,admin"]).split()
    assert {"relance|Operator", "owner1|None", "owner2|None"} <= set(users)


def test_a_comment_reaches_accounting(slurm_nodes: LeasedNodes) -> None:
    cluster = slurm_nodes.cluster
    job = slurm_nodes.submit("owner1", "#!/bin/sh\ntrue\n", options=["--comment=relance:act"])
    cluster.wait_for_state(job, "COMPLETED")
    ask = ["sacct", "-nPX", f"--jobs={job}", "--format=state,comment"]
    await_(lambda: cluster.must("relance", ask).strip() == "COMPLETED|relance:act", "the comment in accounting")


def test_a_credential_of_the_private_munged_names_who_made_it(slurm_cluster: RunningCluster) -> None:
    socket = f"--socket={slurm_cluster.munge_socket}"
    made = slurm_cluster.must("owner1", ["munge", socket, "--no-input"])
    read = slurm_cluster.run_as("relance", ["unmunge", socket], stdin=made)
    assert f"owner1 ({pwd.getpwnam('owner1').pw_uid})" in read.stdout


def test_the_cluster_is_the_same_after_a_journey_as_text(slurm_cluster: RunningCluster) -> None:
    assert RunningCluster.from_json(slurm_cluster.to_json()) == slurm_cluster


def test_a_killed_node_loses_its_jobs_goes_down_and_comes_back(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    cluster = private_slurm(QUICK_TO_GIVE_UP)
    job = cluster.submit("owner1", SLEEP, options=["--nodelist=gpu002"])
    cluster.wait_for_state(job, "RUNNING")
    await_(lambda: "sleep" in _commands(Path(cluster.folder), "gpu002"), "the job's process")
    cluster.stop_node("gpu002")
    assert processes_of(Path(cluster.folder), "gpu002") == set()
    await_(lambda: "DOWN" in cluster.node_state("gpu002"), "the node to be given up")
    assert cluster.wait_for_state(job, "PENDING") == "PENDING"
    cluster.start_node("gpu002")
    assert cluster.node_state("gpu002") == "IDLE"


def test_a_job_survives_the_controller_and_the_accounting_being_away(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    cluster = private_slurm(SMALL)
    job = cluster.submit("owner1", SLEEP)
    cluster.wait_for_state(job, "RUNNING")
    cluster.restart_controller()
    assert cluster.job_fields(job)["JobState"] == "RUNNING"
    cluster.stop_controller()
    assert cluster.run_as("relance", ["squeue"]).returncode == 1
    cluster.start_controller()
    cluster.stop_accounting()
    assert cluster.run_as("relance", ["sacct"]).returncode == 1
    assert cluster.job_fields(job)["JobState"] == "RUNNING"
    cluster.start_accounting()
    assert cluster.run_as("relance", ["sacct"]).returncode == 0


def test_two_clusters_at_once_know_nothing_of_each_other(
    slurm_cluster: RunningCluster, private_slurm: Callable[[ClusterPlan], RunningCluster]
) -> None:
    small = private_slurm(SMALL)
    assert not set(small.ports.values()) & set(slurm_cluster.ports.values())
    job = small.submit("owner2", "#!/bin/sh\nhostname\n")
    small.wait_for_state(job, "COMPLETED")
    assert small.must("root", ["sinfo", "-hN", "-o", "%N"]).split() == ["small001"]
    small.stop()
    assert "gpu001" in slurm_cluster.must("relance", ["sinfo", "-hN", "-o", "%N"]).split()
    assert pwd.getpwnam("owner2")


def test_nothing_is_left_after_the_stop(private_slurm: Callable[[ClusterPlan], RunningCluster]) -> None:
    cluster = private_slurm(SMALL)
    stubborn = "#!/bin/sh\ntrap '' TERM\nenv -i setsid sleep 600 &\nsrun sleep 600\n"
    job = cluster.submit("owner1", stubborn)
    cluster.wait_for_state(job, "RUNNING")
    folder = Path(cluster.folder)
    await_(lambda: _commands(folder).count("sleep") == 2, "both children of the job")
    known = processes_of(folder)
    assert len([command for command in _commands(folder) if command.startswith("slurmstepd")]) == 2
    cluster.stop()
    assert not folder.exists()
    assert {pid for pid in known if _runs(pid)} == set()
    cluster.stop()


def test_a_cluster_goes_with_its_owner_even_if_that_is_killed() -> None:
    require_slurm()
    plan = json.dumps({**SMALL.to_json(), "prefix": os.environ.get("RELANCE_TEST_SLURM_PREFIX", "")})
    program = (
        "import json, sys, time\n"
        "from relance.simulation.private_slurm import ClusterPlan, start_cluster\n"
        "print(start_cluster(ClusterPlan.from_json(json.loads(sys.argv[1]))).to_json(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, plan], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        cluster = RunningCluster.from_json(owner.stdout.readline())
        pids = cluster.pids.values()
        assert len(pids) == 5
        owner.send_signal(signal.SIGKILL)
    await_(lambda: not Path(cluster.folder).exists(), "the folder to go")
    assert [pid for pid in pids if _runs(pid)] == []


def test_a_daemon_that_dies_at_its_start_shows_its_last_words_and_leaves_nothing(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    name = f"doomed{secrets.token_hex(4)}"
    with pytest.raises(PrivateSlurmError, match=r"(?s)slurmctld ended.*sched/none_such"):
        private_slurm(ClusterPlan(node_count=1, cluster_name=name, extra_lines=("SchedulerType=sched/none_such",)))
    assert [folder for folder in _clusters() if _is_called(folder, name)] == []


def test_a_missing_program_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(PrivateSlurmError, match=r"slurmctld is not in .*apt-get install slurm-wlm"):
        start_cluster(ClusterPlan(prefix=str(tmp_path)))


def test_a_lease_gives_its_nodes_back_idle_whatever_was_done_to_them(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=2, partitions=(EVERYBODY,)))
    with leased_nodes(cluster, 2) as lease:
        first, second = lease.nodes
        job = lease.submit("owner1", SLEEP, options=["--nodes=2"])
        cluster.wait_for_state(job, "RUNNING")
        waiting = lease.submit("owner2", SLEEP, options=["--exclusive"])
        lease.add_partition("urgent", "PriorityTier=10")
        cluster.must("root", ["scontrol", "update", f"NodeName={first}", "State=DRAIN", "Reason=test"])
        cluster.stop_node(second)
    assert [cluster.node_state(node) for node in (first, second)] == ["IDLE", "IDLE"]
    assert {cluster.job_fields(each)["JobState"] for each in (job, waiting)} == {"CANCELLED"}
    assert cluster.must("root", ["sinfo", "-h", "-o", "%R"]).split() == [EVERYBODY.name]
    with leased_nodes(cluster, 2) as again:
        assert again.nodes == lease.nodes


def _commands(folder: Path, node: str | None = None) -> list[str]:
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes_of(folder, node)]


def _clusters() -> set[Path]:
    """The folders of all private clusters on this machine."""
    return {folder for place in ("/dev/shm", gettempdir()) for folder in Path(place).glob("relance-slurm-*")}


def _is_called(folder: Path, name: str) -> bool:
    try:
        return f"ClusterName={name}\n" in (folder / "slurm.conf").read_text()
    except OSError:
        return False


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_lease_that_ends_leaves_the_jobs_and_the_partition_of_another_alone(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=2, partitions=(EVERYBODY,)))
    with leased_nodes(cluster, 1) as mine:
        job = mine.submit("owner1", "#!/bin/sh\nsleep 60\n")
        cluster.wait_for_state(job, "RUNNING")
        with leased_nodes(cluster, 1) as other:
            assert set(other.nodes).isdisjoint(mine.nodes)
        assert cluster.job_fields(job)["JobState"] == "RUNNING"
        again = mine.submit("owner1", "#!/bin/sh\ntrue\n")
        cluster.wait_for_state(again, {"PENDING", "COMPLETED", "RUNNING"})
