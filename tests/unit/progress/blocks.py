"""Blocks of training logs for the tests of progress."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.domain.progress import ProgressMark
from relance.progress import ProgressReader, ReaderState

READ_AT = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)


def block(data: bytes, offset: int = 0, overlap: int = 0) -> LogBlock:
    return LogBlock(file="job.log", offset=offset, data=data, scope=Scope.APPLICATION, read_at=READ_AT, overlap=overlap)


def read(data: bytes | str, own: str | None = None) -> list[ProgressMark]:
    text = data if isinstance(data, bytes) else data.encode()
    return list(ProgressReader(own).read(block(text), ReaderState())[1])


def megatron(step: int, minute: int = 0, *, total: int = 20000, loss: str = "3.218845E+00", ms: str = "8123.4") -> str:
    return (
        f" [2026-05-02 11:{minute:02d}:07.418802] iteration {step:8d}/{total:8d} | "
        f"consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): {ms} | "
        f"throughput per GPU (TFLOP/s/GPU): 412.7 | learning rate: 2.4E-05 | global batch size:  1024 | "
        f"lm loss: {loss} | loss scale: 1.0 | grad norm: 0.873 | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def titan(step: int, second: int = 0, *, label: str = "") -> str:
    return (
        f"{label}\x1b[36m[titan] 2026-05-02 11:00:{second:02d},001 - root - INFO - \x1b[31mstep: {step:2,d}  "
        f"\x1b[32mloss:  6.81234  \x1b[38;2;180;60;0mgrad_norm:  1.9021  \x1b[0mmemory: 61.20GiB(77.40%)  "
        f"tps: 7,312  tflops: 423.11  mfu: 42.78%\x1b[39m\n"
    )
