"""What the watchdog did without us, taken into the history of the job: each deed once for each state of it."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.deeds import WatchdogDeed
from relance.domain.records import JobRecord
from relance.domain.streams import Stream
from relance.ports.backends import BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History

_TRIES = 20


def deed_events(record: JobRecord, deed: WatchdogDeed) -> tuple[e.JobEvent, ...]:
    """The event of a deed; nothing where that state of it, or its last word, is known."""
    known = next((item for item in record.watchdog if item.id == deed.id), None)
    if known is not None and (known.state is deed.state or known.state.is_final):
        return ()
    return (e.WatchdogActed(attempt=deed.attempt, deed=deed),)


async def record_deed(history: History, clock: Clock, deed: WatchdogDeed) -> None:
    """Store a deed. Raises BackendRefusedError for a job that nobody has reported, BackendUnavailableError."""
    stream = Stream.of_job(deed.attempt.job)
    for _ in range(_TRIES):
        snapshot = await history.load(stream)
        if not isinstance(snapshot.record, JobRecord) or snapshot.version == 0:
            message = f"no such job: {deed.attempt.job}"
            raise BackendRefusedError(message)
        events = deed_events(snapshot.record, deed)
        if not events:
            return
        append = Append(stream=stream, expected_version=snapshot.version, events=events, keep_wake=True)
        try:
            await history.append(append, clock.now())
        except ConflictError:
            continue
        return
    message = f"{stream} is too busy"
    raise BackendUnavailableError(message)
