"""`relance check cluster` on a real cluster: as the operator, as a plain user, and as root."""

from __future__ import annotations

import json
import os
import pwd
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relance.cli.main import main
from relance.controllers.slurm.inspections import Inspection, inspect
from relance.controllers.slurm.levels import Fitness, Level
from relance.controllers.slurm.settings import SlurmSettings
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.munge import Munge
from relance.slurm.running import Commands
from relance.testing.other_users import open_python, user_of
from tests.components.slurm import LeasedNodes

StartSlurm = Callable[[ClusterPlan], RunningCluster]
COUNTED_LIMIT_S = 70.0
SMALL = ClusterPlan(node_count=1)


async def _inspected(cluster: RunningCluster, user: str, roots: tuple[Path, ...] = ()) -> Inspection:
    commands = Commands(slurm_conf=cluster.slurm_conf, prefix=tuple(cluster.argv_as(user, _path(cluster))))
    account = (user, pwd.getpwnam(user).pw_uid)
    settings = SlurmSettings(cluster="private", commands=commands, account=account)
    return await inspect(settings, roots, SystemClock(), Munge(socket=cluster.munge_socket))


def _path(cluster: RunningCluster) -> list[str]:
    return ["env", f"PATH={cluster.env['PATH']}"]


def _wait_for_counts(cluster: RunningCluster, running: str) -> None:
    """Wait until slurmctld has counted its jobs anew, which it does every 30 s."""
    end = time.monotonic() + COUNTED_LIMIT_S
    while f"Jobs running: {running}" not in re.sub(" +", " ", cluster.must("root", ["sdiag"])):
        assert time.monotonic() < end, cluster.must("root", ["sdiag"])
        time.sleep(0.2)


def _points(found: Inspection) -> dict[str, Fitness]:
    return {item.name: item for item in found.findings}


async def test_an_operator_is_fit_for_act_on_a_cluster_as_it_should_be(slurm_cluster: RunningCluster) -> None:
    found = await _inspected(slurm_cluster, "relance", (Path("/tmp"), Path("/nowhere")))
    points = _points(found)
    assert [item for item in found.findings if not item.level.allows_act] == []
    assert points["account"].level is Level.OK
    assert (points["sacct"].level, points["queue"].level, points["munge"].level) == (Level.OK,) * 3
    assert points["preemption"].read == "PreemptMode = REQUEUE, PreemptType = preempt/partition_prio"
    roots = [item.level for item in found.findings if item.name == "log_root"]
    assert roots == [Level.OK, Level.WARN]
    assert "slurmctld started" in points["uptime"].read
    assert (points["clock"].level, points["commands"].level) == (Level.OK, Level.OK)
    assert points["clock"].read.startswith("slurmctld ")


async def test_a_plain_user_is_fit_for_observe_and_cannot_act(slurm_cluster: RunningCluster) -> None:
    found = await _inspected(slurm_cluster, "owner1")
    assert [item.name for item in found.findings if not item.level.allows_act] == ["account"]
    assert all(item.level.allows_observe for item in found.findings)


def _as(user: str, cluster: RunningCluster, *argv: str) -> int:
    return cluster.run_as(user, list(argv)).returncode


async def test_what_is_said_to_be_refused_is_refused(slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes) -> None:
    plain = _points(await _inspected(slurm_cluster, "owner1"))["commands"]
    assert plain.level is Level.WARN
    assert plain.read == "refused: scontrol requeue, scontrol update ExcNodeList StartTime, scancel"
    waits = slurm_nodes.submit("owner2", "#!/bin/sh\nsleep 600\n", options=["--begin=now+600"])
    runs = slurm_nodes.submit("owner2", "#!/bin/sh\nsleep 600\n")
    slurm_cluster.wait_for_state(runs, "RUNNING")
    change = ("scontrol", "update", f"JobId={waits}", f"ExcNodeList={slurm_nodes.nodes[0]}", "StartTime=now+900")
    for argv in (("scontrol", "requeue", str(runs)), change, ("scancel", str(runs))):
        assert _as("owner1", slurm_cluster, *argv) != 0, argv
    slurm_cluster.wait_for_state(runs, "RUNNING")
    assert _points(await _inspected(slurm_cluster, "relance"))["commands"].read == "none refused"
    for argv in (change, ("scontrol", "requeue", str(runs)), ("scancel", str(runs))):
        assert _as("relance", slurm_cluster, *argv) == 0, argv


async def test_what_kills_dependent_jobs_and_keeps_logs_is_read_where_slurm_shows_it(
    private_slurm: StartSlurm,
) -> None:
    lines = ("DependencyParameters=kill_invalid_depend", "JobFileAppend=1")
    cluster = private_slurm(ClusterPlan(node_count=1, extra_lines=lines, accounting_store_flags=()))
    points = _points(await _inspected(cluster, "relance"))
    assert points["dependencies"].level is Level.WARN
    assert "out of DependencyParameters" in points["dependencies"].remedy
    assert (points["job_file_append"].level, points["store_flags"].level) == (Level.OK, Level.WARN)
    assert points["known_defects"].read == points["release"].read


