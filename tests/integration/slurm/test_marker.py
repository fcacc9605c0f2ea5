"""`relance check marker` and `check signals` on a real cluster: the job is our own, and nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from relance.cli.main import main
from relance.controllers.slurm.markers import SlurmMarkerJob
from relance.controllers.slurm.settings import SlurmSettings
from relance.ports.clocks import SystemClock
from relance.ports.markers import MARKER
from relance.simulation.private_slurm import RunningCluster
from relance.slurm.running import Commands
from relance.testing.processes import Program, Running
from tests.components.loki import Loki, loki_double
from tests.components.shippers import shipping
from tests.components.slurm import LeasedNodes

Check = Callable[..., Result]
INTERRUPT_LIMIT_S = 30.0


@pytest.fixture
def loki(tmp_path: Path) -> Iterator[Loki]:
    with loki_double(tmp_path) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where jobs write: a folder that every user can enter; pytest closes its own to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def check(slurm_cluster: RunningCluster, loki: Loki, folder: Path, tmp_path: Path) -> Check:
    """Runs `relance check` as this process's user."""
    site = {
        "name": "private", "scheduler": {"kind": "slurm", "conf": str(slurm_cluster.slurm_conf)},
        "logs": [{"kind": "files"}, {"kind": "loki", "url": loki.url}], "log_roots": [str(folder)],
    }  # fmt: skip
    file = tmp_path / "relance.yaml"
    file.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state"), "clusters": [site]}))
    env = {"PATH": f"{slurm_cluster.env['PATH']}:{os.environ['PATH']}"}
    return lambda *words: CliRunner().invoke(
        main, ["check", *map(str, words), "--config", str(file), "--json"], env=env
    )  # fmt: skip


def shipped(path: Path) -> Mapping[str, str]:
    line = re.search(r"relance-marker \w+ [\d.]+ (\S+)", path.read_text())
    return {"job_id": path.stem.rpartition("-")[2], "node": line[1] if line else "none"}


def rows(told: Result) -> dict[tuple[str, str], dict[str, str]]:
    assert told.exception is None or isinstance(told.exception, SystemExit), told.output
    return {(row["source"], row["name"]): row for row in json.loads(told.stdout)["rows"]}


def ours(nodes: LeasedNodes) -> str:
    """Our jobs in the queue of a test's own partition: others may test the same beside it."""
    words = ["squeue", "--noheader", f"--name={MARKER}", f"--partition={nodes.partition}", "--format=%i %T"]
    return nodes.cluster.must("root", words).strip()


def test_a_marker_goes_through_slurm_files_and_store(
    check: Check, folder: Path, loki: Loki, slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes
) -> None:
    output = folder / "marker-%j.out"
    with shipping(folder, "marker-*.out", shipped, loki):
        told = check("marker", "--partition", slurm_nodes.partition, "--output", output, "--timeout", "60s")
    found = rows(told)
    assert told.exit_code == 0, told.output
    assert found["scheduler", "marker"]["read"].partition(" on ")[2] in slurm_nodes.nodes
    for source in ("files", "loki"):
        assert re.search(r"\d\.\d s after it was written", found[source, "marker"]["read"])
    assert found["loki", "node of marker"]["level"] == "ok"
    assert found["scheduler", "clock of the node"]["level"] == "ok"
    assert ours(slurm_nodes) == ""


def test_a_marker_whose_job_never_starts_is_taken_back(
    check: Check, folder: Path, slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes
) -> None:
    other = slurm_nodes.submit("owner1", "#!/bin/sh\nsleep 600\n", options=["--nodes=3", "--exclusive"])
    slurm_cluster.wait_for_state(other, "RUNNING")
    output = folder / "marker-%j.out"
    told = check("marker", "--partition", slurm_nodes.partition, "--output", output, "--timeout", "3s")
    found = rows(told)
    assert told.exit_code == 5
    assert "did not start within" in found["scheduler", "marker"]["means"], found
    assert found["files", "marker"]["level"] == "bad"
    assert ours(slurm_nodes) == ""
    slurm_cluster.wait_for_state(other, "RUNNING")


