"""A rank that meets trouble, says so at length, tries again and trains on: `retrying.py --steps N --step-s S`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

from relance.ports.clocks import SystemClock
from relance.simulation.training_lines import StepReport, step_line

_TROUBLE_EVERY = 7
_NCCL = "NCCL WARN socketStartConnect: Connect to 10.0.3.17<41235> failed : Connection refused, retrying"


def main() -> int:
    """Train, in words only."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    clock = SystemClock()
    for step in range(1, options.steps + 1):
        time.sleep(options.step_s)
        if rank == 0 and step % _TROUBLE_EVERY == 0:
            _trouble(step)
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
            sys.stdout.write(step_line(report, clock.now()) + "\n")
            sys.stdout.flush()
    return 0


def _trouble(step: int) -> None:
    host = os.uname().nodename
    try:
        _read_shard()
    except ConnectionResetError:
        sys.stderr.write(f"WARNING: reading shard {step} failed, attempt 1 of 5:\n{traceback.format_exc()}")
    sys.stderr.write(f"{host}:{os.getpid()}:{os.getpid()} [0] {_NCCL}\n")
    sys.stderr.write("WARNING: slow response from the object store (503 SlowDown), retrying in 0.2 s\n")
    sys.stderr.write(f"INFO: reading shard {step} succeeded on attempt 2 of 5\n")
    sys.stderr.flush()


def _read_shard() -> None:
    raise ConnectionResetError(104, "Connection reset by peer")


if __name__ == "__main__":
    sys.exit(main())
