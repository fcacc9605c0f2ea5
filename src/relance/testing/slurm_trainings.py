"""Trainings on a private Slurm cluster, with the means by which they are broken and by which their end is judged.

It answers what `relance.testing.clusters.SimulatedCluster` answers, in the same shapes, so that whoever demonstrates or
measures on one can do so on the other. What is known of a job here comes from Slurm's own commands and from the job's
own output, never from Relance.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from relance.ports.clocks import SystemClock
from relance.simulation import node_faults, scenarios
from relance.simulation.private_slurm import PrivateSlurmError, RunningCluster
from relance.simulation.slurm_ranks import rank_file
from relance.slurm import hostlists
from relance.testing.clusters import ClusterRefusedError, Training
from relance.testing.other_users import OpenPython, User, user_of

_KERNEL_LOOKS_S: Final = 0.05
_COLUMNS: Final = ("State", "ExitCode", "Start", "End", "NodeList", "Submit")
_FREE_PORT: Final = """
import random, socket
for port in random.sample(range(10000, 32000), 100):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        continue
    print(port)
    break
"""
"""Below the ports that the kernel gives out by itself: one of those may be taken again before the rank has it."""


class SlurmTrainings:
    """The trainings of one owner on a private cluster that runs.

    Args:
        cluster: The cluster.
        folder: A folder of the owner's: outputs, checkpoints, and a folder for each node with its kernel log.
        owner: The name of the user who submits.
        python: A Python that the owner can run.
        partition: The partition of all trainings; empty: the cluster's default.
    """

    def __init__(
        self, cluster: RunningCluster, folder: Path, owner: str, python: OpenPython, *, partition: str = ""
    ) -> None:
        self.cluster = cluster
        self.work_dir = folder
        self.owner: User = user_of(owner)
        self.partition = partition
        self._python = python
        self._clock = SystemClock()
        self._names: dict[int, str] = {}
        self._over = threading.Event()
        for place in (
            folder,
            folder / "ranks",
            folder / "nodes",
            *(folder / "nodes" / node for node in cluster.plan.nodes),
        ):
            place.mkdir(parents=True, exist_ok=True)
            os.chown(place, self.owner.uid, self.owner.gid)
        self._kernels = threading.Thread(target=self._speak_for_kernels, name="kernels", daemon=True)

    @property
    def kernel_log(self) -> str:
        """The template of a node's kernel log."""
        return str(self.work_dir / "nodes" / "{node}" / "kern.log")

    def start(self) -> None:
        """Let the nodes' kernels speak when a rank has died of its node."""
        self._kernels.start()

    def stop(self) -> None:
        """End every job of these trainings, and the kernels. May be called twice."""
        self._over.set()
        for job_id in self._names:
            with contextlib.suppress(PrivateSlurmError):
                self.cancel(job_id)
        if self._kernels.is_alive():
            self._kernels.join()

    def submit(self, training: Training) -> int:
        """Submit a training; gives the job's id. Raises ClusterRefusedError."""
        place = self.work_dir / training.name
        for each in (place, place / "checkpoints", self.scenario_dir(training.name)):
            each.mkdir(parents=True, exist_ok=True)
            os.chown(each, self.owner.uid, self.owner.gid)
        options = [
            f"--job-name={training.name}",
            f"--nodes={training.nodes}",
            f"--ntasks-per-node={training.ranks_per_node}",
            "--output=%x-%j.out",
            "--open-mode=append",
            *([f"--comment={training.comment}"] if training.comment else []),
            *([f"--constraint={'&'.join(training.features)}"] if training.features else []),
            *([f"--partition={training.partition or self.partition}"] if training.partition or self.partition else []),
            *training.submit_options,
        ]
        try:
            job_id = self.cluster.submit(self.owner.name, self.script(training), options=options, cwd=self.work_dir)
        except PrivateSlurmError as error:
            raise ClusterRefusedError(str(error)) from error
        self._names[job_id] = training.name
        return job_id

    def script(self, training: Training) -> str:
        """The batch script: one srun over all ranks; all end when one ends badly, unless the training asks else."""
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self._python.environment().items())
        program = shlex.quote(self._python.program)
        srun = ["srun", "--label", *(training.srun_options or ("--kill-on-bad-exit=1",)), self._python.program]
        program_of_rank = [training.program] if training.program else ["-m", "relance.simulation.slurm_ranks"]
        rank = [*srun, *program_of_rank, *self._trainer_options(training)]
        return (
            f"#!/bin/sh\n{exports}export MASTER_ADDR=127.0.0.1\n"
            f"MASTER_PORT=$({program} -c {shlex.quote(_FREE_PORT)})\nexport MASTER_PORT\n"
            f"exec {shlex.join(rank)}\n"
        )

    def scenario_dir(self, name: str) -> Path:
        """The folder in which the training of this name looks for what is to befall it."""
        return self.work_dir / name / "scenarios"

    def befall(self, name: str, scenario: str, **keys: object) -> None:
        """Have a scenario happen to the training of this name; see `relance.simulation.scenarios`."""
        scenarios.begin(self.scenario_dir(name), scenario, **keys)

    def kill_rank(self, job_id: int, rank: int) -> datetime:
        """Kill a rank of the job's present attempt; gives when. Raises ClusterRefusedError when there is none."""
        return self._signal(job_id, rank, signal.SIGKILL)

    def stop_rank(self, job_id: int, rank: int) -> datetime:
        """Stop a rank, so that all others wait for it; gives when. Raises ClusterRefusedError when there is none."""
        return self._signal(job_id, rank, signal.SIGSTOP)

    def continue_rank(self, job_id: int, rank: int) -> datetime:
        """Let a stopped rank go on; gives when. Raises ClusterRefusedError when there is none."""
        return self._signal(job_id, rank, signal.SIGCONT)

    def break_node(self, node: str, *, after_steps: int = 1, kernel_delay_s: float = 0.0) -> datetime:
        """Have the GPU of this node's first rank fall off the bus in every attempt from now on; gives when."""
        node_faults.break_node(self.work_dir / "nodes" / node, after_steps=after_steps, kernel_delay_s=kernel_delay_s)
        return self._clock.now()

    def slow_node(self, node: str, *, factor: float) -> datetime:
        """Have each step on this node take so many times as long from now on; gives when."""
        node_faults.slow_node(self.work_dir / "nodes" / node, factor=factor)
        return self._clock.now()

    def cancel(self, job_id: int, user: str = "") -> None:
        """Cancel a job as its owner, or as another user. Raises PrivateSlurmError."""
        self.cluster.must(user or self.owner.name, ["scancel", str(job_id)])

    def job(self, job_id: int) -> dict[str, Any]:
        """The job as the scheduler shows it now. Raises ClusterRefusedError when it is no longer known."""
        try:
            fields = self.cluster.job_fields(job_id)
        except PrivateSlurmError as error:
            raise ClusterRefusedError(str(error)) from error
        return {
            "job_id": job_id,
            "state": fields["JobState"],
            "reason": fields.get("Reason", ""),
            "restart_count": int(fields.get("Restarts", "0")),
            "node_list": list(hostlists.expand(fields.get("NodeList", ""))),
            "exclude": list(hostlists.expand(fields.get("ExcNodeList", ""))),
            "std_out": fields.get("StdOut", ""),
        }

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """The job's attempts in accounting, oldest first; times in seconds since the epoch, None where not known."""
        argv = ["sacct", "-D", "-X", "-n", "-P", f"--jobs={job_id}", f"--format={','.join(_COLUMNS)}"]
        done = self.cluster.run_as("root", argv, env={"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"})
        rows = [dict(zip(_COLUMNS, line.split("|"), strict=True)) for line in done.stdout.splitlines() if line]
        return [
            {
                "restart_count": number,
                "state": row["State"].split(" ")[0],
                "exit_code": row["ExitCode"],
                "submit_time": _seconds(row["Submit"]),
                "start_time": _seconds(row["Start"]),
                "end_time": _seconds(row["End"]),
                "nodes": list(hostlists.expand(row["NodeList"])) if row["NodeList"] != "None assigned" else [],
            }
            for number, row in enumerate(sorted(rows, key=lambda row: row["Submit"]))
        ]  # fmt: skip

    def output(self, job_id: int) -> str:
        """What the job has written, over all its attempts."""
        name = self._names.get(job_id)
        path = self.work_dir / f"{name}-{job_id}.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _trainer_options(self, training: Training) -> Sequence[str]:
        return [
            *("--places", str(self.work_dir)),
            *("--steps", str(training.steps)),
            *("--step-s", str(training.step_s)),
            *("--checkpoint-dir", str(self.work_dir / training.name / "checkpoints")),
            *("--checkpoint-every", str(training.checkpoint_every)),
            *("--scenario-dir", str(self.scenario_dir(training.name))),
            *training.options,
        ]

    def _signal(self, job_id: int, rank: int, number: signal.Signals) -> datetime:
        row = self.job(job_id)
        try:
            pid = int(rank_file(self.work_dir, job_id, row["restart_count"], rank).read_text(encoding="ascii"))
            os.kill(pid, number)
        except (OSError, ValueError) as error:
            raise ClusterRefusedError(f"rank {rank} of job {job_id} does not run: {error}") from error
        return self._clock.now()

    def _speak_for_kernels(self) -> None:
        while not self._over.wait(_KERNEL_LOOKS_S):
            for node in self.cluster.plan.nodes:
                place = self.work_dir / "nodes" / node
                delay_s = node_faults.taken_raise(place)
                if delay_s is not None and not self._over.wait(delay_s):
                    now = self._clock.now().timestamp()
                    node_faults.append(place / "kern.log", node_faults.XID79_LINES, node, now)


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() and text != "0" else None
