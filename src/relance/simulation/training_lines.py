"""The lines of a training run, in the shapes of Megatron-LM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What a step's line says."""

    step: int
    steps: int
    samples: int
    elapsed_ms: float
    learning_rate: float
    batch: int
    loss: float
    norm: float


def step_line(report: StepReport, at: datetime) -> str:
    """The line of a step, printed by the last rank."""
    return (
        f" [{_stamp(at)}] iteration {report.step:8d}/{report.steps:8d} | consumed samples: {report.samples:12d} | "
        f"elapsed time per iteration (ms): {report.elapsed_ms:.1f} | learning rate: {report.learning_rate:.6E} | "
        f"global batch size: {report.batch:5d} | lm loss: {report.loss:.6E} | loss scale: 1.0 | "
        f"grad norm: {report.norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def evaluation_lines(step: int, loss: float) -> list[str]:
    """The lines of an evaluation."""
    text = (
        f" validation loss at iteration {step} | lm loss value: {loss:.6E} | "
        f"lm loss PPL: {math.exp(min(20.0, loss)):.6E} | "
    )
    rule = "-" * len(text)
    return [rule, text, rule]


def saving_line(step: int, folder: Path, at: datetime) -> str:
    """A save begins."""
    return f"[{_stamp(at)}] saving checkpoint at iteration {step:7d} to {folder} in torch_dist format"


def saved_line(step: int, folder: Path, at: datetime) -> str:
    """A save is durable."""
    where = f"{folder} [ t 1/1, p 1/1 ]"
    return f"  [{_stamp(at)}] successfully saved checkpoint from iteration {step:7d} to {where}"


def loading_line(step: int, folder: Path) -> str:
    """A load begins."""
    return f" loading checkpoint from {folder} at iteration {step}"


def loaded_line(step: int, folder: Path) -> str:
    """A load is done."""
    return f"  successfully loaded checkpoint from {folder} [ t 1/1, p 1/1 ] at iteration {step}"


def cold_start_lines(tracker: Path) -> list[str]:
    """There is nothing to load."""
    return [
        f"WARNING: could not find the metadata file {tracker}",
        "    will not load any checkpoints and will start from random",
    ]


def life_line(what: str, at: datetime) -> str:
    """A turn in the run's life, such as "after training is done"."""
    return f"[{what}] datetime: {at:%Y-%m-%d %H:%M:%S} "


def failure_lines(rank: int, trace: str) -> str:
    """A traceback as torch prints it: each line after the rank."""
    return "".join(f"[rank{rank}]: {line}\n" for line in trace.rstrip("\n").split("\n"))


def watchdog_line(rank: int, what: str, at: datetime) -> str:
    """What torch's watchdog says of a collective that took too long."""
    head = f"[rank{rank}]:[E{at:%m%d %H:%M:%S}.{at.microsecond * 1000:09d} ProcessGroupNCCL.cpp:632]"
    return f"{head} [Rank {rank}] Watchdog caught collective operation timeout: {what}\n"


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")
