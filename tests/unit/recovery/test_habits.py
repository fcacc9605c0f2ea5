"""What a workflow's attempts are known to take, after a start of the server too."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.streams import Stream
from relance.ports.histories import Append
from relance.recovery.habits import Habit, Habits
from relance.recovery.intake import job_events
from relance.testing.memory_histories import MemoryHistory
from tests.unit.recovery.situations import JOB, RUNNING, at


async def _stored(history: MemoryHistory, raw_id: str, name: str, progress: Progress) -> JobRecord:
    job = replace(JOB, raw_id=raw_id)
    view = replace(RUNNING, raw_id=raw_id, name=name)
    events = job_events(JobRecord(job=job), view, (), None, at(2))
    key = AttemptKey(job=job, restart_count=0)
    stream = Stream.of_job(job)
    await history.append(Append(stream=stream, expected_version=0, events=events, progress=((key, progress),)), at(2))
    record = (await history.load(stream)).record
    assert isinstance(record, JobRecord)
    return record


def _took(start_s: float | None, pause_s: float | None) -> Progress:
    return Progress(as_of=at(2), start_s=start_s, longest_pause_s=pause_s)


async def test_after_a_start_of_the_server_the_history_tells_of_the_workflow_alone() -> None:
    history = MemoryHistory()
    await _stored(history, "15", "train", _took(700.0, 60.0))
    await _stored(history, "16", "train", _took(None, 90.0))
    await _stored(history, "17", "other", _took(5000.0, 5000.0))
    record = await _stored(history, "18", "train", _took(None, None))
    assert await Habits(history).of(record, at(10)) == Habit(start_s=700.0, pause_s=90.0)


async def test_what_a_watcher_hands_over_is_learned_at_once() -> None:
    history = MemoryHistory()
    record = await _stored(history, "18", "train", _took(None, None))
    habits = Habits(history)
    assert await habits.of(record, at(10)) == Habit()
    habits.note(record, _took(30.0, 12.0))
    habits.note(record, _took(20.0, 14.0))
    assert await habits.of(record, at(20)) == Habit(start_s=30.0, pause_s=14.0)
