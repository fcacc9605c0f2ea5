"""A long queue on a private Slurm cluster: jobs of several owners that wait, some run, some have just ended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from relance.simulation.private_slurm import PrivateSlurmError, RunningCluster

_SUBMIT_LIMIT_S = 300.0
_KINDS = ("--begin=now+7days", "--hold", "--dependency=singleton --begin=now+7days", "--begin=now+1day --array=0-3")
"""How jobs are made to wait."""
_WISHES = ("", "ablation 7, lr 3e-4", json.dumps({"relance": {"mode": "observe"}}))


class SlurmQueue:
    """Fills a cluster's queue, and changes it.

    Args:
        cluster: A cluster that runs; all its owners submit.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._owners = cluster.plan.owners
        self._number = 0

    def fill(self, waiting: int, *, running: int = 0, ended: int = 0) -> None:
        """Submit so many records; those that run go on for a day, half of those that end do so badly.

        Raises PrivateSlurmError when one was refused.
        """
        lines = list(self._waiting(waiting))
        lines += [self._line("--time=1-0", "sleep 86400") for _ in range(running)]
        lines += [self._line("--time=1", f"exit {number % 2}") for number in range(ended)]
        for number, owner in enumerate(self._owners):
            self._submit(owner, lines[number :: len(self._owners)])

    def change(self) -> None:
        """Submit one more job that waits, as one of the owners in turn. Raises PrivateSlurmError."""
        self._submit(self._owners[self._number % len(self._owners)], [self._line(_KINDS[0], "true")])

    def _waiting(self, count: int) -> Iterator[str]:
        """Lines that make so many records; the tasks of an array that wait are one record."""
        for number in range(count):
            yield self._line(_KINDS[number % len(_KINDS)], "true")

    def _line(self, options: str, command: str) -> str:
        self._number += 1
        comment = _WISHES[self._number % len(_WISHES)]
        words = [
            "sbatch", "--quiet", f"--job-name=train-{self._number}", "--nodes=1", "--ntasks=1",
            "--output=%x-%j.out", *([f"--comment={comment}"] if comment else []), f"--wrap={command}",
        ]  # fmt: skip
        return f"{shlex.join(words[:1])} {options} {shlex.join(words[1:])}"

    def _submit(self, owner: str, lines: Sequence[str]) -> None:
        if not lines:
            return
        script = "set -e\n" + "\n".join(lines) + "\n"
        done = self._cluster.run_as(owner, ["sh", "-s"], stdin=script, time_limit_s=_SUBMIT_LIMIT_S)
        if done.returncode != 0:
            raise PrivateSlurmError(f"sbatch as {owner} was refused: {done.stderr.strip()[-500:]}")
