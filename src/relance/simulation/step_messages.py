"""The lines that srun and slurmstepd write into a job's output, in the shapes of Slurm 22.05 to 25.11."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from datetime import UTC, datetime

_WORDS = {
    signal.SIGKILL: "Killed",
    signal.SIGTERM: "Terminated",
    signal.SIGSEGV: "Segmentation fault",
    signal.SIGABRT: "Aborted",
    signal.SIGBUS: "Bus error",
    signal.SIGINT: "Interrupt",
    signal.SIGFPE: "Floating point exception",
    signal.SIGILL: "Illegal instruction",
    signal.SIGHUP: "Hangup",
    signal.SIGUSR1: "User defined signal 1",
    signal.SIGUSR2: "User defined signal 2",
}


def label(rank: int, ranks: int) -> bytes:
    """What `srun --label` puts before each line of a rank: its number in as many digits as the highest one has."""
    return f"{rank:0{len(str(max(ranks - 1, 0)))}d}: ".encode()


def task_ended(node: str, ranks: Iterable[int], returncode: int, *, out_of_memory: bool = False) -> str:
    """Srun's line on ranks of one node that ended badly in the same way.

    Args:
        node: The node's name.
        ranks: The ranks' numbers.
        returncode: As in `subprocess`: negative for a signal.
        out_of_memory: Whether the kernel killed them for memory.
    """
    numbers = sorted(ranks)
    who = f"task {numbers[0]}" if len(numbers) == 1 else f"tasks {_ranges(numbers)}"
    if out_of_memory:
        what = "Out Of Memory"
    elif returncode < 0:
        what = _WORDS.get(signal.Signals(-returncode), f"Unknown signal {-returncode}")
    else:
        what = f"Exited with exit code {returncode}"
    return f"srun: error: {node}: {who}: {what}"


def step_terminated(job_id: int) -> str:
    """Srun's line when the end of one rank ends the others (`--kill-on-bad-exit`)."""
    return f"srun: Terminating StepId={job_id}.0"


def step_aborted(wait_s: float) -> str:
    """Srun's line when its step is being ended from outside."""
    return f"srun: Job step aborted: Waiting up to {max(round(wait_s) + 2, 2)} seconds for job step to finish."


def forced_termination() -> str:
    """Srun's line when its job is taken away."""
    return "srun: forcing job termination"


def step_cancelled(job_id: int, node: str, now: float, why: str = "") -> str:
    """Slurmstepd's line on the end of the step of the ranks; `why` such as "DUE TO TIME LIMIT"."""
    return _cancelled(f"STEP {job_id}.0", node, now, why)


def job_cancelled(job_id: int, node: str, now: float, why: str = "") -> str:
    """Slurmstepd's line on the end of the batch step."""
    return _cancelled(f"JOB {job_id}", node, now, why)


def node_failed(node: str) -> str:
    """Srun's line when a node is lost."""
    return f"srun: error: Node failure on {node}"


def oom_detected(job_id: int) -> str:
    """Slurmstepd's line when the kernel has killed for memory in a step."""
    return (
        f"slurmstepd: error: Detected 1 oom_kill event in StepId={job_id}.0. "
        "Some of the step tasks have been OOM Killed."
    )


def not_executable(path: str, problem: str) -> str:
    """Slurmstepd's line when a rank's command cannot be run."""
    return f"slurmstepd: error: execve(): {path}: {problem}"


def _cancelled(what: str, node: str, now: float, why: str) -> str:
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"slurmstepd: error: *** {what} ON {node} CANCELLED AT {at}{f' {why}' if why else ''} ***"


def _ranges(numbers: list[int]) -> str:
    """Sorted numbers as "0-2,5"."""
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        if number is not None:
            start = previous = number
    return ",".join(parts)
