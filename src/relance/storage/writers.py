"""The one writer of an SQLite file: transactions that wait while another is being committed are committed together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

GROUP: Final = 64
"""At most this many transactions share a commit, so that none waits long for the others."""


@dataclass(slots=True, kw_only=True)
class _Job:
    work: Callable[[Connection], Any]
    done: Callable[[Any], None] | None
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """A thread with a queue of transactions.

    A commit waits for the disk, and whatever comes in meanwhile waits for the commit: then all of it goes into one
    transaction, each piece inside a savepoint of its own, and one wait for the disk serves all (group commit). A piece
    that is refused is rolled back alone. If the database itself reports an error, nothing of the group stands and each
    piece is tried alone, so that the trouble of one is not everybody's.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="relance-writer")

    def submit(self, work: Callable[[Connection], Any], done: Callable[[Any], None] | None = None) -> Future[Any]:
        """Have `work` run in a transaction. `done` is called after the commit and before the future has its result."""
        job = _Job(work=work, done=done)
        self._waiting.append(job)
        self._thread.submit(self._drain)
        return job.future

    def close(self) -> None:
        """Finish what waits, and end the thread; may be called twice."""
        self._thread.shutdown(wait=True)

    def _drain(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
        jobs = [job for job in taken if job.future.set_running_or_notify_cancel()]
        if len(jobs) > 1 and self._commit_together(jobs):
            return
        for job in jobs:
            self._commit_alone(job)

    def _commit_together(self, jobs: list[_Job]) -> bool:
        """Whether the group was committed; if not, nothing of it was."""
        try:
            with self._engine.begin() as connection:
                outcomes = [_in_savepoint(connection, job) for job in jobs]
        except Exception:  # noqa: BLE001 - each one's own trouble comes out when it is tried alone
            return False
        for job, (value, error) in zip(jobs, outcomes, strict=True):
            _settle(job, value, error)
        return True

    def _commit_alone(self, job: _Job) -> None:
        try:
            with self._engine.begin() as connection:
                value = job.work(connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to the one who asked
            _settle(job, None, error)
        else:
            _settle(job, value, None)


def _in_savepoint(connection: Connection, job: _Job) -> tuple[Any, Exception | None]:
    savepoint = connection.begin_nested()
    try:
        value = job.work(connection)
    except DBAPIError:
        raise  # SQLite may have ended the whole transaction: nothing more may be written in it
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to the one who asked
        savepoint.rollback()
        return None, error
    savepoint.commit()
    return value, None


def _settle(job: _Job, value: Any, error: Exception | None) -> None:  # noqa: ANN401 - whatever the work gave
    if error is not None:
        job.future.set_exception(error)
        return
    if job.done is not None:
        job.done(value)
    job.future.set_result(value)