def test_a_partition_that_is_not_there_is_told_by_slurm_s_own_words(check: Check, folder: Path) -> None:
    told = check("marker", "--partition", "nowhere", "--output", folder / "x.out", "--timeout", "3s")
    assert told.exit_code == 5
    (only,) = rows(told).values()
    assert "invalid partition" in only["means"]


def test_signals_of_a_job_on_slurm_are_looked_for_by_its_id(
    check: Check, folder: Path, slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes
) -> None:
    folder.chmod(0o777)
    script = '#!/bin/sh\ni=0\nwhile :; do i=$((i+1)); echo "step: $i  loss: 6.8  grad_norm: 1.9"; sleep 0.2; done\n'
    job = slurm_nodes.submit("owner1", script, options=[f"--output={folder}/train-%j.out"], cwd=folder)
    slurm_cluster.wait_for_state(job, "RUNNING")
    told = check("signals", "--job", job, "--watch", "2s")
    found = rows(told)
    assert found["scheduler", "jobs"]["level"] == "ok"
    assert found["files", f"logs of {job}"]["read"] == f"{folder}/train-{job}.out"
    assert "as torchtitan" in found["files", f"progress of {job}"]["read"]
    assert found["loki", f"lines of {job}"]["level"] == "warn", "it began less than five minutes ago"


async def test_slurm_itself_removes_a_marker_that_nobody_takes_back(
    slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes, folder: Path
) -> None:
    commands = Commands(
        slurm_conf=str(slurm_cluster.slurm_conf),
        prefix=tuple(slurm_cluster.argv_as("owner1", ["env", f"PATH={slurm_cluster.env['PATH']}"])),
    )
    settings = SlurmSettings(cluster="private", commands=commands)
    other = slurm_nodes.submit("owner2", "#!/bin/sh\nsleep 600\n", options=["--nodes=3", "--exclusive"])
    slurm_cluster.wait_for_state(other, "RUNNING")
    marker = SlurmMarkerJob(settings, partition=slurm_nodes.partition, output=f"{folder}/x.out")
    before = SystemClock().now()
    raw_id = await marker.submit("0123456789abcdef", 120.0)
    told = slurm_cluster.must("root", ["env", "TZ=UTC", "scontrol", "--oneliner", "show", "job", raw_id])
    deadline = re.search(r" Deadline=(\S+)", told)
    assert deadline is not None
    left_s = (datetime.fromisoformat(f"{deadline[1]}+00:00") - before).total_seconds()
    assert 175 <= left_s <= 190
    assert re.search(r" Comment=relance:off ", told)
    assert re.search(r" Requeue=0 ", told)
    await marker.withdraw(raw_id)
    assert ours(slurm_nodes) == ""
    await marker.withdraw(raw_id)


def test_a_check_that_is_interrupted_takes_its_job_back(
    slurm_cluster: RunningCluster, slurm_nodes: LeasedNodes, folder: Path, tmp_path: Path
) -> None:
    other = slurm_nodes.submit("owner1", "#!/bin/sh\nsleep 600\n", options=["--nodes=3", "--exclusive"])
    slurm_cluster.wait_for_state(other, "RUNNING")
    file = tmp_path / "relance.yaml"
    site = {"name": "private", "scheduler": {"kind": "slurm", "conf": str(slurm_cluster.slurm_conf)}}
    file.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state"), "clusters": [site]}))
    words = ["--partition", slurm_nodes.partition, "--output", f"{folder}/x.out", "--config", str(file)]
    program = Program(
        name="relance check marker",
        argv=[sys.executable, "-m", "relance", "check", "marker", *words],
        log=tmp_path / "marker.log",
        env={**os.environ, "PATH": f"{slurm_cluster.env['PATH']}:{os.environ['PATH']}"},
    )
    running = Running(program)
    try:
        running.wait_until(lambda: ours(slurm_nodes) != "", INTERRUPT_LIMIT_S)
        running.signal(signal.SIGINT)
        running.wait(INTERRUPT_LIMIT_S)
    finally:
        running.stop()
    assert ours(slurm_nodes) == ""
    slurm_cluster.wait_for_state(other, "RUNNING")
