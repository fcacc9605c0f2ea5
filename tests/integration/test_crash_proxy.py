"""The proxy that kills whoever asks the scheduler, at the moment that it is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.proxies import Moment, Shot, SocketProxy
from relance.testing.clusters import SimulatedCluster
from relance.testing.processes import Program, Running

ASKER = """
import sys
from pathlib import Path
from relance.simulation.client import SchedulerClient
client = SchedulerClient(Path(sys.argv[1]))
client.ask("job", job_id=int(sys.argv[2]))
client.ask("cancel", job_id=int(sys.argv[2]))
print("answered", flush=True)
import time; time.sleep(60)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SimulatedCluster]:
    """A cluster of one node."""
    with SimulatedCluster(tmp_path / "cluster", {"nodes": 1, "kill_wait_s": 0.2}) as made:
        yield made


def ask_through(proxy_dir: Path, job_id: int, tmp_path: Path) -> Running:
    """Start a process that reads the job and cancels it, through the proxy."""
    argv = [sys.executable, "-c", ASKER, str(proxy_dir), str(job_id)]
    return Running(Program(name="asker", argv=argv, log=tmp_path / "asker.log", env={}))


@pytest.mark.parametrize(
    ("moment", "cancelled"),
    [(Moment.BEFORE, False), (Moment.DURING, True), (Moment.AFTER, True)],
    ids=lambda value: getattr(value, "value", str(value)),
)
def test_the_asker_dies_at_the_moment_that_was_named(
    cluster: SimulatedCluster, tmp_path: Path, moment: Moment, cancelled: bool
) -> None:
    job = int(cluster.ask("submit", name="x", argv=["sleep", "60"], nodes=1)["job_id"])
    askers: list[Running] = []
    with SocketProxy(tmp_path / "proxy", cluster.state_dir, lambda: askers[0].pid) as proxy:
        proxy.watch(job, Shot(job_id=job, op="cancel", number=1, moment=moment))
        askers.append(ask_through(tmp_path / "proxy", job, tmp_path))
        assert proxy.has_fired.wait(60)
        assert askers[0].wait(60) == -9
    assert proxy.seen == ["job", "cancel"]
    is_cancelled = cluster.job(job)["cancelled_by"] is not None
    assert is_cancelled is cancelled


def test_without_a_shot_the_proxy_only_passes_on(cluster: SimulatedCluster, tmp_path: Path) -> None:
    job = int(cluster.ask("submit", name="x", argv=["sleep", "60"], nodes=1)["job_id"])
    with SocketProxy(tmp_path / "proxy", cluster.state_dir, lambda: 0) as proxy:
        proxy.watch(job)
        asker = ask_through(tmp_path / "proxy", job, tmp_path)
        asker.wait_until(lambda: "answered" in asker.output(), 20)
        asker.kill()
    assert proxy.seen == ["job", "cancel"]
    assert cluster.job(job)["cancelled_by"] is not None


def test_processes_of_the_tests_end_with_their_starter(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from relance.testing.processes import Program, Running\n"
        "argv = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "program = Program(name='sleeper', argv=argv, log=Path(sys.argv[1]), env={})\n"
        "print(Running(program).pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "log")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    pid = int(done.stdout)
    waiting = subprocess.run(
        ["tail", f"--pid={pid}", "-s", "0.05", "-f", "/dev/null"], timeout=60, capture_output=True, check=False
    )
    assert waiting.returncode == 0
