"""Appends to a history until it is killed: `python killed_writer.py URL NAME`.

Whatever belongs together goes into one append, so that a reader can tell whether half of one was stored. Each position
is written to standard output once its append has returned.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count

from relance.ports.clocks import SystemClock
from relance.ports.histories import Append
from relance.storage.histories import SqlHistory
from relance.testing.history_values import NOON, attempt_key, change_seen, job_stream, progress_at, whole_story


async def write_changes(history: SqlHistory, raw_id: str) -> None:
    """One event at a time; the checkpoint, the progress and a unique key of each append name the version it makes."""
    stream, attempt = job_stream(raw_id), attempt_key(raw_id)
    version = (await history.load(stream)).version
    while True:
        batch = Append(
            stream=stream,
            expected_version=version,
            events=(change_seen("x" * 500, raw_id),),
            unique=(f"{raw_id}/{version + 1}",),
            checkpoints=((attempt, str(version + 1)),),
            progress=((attempt, progress_at(0, version + 1)),),
        )
        stored = await history.append(batch, NOON)
        version = stored[-1].version
        acknowledge(stored[-1].position)


async def write_stories(history: SqlHistory, name: str) -> None:
    """A whole story at a time, each in a stream of its own."""
    for number in count():
        raw_id = f"{name}-{number}"
        batch = Append(
            stream=job_stream(raw_id), expected_version=0, events=whole_story(raw_id, f"inc-{raw_id}"), wake_at=NOON
        )
        acknowledge((await history.append(batch, NOON))[-1].position)


def acknowledge(position: int) -> None:
    """Tell the parent, in one write."""
    os.write(1, f"{position}\n".encode())


async def main(url: str, name: str) -> None:
    """Take the database for this process, and write."""
    history = await SqlHistory.open(url, clock=SystemClock())
    await history.lock_exclusively(name)
    async with asyncio.TaskGroup() as writers:
        for each in ("a", "b", "c"):
            writers.create_task(write_changes(history, each))
        writers.create_task(write_stories(history, name))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
