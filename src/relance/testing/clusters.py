"""A simulated cluster to demonstrate, measure and test on: the scheduler as a process of its own, and its trainings."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from relance.simulation import scenarios
from relance.simulation.client import SchedulerClient, SchedulerRefused
from relance.testing.processes import Program, Running

__all__ = ["ClusterRefusedError", "SimulatedCluster", "Training"]

ClusterRefusedError = SchedulerRefused
_READY_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training job: its shape, and what is passed to the trainer beside it."""

    name: str
    nodes: int = 4
    ranks_per_node: int = 2
    steps: int = 200
    step_s: float = 0.2
    checkpoint_every: int = 10
    comment: str = ""
    partition: str | None = None
    features: tuple[str, ...] = ()
    """Features that its nodes must have."""
    options: tuple[str, ...] = ()
    """Further options of `relance.simulation.trainer`."""
    submit_options: tuple[str, ...] = ()
    """Further options of `sbatch`; nothing on a simulated cluster."""
    srun_options: tuple[str, ...] = ()
    """Options of `srun` instead of `--kill-on-bad-exit=1`; nothing on a simulated cluster."""
    program: str = ""
    """The path of a rank's program instead of `relance.simulation.slurm_ranks`; nothing on a simulated cluster."""


class SimulatedCluster:
    """A scheduler of simulated nodes and a connection to it.

    Args:
        state_dir: Where its state, its nodes and the outputs of its jobs lie.
        settings: Fields of `relance.simulation.records.Settings` that differ from the defaults.
    """

    def __init__(self, state_dir: Path, settings: Mapping[str, object]) -> None:
        self.state_dir = state_dir
        self.work_dir = state_dir / "work"
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self._config = state_dir / "cluster.json"
        self._config.write_text(json.dumps(dict(settings)), encoding="utf-8")
        self._running: Running | None = None
        self._client: SchedulerClient | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kernel_log(self) -> str:
        """The template of a node's kernel log."""
        return str(self.state_dir / "nodes" / "{node}" / "kern.log")

    @property
    def pid(self) -> int:
        """The daemon's process id, 0 if it does not run."""
        return self._running.pid if self._running is not None else 0

    def start(self) -> None:
        """Start the daemon, anew if there was one before. Raises ProcessFailedError when it does not answer."""
        argv = [sys.executable, "-m", "relance.simulation.scheduler", "--state-dir", str(self.state_dir)]
        program = Program(
            name="the simulated scheduler",
            argv=[*argv, "--config", str(self._config)],
            log=self.state_dir / "daemon.log",
            env=dict(os.environ),
        )
        self._running = Running(program)
        self._running.wait_until(self._answers, _READY_S)
        self._client = SchedulerClient(self.state_dir)

    def stop(self) -> None:
        """End the daemon and, by that, all its jobs. May be called twice."""
        if self._client is not None:
            self._client.close()
        if self._running is not None:
            self._running.stop()

    def crash(self) -> None:
        """End the daemon as a crash of its machine does."""
        if self._running is not None:
            self._running.signal(signal.SIGKILL)
            self._running.wait(_READY_S)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON is any value
        """The answer to one request; see `relance.simulation.protocols`.

        Raises ClusterRefusedError, and OSError when the daemon is gone.
        """
        if self._client is None:
            raise ConnectionError("the simulated scheduler was not started")
        return self._client.ask(op, **fields)

    def submit(self, training: Training) -> int:
        """Submit a training; gives the job's id."""
        wanted: dict[str, object] = {"comment": training.comment, "features": list(training.features)}
        if training.partition is not None:
            wanted["partition"] = training.partition
        answer = self.ask(
            "submit",
            name=training.name,
            argv=self.trainer_argv(training),
            nodes=training.nodes,
            ranks_per_node=training.ranks_per_node,
            work_dir=str(self.work_dir),
            output="%x-%j.out",
            open_mode="append",
            **wanted,
        )
        return int(answer["job_id"])

    def trainer_argv(self, training: Training) -> Sequence[str]:
        """The command of each rank."""
        return [
            sys.executable,
            "-m",
            "relance.simulation.trainer",
            *("--steps", str(training.steps)),
            *("--step-s", str(training.step_s)),
            *("--checkpoint-dir", str(self.work_dir / training.name / "checkpoints")),
            *("--checkpoint-every", str(training.checkpoint_every)),
            *("--scenario-dir", str(self.scenario_dir(training.name))),
            *training.options,
        ]

    def scenario_dir(self, name: str) -> Path:
        """The folder in which the training of this name looks for what is to befall it."""
        return self.work_dir / name / "scenarios"

    def befall(self, name: str, scenario: str, **keys: object) -> None:
        """Have a scenario happen to the training of this name; see `relance.simulation.scenarios`."""
        scenarios.begin(self.scenario_dir(name), scenario, **keys)

    def kill_rank(self, job_id: int, rank: int) -> datetime:
        """Kill a rank; gives when. Raises ClusterRefusedError when it does not run."""
        return _at(self.ask("kill_rank", job_id=job_id, rank=rank))

    def stop_rank(self, job_id: int, rank: int) -> datetime:
        """Stop a rank, so that all others wait for it; gives when. Raises ClusterRefusedError when it does not run."""
        return _at(self.ask("stop_rank", job_id=job_id, rank=rank))

    def break_node(self, node: str, *, after_steps: int = 1, kernel_delay_s: float = 0.0) -> datetime:
        """Have the GPU of this node's first rank fall off the bus in every attempt from now on; gives when."""
        return _at(
            self.ask("break_node", node=node, kind="xid79", after_steps=after_steps, kernel_delay_s=kernel_delay_s)
        )

    def slow_node(self, node: str, *, factor: float) -> datetime:
        """Have each step on this node take so many times as long from now on; gives when."""
        return _at(self.ask("break_node", node=node, kind="slow", factor=factor))

    def job(self, job_id: int) -> dict[str, Any]:
        """The job as the scheduler shows it now. Raises ClusterRefusedError when it is no longer known."""
        row: dict[str, Any] = self.ask("job", job_id=job_id)["job"]
        return row

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """The job's attempts in accounting, oldest first."""
        rows: list[dict[str, Any]] = self.ask("accounting", job_id=job_id)["attempts"]
        return rows

    def output(self, job_id: int) -> str:
        """What the job has written, over all its attempts."""
        path = Path(self.job(job_id)["std_out"])
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _answers(self) -> bool:
        return self._running is not None and "ready " in self._running.output()


def _at(answer: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(float(answer["at"]), UTC)
