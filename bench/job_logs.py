"""Logs of training jobs, made up at the time of a benchmark: the same from the same seed, of any length."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from relance.domain.faults import Scope
from relance.rules.formats import Pack
from relance.rules.patterns import Pattern

SEED = 20260502
_LINES_AT_ONCE = 50_000
_POOL = 30_000
_BEGIN = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
_SIGN_EVERY = 100_000
"""One planted sign in so many lines, as a log has that goes well."""
_STEP_SHARE = 0.2
STORM_SHARE = 0.05
"""The share of lines that rules match where a job falls apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """How a log is to be.

    `signs` is the share of lines that rules match, of so many `kinds` (0: as many as there are), `steps` that of
    progress lines.
    """

    size_bytes: int
    ranks: int = 8
    steps: float = _STEP_SHARE
    signs: float = 1.0 / _SIGN_EVERY
    kinds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a log that was written has: its size, its lines, those that tell a step, and where planted ones begin."""

    size_bytes: int
    lines: int
    steps: int
    signs: frozenset[int]


def write_job_log(path: Path, log: JobLog, pack: Pack) -> Written:
    """Write a log with signs taken from the examples of a pack."""
    rng = random.Random(SEED)
    pool = [_filler(rng, log.ranks) for _ in range(_POOL)]
    examples = _examples(pack)
    examples = rng.sample(examples, log.kinds) if log.kinds else examples
    lines = steps = size = 0
    signs: list[int] = []
    with path.open("wb") as file:
        while size < log.size_bytes:
            batch = rng.choices(pool, k=_LINES_AT_ONCE)
            planted = _planted(rng, log.signs)
            for at in set(rng.sample(range(_LINES_AT_ONCE), round(log.steps * _LINES_AT_ONCE))).difference(planted):
                batch[at] = ""
            for at in planted:
                batch[at] = f"[rank{rng.randrange(log.ranks)}]: {rng.choice(examples)}"
            for at, line in enumerate(batch):
                if not line:
                    steps += 1
                    batch[at] = _step(rng, steps, log.ranks)
            encoded = [f"{line}\n".encode() for line in batch]
            starts = [0, *accumulate(map(len, encoded))]
            signs += [size + starts[at] for at in planted]
            file.write(b"".join(encoded))
            size += starts[-1]
            lines += len(batch)
    return Written(size_bytes=size, lines=lines, steps=steps, signs=frozenset(signs))


def _planted(rng: random.Random, share: float) -> Sequence[int]:
    wanted = share * _LINES_AT_ONCE
    count = int(wanted) + (rng.random() < wanted % 1)
    return rng.sample(range(_LINES_AT_ONCE), count)


def _examples(pack: Pack) -> list[str]:
    """One-line examples of rules that count in a job's own log, alone and without what stands around them."""
    return [
        rule.hit[0]
        for rule in pack.rules
        if Scope.APPLICATION in rule.scopes
        and not (rule.traceback or rule.table or rule.fallback)
        and "\n" not in rule.hit[0]
        and re.search(
            Pattern(text=rule.pattern, ignore_case=rule.ignore_case).source, f"[rank0]: {rule.hit[0]}".encode()
        )
    ]


def _step(rng: random.Random, step: int, ranks: int) -> str:
    at = _BEGIN + timedelta(seconds=step)
    return (
        f"{ranks - 1}:  [{at:%Y-%m-%d %H:%M:%S}.{rng.randrange(1000):03d}] iteration {step:8d}/ 9000000 |"
        f" consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): {900 + 200 * rng.random():.1f} |"
        f" learning rate: 3.0E-04 | global batch size:  1024 | lm loss: {2 + rng.random():.6E} | loss scale: 1.0 |"
        f" grad norm: {rng.random():.3f} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _filler(rng: random.Random, ranks: int) -> str:
    """One of the lines that an ordinary log is full of, many with words that frighten."""
    rank = rng.randrange(ranks)
    return f"{rank}: {rng.choice(_FILLERS)(rng, rank)}"


def _nccl(rng: random.Random, rank: int) -> str:
    channel, peer = rng.randrange(16), rng.randrange(8)
    return (
        f"gpu{rng.randrange(64):03d}:{rng.randrange(2000, 60000)}:{rng.randrange(60000)} [{rank}] NCCL INFO Channel"
        f" {channel:02d}/0 : {rank}[{rank}] -> {peer}[{peer}] [send] via NET/IB/{rng.randrange(8)}/GDRDMA"
        f" comm 0x{rng.getrandbits(48):x} nRanks 64 busId {rng.randrange(256):x}000"
    )


def _nccl_environment(rng: random.Random, rank: int) -> str:
    return (
        f"gpu{rng.randrange(64):03d}:{rng.randrange(2000, 60000)}:{rng.randrange(60000)} [{rank}] NCCL INFO"
        " TORCH_NCCL_ASYNC_ERROR_HANDLING set by environment to 1, NCCL_TIMEOUT=1800,"
        f" NCCL_IB_TIMEOUT={rng.randrange(25)}"
    )


def _loader(rng: random.Random, _rank: int) -> str:
    return (
        f"2026-05-02 11:{rng.randrange(60):02d}:{rng.randrange(60):02d},{rng.randrange(1000):03d} INFO data.prefetch:"
        f" shard-{rng.randrange(100000):05d}.tar read in {rng.random():.3f} s, {rng.randrange(64)} batches ahead,"
        f" 0 errors, 0 retries, cache hit rate {rng.random():.4f}, queue depth {rng.randrange(64)}"
    )


def _memory(rng: random.Random, rank: int) -> str:
    names = ("allocated", "max allocated", "reserved", "max reserved")
    figures = " | ".join(f"{name}: {rng.random() * 80000:.2f}" for name in names)
    return f"[Rank {rank}] (after {rng.randrange(100000)} iterations) memory (MB) | {figures}"


def _health(rng: random.Random, _rank: int) -> str:
    return (
        f"2026-05-02T11:{rng.randrange(60):02d}:{rng.randrange(60):02d}Z DEBUG trainer.health: no NaN values in"
        f" {rng.randrange(1000)} parameters, no overflow, timeouts 0, failed checks 0, gradient error"
        f" {rng.random():.2e}"
    )


def _sample(rng: random.Random, _rank: int) -> str:
    words = " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(8, 30)))
    return f"generated[{rng.randrange(1000)}]: {words}"


def _metric(rng: random.Random, rank: int) -> str:
    return (
        f"timers({rank}) | forward-compute: {rng.random() * 900:.2f} | backward-compute: {rng.random() * 900:.2f} |"
        f" batch-generator: {rng.random() * 9:.2f} | optimizer-clip-main-grad: {rng.random() * 9:.2f} | all-grads-sync:"
        f" {rng.random() * 99:.2f}"
    )


_WORDS = (  # noqa: SIM905 - words are read best as words
    "the error of a model is not a failure, and to time out is human; a signal lost in the network was found again by"
    " the rank and file of memory with device and killed process under illegal weather no space left on the page"
).split()
_FILLERS: tuple[Callable[[random.Random, int], str], ...] = (
    _nccl, _nccl_environment, _loader, _loader, _memory, _health, _sample, _metric,
)  # fmt: skip