async def test_root_is_refused(slurm_cluster: RunningCluster) -> None:
    found = await _inspected(slurm_cluster, "root")
    assert [item.name for item in found.findings if not item.level.allows_observe] == ["account"]


async def test_private_jobs_refuse_a_plain_user_and_no_operator(private_slurm: StartSlurm) -> None:
    cluster = private_slurm(ClusterPlan(node_count=3, extra_lines=("PrivateData=jobs",), min_job_age_s=45))
    for _ in range(3):
        job = cluster.submit("owner2", "#!/bin/sh\nsleep 600\n")
        cluster.wait_for_state(job, "RUNNING")
    _wait_for_counts(cluster, "3")
    plain = _points(await _inspected(cluster, "owner1"))
    assert (plain["private_data"].level, plain["queue"].level) == (Level.BLOCKS_OBSERVE, Level.BLOCKS_OBSERVE)
    assert plain["queue"].text == "only 0 of 3 running jobs are shown to us"
    operator = _points(await _inspected(cluster, "relance"))
    assert (operator["private_data"].level, operator["queue"].level) == (Level.OK, Level.OK)
    assert operator["min_job_age"].level is Level.BLOCKS_ACT


async def test_without_accounting_nothing_is_restarted(private_slurm: StartSlurm) -> None:
    cluster = private_slurm(SMALL)
    cluster.stop_accounting()
    points = _points(await _inspected(cluster, "relance"))
    assert points["sacct"].level is Level.UNREADABLE
    assert points["account"].level is Level.UNREADABLE
    cluster.stop_controller()
    found = await _inspected(cluster, "relance")
    told = [(item.name, item.level) for item in found.findings]
    assert told == [("access", Level.OK), ("slurmctld", Level.BLOCKS_OBSERVE)]


@pytest.fixture
def check(slurm_cluster: RunningCluster, tmp_path: Path) -> Callable[..., Result]:
    """Runs `relance check cluster` as this process's user."""
    settings = tmp_path / "relance.yaml"
    settings.write_text(
        f"clusters:\n- name: private\n  scheduler: {{kind: slurm, conf: {slurm_cluster.slurm_conf}}}\n"
        "- name: other\n  scheduler: {state_dir: /nowhere}\n"
    )
    env = {"PATH": f"{slurm_cluster.env['PATH']}:{os.environ['PATH']}"}
    return lambda *words: CliRunner().invoke(main, ["check", "cluster", "--config", str(settings), *words], env=env)


def test_the_command_refuses_root_with_the_remedy(check: Callable[..., Result]) -> None:
    told = check("private")
    assert told.exit_code == 5, told.output
    assert "private is not fit for observe: root may do everything on this cluster" in told.stderr
    assert "sacctmgr add user relance" in told.stdout
    assert told.stdout.splitlines()[-2:] == ["for observe:   not fit", "for act:       not fit"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest closes its own to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_command_run_by_the_operator_finds_the_cluster_fit(
    slurm_cluster: RunningCluster, open_folder: Path
) -> None:
    folder = open_folder
    python = open_python(folder, user_of("relance"))
    settings = folder / "relance.yaml"
    settings.write_text(f"clusters:\n- name: private\n  scheduler: {{kind: slurm, conf: {slurm_cluster.slurm_conf}}}\n")
    argv = [python.program, "-m", "relance", "check", "cluster", "--config", str(settings), "--for", "act"]
    env = {**python.environment(), "RELANCE_MUNGE_SOCKET": slurm_cluster.munge_socket}
    told = slurm_cluster.run_as("relance", argv, env=env)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.splitlines()[-2:] == ["for observe:   fit", "for act:       fit"]
    plain = slurm_cluster.run_as("owner1", argv, env=env)
    assert plain.returncode == 5
    assert "owner1 may change nobody else's jobs" in plain.stderr
    assert slurm_cluster.run_as("owner1", argv[:-2], env=env).returncode == 0


def test_the_command_has_a_form_for_programs(check: Callable[..., Result]) -> None:
    told = check("private", "--json")
    found = json.loads(told.stdout)
    assert told.exit_code == 5
    assert (found["cluster"], found["fit_for_observe"]) == ("private", False)
    assert {"name", "level", "read", "means", "remedy"} <= set(found["points"][0])


def test_the_command_asks_which_cluster_is_meant(check: Callable[..., Result]) -> None:
    assert "say which cluster: private, other" in check().stderr
    assert check("elsewhere").exit_code == 1
    assert check("other", "--for", "act").exit_code == 0, "a simulated scheduler asks for nothing"
