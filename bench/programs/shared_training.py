"""A rank whose steps, saves and start all need a shared folder: `shared_training.py --store DIR --steps N --step-s S`.

Run by `srun`. Each step is noted in the store, rank 0 saves there, and every attempt begins from the newest save. When
the store is lost, the rank dies of the operating system's own error, at its next step or at its start.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from relance.ports.clocks import SystemClock
from relance.simulation.training_lines import (
    StepReport,
    cold_start_lines,
    loaded_line,
    loading_line,
    saved_line,
    saving_line,
    step_line,
)

_TRACKER = "latest_checkpointed_iteration.txt"


def main() -> int:
    """Train from the newest save to the last step, in words only."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("--checkpoint-every", type=int, required=True)
    options = parser.parse_args()
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    clock = SystemClock()
    if rank == 0:
        _say(f"attempt {os.environ.get('SLURM_RESTART_COUNT', '0')} begins at {clock.now().timestamp():.3f}")
    _note(options.store, rank, "start")
    first = _load(options.store, tells=rank == 0) + 1
    for step in range(first, options.steps + 1):
        time.sleep(options.step_s)
        _note(options.store, rank, str(step))
        if rank == ranks - 1:
            report = StepReport(
                step=step,
                steps=options.steps,
                samples=step * 8,
                elapsed_ms=options.step_s * 1000,
                learning_rate=1e-3,
                batch=8,
                loss=3.0 / step,
                norm=1.0,
            )
            _say(step_line(report, clock.now()))
        if rank == 0 and step % options.checkpoint_every == 0:
            _save(options.store, step, clock)
    return 0


def _note(store: Path, rank: int, what: str) -> None:
    with (store / f"metrics-{rank}.txt").open("a", encoding="ascii") as metrics:
        metrics.write(f"{what}\n")


def _load(store: Path, *, tells: bool) -> int:
    """The step of the newest save; 0 when there is none."""
    tracker = store / _TRACKER
    step = int(tracker.read_text(encoding="ascii")) if tracker.exists() else 0
    if tells:
        told = [loading_line(step, store), loaded_line(step, store)] if step else cold_start_lines(tracker)
        _say("\n".join(told))
    return step


def _save(store: Path, step: int, clock: SystemClock) -> None:
    _say(saving_line(step, store, clock.now()))
    folder = store / f"iter_{step:07d}"
    folder.mkdir(exist_ok=True)
    (folder / "weights.bin").write_bytes(b"w" * 4096)
    new = store / f"{_TRACKER}.new"
    new.write_text(str(step), encoding="ascii")
    new.replace(store / _TRACKER)
    _say(saved_line(step, store, clock.now()))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
