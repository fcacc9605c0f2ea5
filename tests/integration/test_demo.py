"""The demonstration, as a newcomer runs it: real processes, and all that it promises."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relance.cli.demos.faults import FaultName
from relance.simulation.client import SchedulerClient

DEMO = [sys.executable, "-m", "relance", "demo"]
MOST_S = 170
NAMES = {name.value for name in FaultName}
RESTARTED = ("kill", "hang", "node")


class Demo:
    """A demonstration that runs."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*DEMO, "--folder", str(folder), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def result(self) -> tuple[int, dict[str, Any], str]:
        """Exit code, the JSON object, and what was told meanwhile."""
        out, told = self.process.communicate(timeout=MOST_S)
        return self.process.returncode, json.loads(out or "{}"), told

    def wait_for_job(self, state: str) -> SchedulerClient:
        """Wait until the scheduler shows its job in this state."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                client = SchedulerClient(self.folder / "cluster")
                if [row["state"] for row in client.ask("jobs")["jobs"]] == [state]:
                    return client
                client.close()
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)
        raise AssertionError(f"the job did not become {state}")

    def leftovers(self) -> list[str]:
        """Commands of processes that have anything to do with the folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.folder) in command and int(path.parent.name) != self.process.pid:
                    found.append(command)
        return found


@pytest.fixture
def demos(tmp_path: Path) -> Iterator[list[Demo]]:
    """Demonstrations that end with the test."""
    started: list[Demo] = []
    yield started
    for each in started:
        if each.process.poll() is None:
            each.process.terminate()
        each.process.wait(60)
        for stream in (each.process.stdout, each.process.stderr):
            if stream is not None:
                stream.close()


def start(demos: list[Demo], folder: Path, *options: str) -> Demo:
    """Start a demonstration."""
    demos.append(Demo(folder / "demo", *options))
    return demos[-1]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("roles", ["up", pytest.param("apart", marks=pytest.mark.soak)])
def test_every_fault_comes_out_as_it_should(demos: list[Demo], tmp_path: Path, roles: str) -> None:
    demo = start(demos, tmp_path, "--json", "--at-once", *(["--apart"] if roles == "apart" else []))
    code, found, told = demo.result()
    assert {name: fault["problems"] for name, fault in found["faults"].items()} == {name: [] for name in NAMES}, told
    assert (code, found["ok"], found["roles"]) == (0, True, roles)
    for name in RESTARTED:
        milestones = found["faults"][name]["milestones_s"]
        assert {"detect", "verdict", "advise", "act", "running", "first_step", "beyond"} <= set(milestones), name
    assert found["faults"]["bug"]["advice"] == "stop"
    assert found["faults"]["node"]["excluded"] == found["faults"]["node"]["suspects"]
    assert found["faults"]["scare"]["attempts"] == 1
    slow = found["faults"]["slow"]
    assert (slow["cause"], slow["advice"], slow["suspects"]) == ("slowdown", "none", [])
    assert "no node evidence" in slow["verdict"]
    assert demo.leftovers() == []


@pytest.mark.timeout(240)
def test_with_the_roles_apart_a_fault_comes_out_the_same(demos: list[Demo], tmp_path: Path) -> None:
    """One fault; all of them with the roles apart are for the soak."""
    code, found, told = start(demos, tmp_path, "--json", "--apart", "--fault", "kill").result()
    assert (code, found["ok"], found["roles"]) == (0, True, "apart"), told
    assert found["faults"]["kill"]["attempts"] == 2
    assert demos[0].leftovers() == []


def test_an_outcome_that_was_not_expected_makes_the_exit_code_1(demos: list[Demo], tmp_path: Path) -> None:
    demo = start(demos, tmp_path, "--json", "--fault", "scare")
    with contextlib.closing(demo.wait_for_job("RUNNING")) as scheduler:
        time.sleep(1.0)
        scheduler.ask("cancel", job_id=1)
    code, found, told = demo.result()
    assert code == 1
    assert found["ok"] is False
    assert found["faults"]["scare"]["problems"], told
    assert "came out wrong" in told


def test_a_role_that_dies_ends_the_demonstration_with_a_clear_word(demos: list[Demo], tmp_path: Path) -> None:
    demo = start(demos, tmp_path, "--json", "--fault", "scare")
    demo.wait_for_job("RUNNING").close()
    server = json.loads((demo.folder / "state" / "server.json").read_text())
    subprocess.run(["kill", "-9", str(server["pid"])], check=True)
    _, told = demo.process.communicate(timeout=MOST_S)
    assert demo.process.returncode == 1
    assert "relance up has ended" in told or "no Relance server answers" in told
    assert demo.leftovers() == []


def test_an_interrupt_ends_everything(demos: list[Demo], tmp_path: Path) -> None:
    demo = start(demos, tmp_path, "--headless", "--fault", "kill")
    demo.wait_for_job("RUNNING").close()
    demo.process.send_signal(signal.SIGINT)
    _, told = demo.process.communicate(timeout=60)
    assert demo.process.returncode == 130
    assert "everything has been ended" in told
    assert demo.leftovers() == []


def test_what_is_kept_running_can_be_looked_at_until_the_interrupt(demos: list[Demo], tmp_path: Path) -> None:
    demo = start(demos, tmp_path, "--headless", "--at-once", "--fault", "scare", "--keep-running")
    assert demo.process.stdout is not None
    told = ""
    while "Ctrl-C here ends everything" not in told:
        line = demo.process.stdout.readline()
        assert line, (told, demo.process.communicate(timeout=10))
        told += line
    jobs = subprocess.run(
        [sys.executable, "-m", "relance", "jobs", "--json"],
        env={"RELANCE_STATE_DIR": str(demo.folder / "state"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "llama-scare" in jobs.stdout
    demo.process.send_signal(signal.SIGINT)
    demo.process.communicate(timeout=60)
    assert demo.process.returncode == 0
    assert demo.leftovers() == []
