"""A real training run in small: `python -m relance.simulation.trainer --steps 200 --checkpoint-dir DIR`.

One process per rank, each with its own shard of the data; gradients are summed over the ranks by TCP; all ranks then
have the same weights to the last bit, which is checked at each checkpoint. The last rank prints a line per step, rank 0
saves and loads, as in Megatron-LM. A run that was resumed goes the way of one that was never interrupted.

Its place comes from the environment, as with torchrun: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; JOB_ID
and RESTART_COUNT tell attempts apart; NODE_DIR is the node's folder. Without them it trains alone. Exit codes: 0 done,
1 an error, 134 (SIGABRT) a collective took too long.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from relance.ports.clocks import SystemClock
from relance.simulation import checkpoints, networks, training_lines
from relance.simulation.collectives import CollectiveTimeout, DistBackendError, Meeting, Ring
from relance.simulation.corpora import Shard, held_out
from relance.simulation.scenarios import OutOfMemoryError, Place, Scenario, Scenarios, allocate, parsed, wait

_EVALUATION_SAMPLES = 64
_CLOCK = SystemClock()


class WeightsDiffer(RuntimeError):
    """Ranks that ought to have the same weights do not."""


class Training:
    """One rank's part of a run."""

    def __init__(self, options: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._options = options
        self._rank = int(environ.get("RANK", "0"))
        self._ranks = int(environ.get("WORLD_SIZE", "1"))
        node_dir = environ.get("NODE_DIR")
        place = Place(
            rank=self._rank,
            local_rank=int(environ.get("LOCAL_RANK", "0")),
            node_dir=Path(node_dir) if node_dir else None,
            scenario_dir=options.scenario_dir,
        )
        self._scenarios = Scenarios(_given(options), place)
        self._shard = Shard(rank=self._rank, ranks=self._ranks, seed=options.seed)
        self._meeting = Meeting(
            rank=self._rank,
            ranks=self._ranks,
            host=environ.get("MASTER_ADDR", "127.0.0.1"),
            port=int(environ.get("MASTER_PORT", "29500")),
            token=f"{environ.get('JOB_ID', '')}/{environ.get('RESTART_COUNT', '0')}",
            collective_timeout_s=options.collective_timeout_s,
        )
        self._own_file: Path | None = None
        if options.print_rank_files is not None:
            options.print_rank_files.mkdir(parents=True, exist_ok=True)
            self._own_file = options.print_rank_files / f"rank-{self._rank}.log"

    def run(self) -> None:
        """Train to the last step.

        Raises:
            DistBackendError: A peer is gone.
            DistStoreError: A peer never came.
            CollectiveTimeout: A peer does not answer.
            KeyError: A record of the data is damaged.
            AcceleratorError: The node is broken.
            OSError: A checkpoint cannot be read or written.
        """
        ring = Ring(self._meeting)
        step, weights, optimizer = self._start()
        self._agree(ring, weights)
        self._say_first(training_lines.life_line("before the start of training step", _now()))
        began = time.monotonic()
        while step < self._options.steps:
            step += 1
            loss, norm = self._step(ring, step, weights, optimizer)
            ended = time.monotonic()
            self._report(step, loss, norm, 1000 * (ended - began))
            began = ended
            self._between_steps(ring, step, weights, optimizer)
        self._agree(ring, weights)
        self._say_first(training_lines.life_line("after training is done", _now()))
        self._say_first(f"weights after iteration {step}: checksum {networks.checksum(weights).hex()}")
        ring.close()

    def _start(self) -> tuple[int, array[float], networks.Adam]:
        folder: Path | None = self._options.checkpoint_dir
        found = checkpoints.load(folder) if folder is not None else None
        if folder is not None and found is not None:
            self._say_first(training_lines.loading_line(found[0], folder))
            self._say_first(training_lines.loaded_line(found[0], folder))
            return found
        if folder is not None:
            for line in training_lines.cold_start_lines(folder / checkpoints.TRACKER):
                self._say_first(line)
        return 0, networks.first_weights(self._options.seed), networks.Adam()

    def _step(self, ring: Ring, step: int, weights: array[float], optimizer: networks.Adam) -> tuple[float, float]:
        """One step; gives the mean loss over the global batch and the gradient's norm."""
        began = time.monotonic()
        turn = self._scenarios.turn(step)
        if turn.exit_code is not None:
            raise SystemExit(turn.exit_code)
        wait(turn.pause_s)
        if turn.frightening:
            self._frighten(step)
        samples = self._shard.samples(step, self._options.micro_batch, damaged=turn.damaged)
        loss, gradient = networks.loss_and_gradient(weights, samples)
        wait(self._options.step_s * turn.slower - (time.monotonic() - began - turn.pause_s))
        self._scenarios.check_device(step)
        gradient.append(loss)
        ring.all_reduce(gradient)
        batch = self._options.micro_batch * self._ranks
        mean = gradient.pop() / batch
        gradient = array("d", [each / batch for each in gradient])
        return mean, optimizer.step(weights, gradient, networks.learning_rate(step, self._options.steps))

    def _between_steps(self, ring: Ring, step: int, weights: array[float], optimizer: networks.Adam) -> None:
        options = self._options
        if options.eval_every and step % options.eval_every == 0:
            loss = networks.mean_loss(weights, held_out(_EVALUATION_SAMPLES))
            wait(options.eval_s)
            if self._is_last:
                for line in training_lines.evaluation_lines(step, loss):
                    self._say(line)
        if options.checkpoint_dir is None or (step % options.checkpoint_every and step != options.steps):
            return
        self._agree(ring, weights)
        if self._rank == 0:
            self._say(training_lines.saving_line(step, options.checkpoint_dir, _now()))
            checkpoints.save(options.checkpoint_dir, step, weights, optimizer, duration_s=options.save_s)
            self._say(training_lines.saved_line(step, options.checkpoint_dir, _now()))

    @property
    def _is_last(self) -> bool:
        return self._rank == self._ranks - 1

    def _agree(self, ring: Ring, weights: array[float]) -> None:
        sums = ring.all_gather(networks.checksum(weights))
        if len(set(sums)) > 1:
            raise WeightsDiffer(f"checksums by rank: {[each.hex() for each in sums]}")

    def _report(self, step: int, loss: float, norm: float, elapsed_ms: float) -> None:
        batch = self._options.micro_batch * self._ranks
        if self._own_file is not None:
            with self._own_file.open("a", encoding="utf-8") as file:
                file.write(f"{_now():%Y-%m-%d %H:%M:%S} rank {self._rank} finished iteration {step}\n")
        if self._is_last:
            report = training_lines.StepReport(
                step=step,
                steps=self._options.steps,
                samples=step * batch,
                elapsed_ms=elapsed_ms,
                learning_rate=networks.learning_rate(step, self._options.steps),
                batch=batch,
                loss=loss,
                norm=norm,
            )
            self._say(training_lines.step_line(report, _now()))

    def _frighten(self, step: int) -> None:
        """Run out of memory, and get over it."""
        try:
            allocate(step)
        except OutOfMemoryError:
            sys.stderr.write(traceback.format_exc())
            host = os.uname().nodename
            sys.stderr.write(f"{host}:{os.getpid()}:{os.getpid()} [0] NCCL WARN Cuda failure 2 'out of memory'\n")
            sys.stderr.flush()
            self._say(
                "WARNING: out of memory, emptied the cache; trying this iteration again with a smaller micro batch"
            )

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _say_first(self, line: str) -> None:
        if self._rank == 0:
            self._say(line)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options; a wrong one ends the process with 2."""
    parser = argparse.ArgumentParser(prog="relance.simulation.trainer", description="Train a small language model.")
    parser.add_argument("--steps", type=int, default=200, help="how many steps the whole run has")
    parser.add_argument("--step-s", type=float, default=0.2, help="how long a step takes at least, in seconds")
    parser.add_argument("--micro-batch", type=int, default=4, help="samples per rank and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", type=Path, help="where checkpoints lie; without it, none are made")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--save-s", type=float, default=0.0, help="how long a save takes at least, in seconds")
    parser.add_argument("--eval-every", type=int, default=0, help="steps between two evaluations; 0: none")
    parser.add_argument("--eval-s", type=float, default=0.0, help="how long an evaluation takes at least, in seconds")
    parser.add_argument("--collective-timeout-s", type=float, help="how long to wait for a peer; default for ever")
    parser.add_argument(
        "--print-rank-files", type=Path, metavar="DIR", help="a line per step in DIR/rank-N.log as well"
    )
    parser.add_argument(
        "--scenario", type=_scenario, action="append", default=[], help="see relance.simulation.scenarios"
    )
    parser.add_argument("--scenario-dir", type=Path, help="a folder in which files start scenarios")
    parser.add_argument(
        "--wait-for-lost-peers",
        action="store_true",
        help="when a peer is gone, wait without a word, as a collective without a time limit does",
    )
    parser.add_argument("--bug-at-step", type=int, help="the same as --scenario bug:at=STEP")
    parser.add_argument("--frightening-at-step", type=int, help="the same as --scenario frightening:at=STEP")
    parser.add_argument("--pause-at-step", type=int, help="with --pause-s, the same as --scenario pause:at=STEP,s=S")
    parser.add_argument("--pause-s", type=float, default=30.0)
    parser.add_argument(
        "--slow-node", action="append", default=[], metavar="NODE", help="its steps take --slow-factor as long"
    )
    parser.add_argument("--slow-factor", type=float, default=3.0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    options = options_of(arguments)
    rank = int(os.environ.get("RANK", "0"))
    try:
        Training(options, os.environ).run()
    except CollectiveTimeout as error:
        sys.stderr.write(training_lines.watchdog_line(rank, str(error), _now()))
        sys.stderr.flush()
        os.abort()
    except Exception as error:  # noqa: BLE001 -- what ends a rank is told as torch tells it
        if options.wait_for_lost_peers and isinstance(error, DistBackendError):
            _wait_for_ever()
        sys.stderr.write(training_lines.failure_lines(rank, traceback.format_exc()))
        return 1
    return 0


def _wait_for_ever() -> NoReturn:
    while True:
        time.sleep(3600.0)


def _given(options: argparse.Namespace) -> list[Scenario]:
    given: list[Scenario] = list(options.scenario)
    if options.bug_at_step is not None:
        given.append(Scenario(name="bug", at=options.bug_at_step))
    if options.frightening_at_step is not None:
        given.append(Scenario(name="frightening", at=options.frightening_at_step))
    if options.pause_at_step is not None:
        given.append(Scenario(name="pause", at=options.pause_at_step, s=options.pause_s))
    if os.environ.get("NODE_NAME") in options.slow_node:
        given.append(Scenario(name="slow", factor=options.slow_factor))
    return given


def _scenario(text: str) -> Scenario:
    try:
        return parsed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _now() -> datetime:
    """The machine's local time, as training scripts print it."""
    return _CLOCK.now().astimezone()


if __name__ == "__main__":
    sys.exit(main())
