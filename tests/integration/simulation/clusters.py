"""A simulated cluster for a test: the daemon as a process of its own, and words to ask it with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from relance.simulation.client import SchedulerClient

Json = Any
"""What JSON can hold."""

FAST = {
    "requeue_delay_s": 30.0,
    "kill_wait_s": 0.4,
    "pass_interval_s": 0.05,
    "bad_exit_delay_s": 0.1,
    "launch_race_window_s": 0.3,
}
"""Small delays; a requeued job waits so long that nothing but the test can start it."""
SLEEP = ["sleep", "60"]
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
"""Ignores TERM, so that its job is COMPLETING until it is killed."""


class RunningCluster:
    """A daemon that runs, and a connection to it."""

    def __init__(self, folder: Path, **settings: Json) -> None:
        self.state_dir = folder / "state"
        self._config = folder / "settings.json"
        self._config.write_text(json.dumps({**FAST, **settings}))
        self.start()

    def start(self) -> None:
        """Start the daemon and connect."""
        command = [sys.executable, "-m", "relance.simulation.scheduler", "--state-dir", str(self.state_dir)]
        self.process = subprocess.Popen([*command, "--config", str(self._config)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready ")
        self.client = SchedulerClient(self.state_dir)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon."""
        self.client.close()
        self.process.send_signal(number)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, op: str, **fields: Json) -> dict[str, Any]:
        """One request."""
        return self.client.ask(op, **fields)

    def submit(self, argv: list[str], **fields: Json) -> int:
        """A job of one rank per node, on one node, unless told otherwise; its id."""
        given = {"name": "job", "nodes": 1, "argv": argv, **fields}
        return int(self.ask("submit", **given)["job_id"])

    def running(self, argv: list[str], **fields: Json) -> int:
        """A job that runs."""
        job_id = self.submit(argv, **fields)
        self.until(job_id, "RUNNING")
        return job_id

    def failed(self, **fields: Json) -> int:
        """A job that has failed."""
        job_id = self.submit(["sh", "-c", "exit 3"], **fields)
        self.until(job_id, "FAILED")
        return job_id

    def job(self, job_id: int) -> dict[str, Any]:
        """The job's row."""
        row: dict[str, Any] = self.ask("job", job_id=job_id)["job"]
        return row

    def until(self, job_id: int, state: str, *, limit_s: float = 30.0) -> dict[str, Any]:
        """Wait for a state; the job's row then."""
        deadline = time.monotonic() + limit_s
        while True:
            answer = self.ask("job", job_id=job_id)
            row: dict[str, Any] = answer["job"]
            if row["state"] == state:
                return row
            left = deadline - time.monotonic()
            assert left > 0, f"job {job_id} is {row['state']} ({row['reason']}), not {state}"
            self.ask("wait", after=answer["change"], timeout_s=left)

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """Accounting of a job."""
        rows: list[dict[str, Any]] = self.ask("accounting", job_id=job_id)["attempts"]
        return rows

    def node(self, name: str) -> dict[str, Any]:
        """A node's row."""
        rows: list[dict[str, Any]] = self.ask("nodes")["nodes"]
        return next(row for row in rows if row["name"] == name)

    def output(self, job_id: int) -> str:
        """What is in the job's output."""
        return Path(self.job(job_id)["std_out"]).read_text()


def is_alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_gone(pids: list[int], *, limit_s: float = 30.0) -> bool:
    """Wait for the end of processes; whether it came in time."""
    deadline = time.monotonic() + limit_s
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
