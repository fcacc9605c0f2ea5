"""A launcher that starts its worker again inside the job, as torchrun does: `restarting.py --steps N --step-s S`.

The worker is a process of its own. The first two times it dies half-way with a traceback; the launcher says so in
torch's words and starts another, which goes on from the last checkpoint. The scheduler sees nothing of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from relance.ports.clocks import SystemClock
from relance.simulation.training_lines import StepReport, loaded_line, loading_line, saved_line, saving_line, step_line

_CHECKPOINT_EVERY = 5
_DEATHS = 2
_CLOCK = SystemClock()


def main() -> int:
    """The launcher, or with `--from` the worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("--from", type=int, dest="start")
    parser.add_argument("--dies-at", type=int, default=0)
    options = parser.parse_args()
    return _launch(options) if options.start is None else _work(options)


def _launch(options: argparse.Namespace) -> int:
    start = 0
    for death in range(_DEATHS + 1):
        dies_at = (death + 1) * options.steps // (_DEATHS + 2) if death < _DEATHS else 0
        again = ["--from", str(start), "--dies-at", str(dies_at)]
        worker = subprocess.Popen([sys.executable, __file__, *_of(options), *again])
        code = worker.wait()
        if code == 0:
            return 0
        start = dies_at // _CHECKPOINT_EVERY * _CHECKPOINT_EVERY
        _say_torch(worker.pid, code, _DEATHS - death)
        time.sleep(0.5)
    return 1


def _of(options: argparse.Namespace) -> list[str]:
    return ["--steps", str(options.steps), "--step-s", str(options.step_s)]


def _say_torch(pid: int, code: int, left: int) -> None:
    stamp = f"{_CLOCK.now():%m%d %H:%M:%S.%f} {os.getpid()}"
    pool = "torch/distributed/elastic/multiprocessing/api.py"
    node = "torch/distributed/elastic/agent/server/api.py"
    lines = [
        f"E{stamp} {pool}:984] failed (exitcode: {code}) local_rank: 0 (pid: {pid}) of binary: /usr/bin/python3",
        f"I{stamp} {node}:952] [default] Worker group FAILED. {left}/9 attempts left; will restart worker group",
        f"I{stamp} {node}:733] [default] Stopping worker group",
        f"I{stamp} {node}:525] [default] Rendezvous'ing worker group",
        f"I{stamp} {node}:705] [default] Starting worker group",
    ]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def _work(options: argparse.Namespace) -> int:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = Path("checkpoints")
    if rank == 0 and options.start:
        _say(loading_line(options.start, folder))
        _say(loaded_line(options.start, folder))
    for step in range(options.start + 1, options.steps + 1):
        time.sleep(options.step_s)
        if step == options.dies_at:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if rank == ranks - 1:
            _say(step_line(_report(step, options), _CLOCK.now()))
        if rank == 0 and step % _CHECKPOINT_EVERY == 0:
            _say(saving_line(step, folder, _CLOCK.now()))
            _say(saved_line(step, folder, _CLOCK.now()))
    return 0


def _report(step: int, options: argparse.Namespace) -> StepReport:
    return StepReport(
        step=step,
        steps=options.steps,
        samples=step * 8,
        elapsed_ms=options.step_s * 1000,
        learning_rate=1e-3,
        batch=8,
        loss=3.0 / step,
        norm=1.0,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
