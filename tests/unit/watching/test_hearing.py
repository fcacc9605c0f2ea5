"""Who is heard in finished logs, and when for the last time."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.watching.hearing import Ears

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BEGAN = datetime(2026, 1, 1, 10, tzinfo=UTC)


def block(file: str, data: bytes, rank: int | None = None, scope: Scope = Scope.APPLICATION) -> LogBlock:
    return LogBlock(file=file, offset=0, data=data, scope=scope, read_at=NOW, rank=rank)


def line(after_s: float, text: str = "step 1") -> bytes:
    return f"{(BEGAN + timedelta(seconds=after_s)).isoformat()} {text}\n".encode()


def test_ranks_of_one_log_and_of_many_are_heard() -> None:
    ears = Ears(NOW)
    ears.take(block("job.log", b"[rank0]: hello\n[rank5]: hello\n"))
    for rank in (7, 8):
        ears.take(block(f"rank-{rank}.log", line(rank), rank))

    found = ears.presence()

    assert found.ranks == {0, 5, 7, 8}
    assert found.last_at == {rank: BEGAN + timedelta(seconds=rank) for rank in (7, 8)}
    assert found.first_at == BEGAN + timedelta(seconds=7)


def test_the_last_word_counts_however_long_the_log_is() -> None:
    ears = Ears(NOW)
    ears.take(block("rank-3.log", line(0) + b"x" * 99 + b"\n", 3))
    for _ in range(20):
        ears.take(block("rank-3.log", (b"x" * 99 + b"\n") * 1000, 3))
    ears.take(block("rank-3.log", line(600), 3))
    ears.take(block("slurmctld.log", line(900, "done"), scope=Scope.SCHEDULER))

    assert ears.presence().last_at == {3: BEGAN + timedelta(seconds=600)}
    assert ears.latest() == BEGAN + timedelta(seconds=900)


def test_thousands_of_logs_take_no_more_room_than_one() -> None:
    ears, data = Ears(NOW), b"no time here\n" * 20_000
    ears.take(block("rank-0.log", data, 0))
    tracemalloc.start()
    try:
        for rank in range(1, 50):
            ears.take(block(f"rank-{rank}.log", data, rank))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(ears.presence().ranks) == 50
    assert kept < len(data)
