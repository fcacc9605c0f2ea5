"""Whatever is asked of them, a history in a file and one in memory answer alike."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relance.domain.advice import Lease, PermitWish
from relance.domain.observations import Attachment
from relance.ports.clocks import SystemClock
from relance.ports.histories import Append, History, HistoryError, NoPermitError
from relance.storage.histories import SqlHistory
from relance.testing.history_values import (
    after,
    attempt_key,
    change_seen,
    job_key,
    job_seen,
    job_stream,
    opening,
    progress_at,
    report_of,
)
from relance.testing.memory_histories import MemoryHistory

JOBS = ("1", "2", "3 ü")
WISHES = (PermitWish(scope="a", burst=2, refill_s=10.0), PermitWish(scope="b", burst=1, refill_s=30.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to ask, at a time; `behind` is how far the expected version is from the real one."""

    at: datetime
    batch: Append
    behind: int = 0
    lease_wish: tuple[str, float] | None = None
    use_lease: bool = False
    sequence: int | None = None


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    made, second = [], 0.0
    for number in range(draw(st.integers(1, 20))):
        second += draw(st.sampled_from([0.0, 1.0, 4.5, 11.0, 60.0, -30.0]))
        made.append(_step(draw, number, second))
    return made


def _step(draw: st.DrawFn, number: int, second: float) -> Step:
    raw_id = draw(st.sampled_from(JOBS))
    some = draw(st.integers(0, 2))
    events = (job_seen(raw_id), *opening(f"inc-{raw_id}-{number}", raw_id, second)) if draw(st.booleans()) else ()
    batch = Append(
        stream=job_stream(raw_id),
        expected_version=0,
        events=(*events, *(change_seen(f"{number}.{part}", raw_id) for part in range(some))),
        wake_at=draw(st.sampled_from([None, after(second + 5), after(second - 5)])),
        keep_wake=draw(st.booleans()),
        unique=draw(st.sampled_from([(), ("x",), ("y", f"z{number}")])),
        permits=draw(st.sampled_from([(), WISHES[:1], WISHES[1:], WISHES])),
        checkpoints=((attempt_key(raw_id), f"checkpoint {number}"),) if draw(st.booleans()) else (),
        progress=((attempt_key(raw_id), progress_at(second, number)),) if draw(st.booleans()) else (),
        attachments=((attempt_key(raw_id), Attachment(file="/log", start_offset=some, data=b"end")),)
        if draw(st.booleans())
        else (),
    )
    return Step(
        at=after(second),
        batch=batch,
        behind=draw(st.sampled_from([0, 0, 0, 1])),
        lease_wish=draw(st.sampled_from([None, ("one", 10.0), ("two", 20.0)])),
        use_lease=draw(st.booleans()),
        sequence=draw(st.sampled_from([None, number, number - 3])),
    )


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with tables and nothing in them, to be copied."""
    path = tmp_path_factory.mktemp("history") / "empty.db"

    async def make() -> None:
        await (await SqlHistory.open(f"sqlite:///{path}", clock=SystemClock())).close()

    asyncio.run(make())
    return path


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(story=steps())
def test_a_file_and_a_memory_answer_alike(empty_file: Path, story: list[Step]) -> None:
    async def compare() -> None:
        with TemporaryDirectory() as folder:
            path = shutil.copy(empty_file, f"{folder}/relance.db")
            file = await SqlHistory.open(f"sqlite:///{path}", clock=SystemClock())
            memory = MemoryHistory()
            for step in story:
                assert await _take(file, step) == await _take(memory, step)
            now = story[-1].at
            expected = await _all_there_is(memory, now)
            assert await _all_there_is(file, now) == expected
            assert await file.rebuild() == await memory.rebuild()
            await file.close()
            file = await SqlHistory.open(f"sqlite:///{path}", clock=SystemClock())
            assert await _all_there_is(file, now) == expected
            await file.close()

    asyncio.run(compare())


async def _take(history: History, step: Step) -> list[object]:
    """Carry out a step; all that it answers."""
    answers: list[object] = []
    lease: Lease | None = None
    if step.lease_wish is not None:
        lease = await history.take_lease("alpha", *step.lease_wish, step.at)
        answers.append(lease)
    if step.sequence is not None:
        await history.put_report(report_of(sequence=step.sequence), step.at)
    version = (await history.load(step.batch.stream)).version
    batch = replace(step.batch, expected_version=version - step.behind, lease=lease if step.use_lease else None)
    return [*answers, await _answer(history.append(batch, step.at))]


async def _answer(asked: Awaitable[object]) -> object:
    """What was given, or why it was refused."""
    try:
        return await asked
    except NoPermitError as error:
        return (error.scope, error.free_at)
    except HistoryError as error:
        return type(error)


async def _all_there_is(history: History, now: datetime) -> list[object]:
    beside = [
        [await history.load(job_stream(raw_id)) for raw_id in JOBS],
        [await history.read(job_stream(raw_id), 2) for raw_id in JOBS],
        [await history.checkpoint(attempt_key(raw_id)) for raw_id in JOBS],
        [await history.progress(attempt_key(raw_id)) for raw_id in JOBS],
        [await history.progress_rows(attempt_key(raw_id)) for raw_id in JOBS],
        [await history.kept_logs(job_key(raw_id)) for raw_id in JOBS],
        [await history.find_jobs(raw_id) for raw_id in JOBS],
        [await history.permit_free_at(wish, now) for wish in WISHES],
    ]
    return [
        *beside,
        await history.follow(0, 1000),
        await history.follow(3, 2),
        await history.head(),
        set(await history.due(now, 10)),
        await history.next_due(),
        await history.report("alpha"),
        await history.jobs(),
        await history.incidents(),
        await history.incidents(open_only=True, since=now, limit=3),
    ]
