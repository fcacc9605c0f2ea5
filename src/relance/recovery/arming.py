"""Jobs that Slurm would refuse to requeue are armed while they run, where their own comment or their site says so.

Relance asks for it as a person asks for a request: so it is claimed, noted, sent once, read back and told like one, and
only at `act`. Whoever takes it back has the last word on that job.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.records import JobRecord
from relance.domain.requests import GOOD_FOR, OURSELVES, Request, RequestVerb, request_id
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.histories import Append, ConflictError, History

TRIES = 3
"""So often an attempt is tried to be armed; a scheduler that refuses does so every time."""
_AGAIN = timedelta(seconds=30)


class Arming:
    """Asks for the jobs of a cluster that need it."""

    def __init__(self, history: History) -> None:
        """Begin with nothing asked for."""
        self._history = history
        self._asked: dict[str, datetime] = {}
        """When each attempt was looked at last, by its key."""

    async def ask(self, report: ClusterReport, acting: Collection[str], now: datetime) -> int:
        """Ask for the jobs in this look that are at `act` (the keys of their attempts); gives for how many."""
        wanted = {
            key: view for view in report.jobs
            if may_need_it(view) and (key := str(view.attempt_key(report.cluster))) in acting
        }  # fmt: skip
        self._asked = {key: at for key, at in self._asked.items() if key in wanted}
        count = 0
        for key, view in wanted.items():
            if now - self._asked.get(key, now - _AGAIN) < _AGAIN:
                continue
            self._asked[key] = now
            count += await self._ask_for(view, report.cluster, now)
        return count

    async def _ask_for(self, view: JobView, cluster: str, now: datetime) -> int:
        stream = Stream.of_job(view.job_key(cluster))
        snapshot = await self._history.load(stream)
        record = snapshot.record
        request = arm_request(record, view, now) if isinstance(record, JobRecord) and record.name else None
        if request is None:
            return 0
        asked = e.ActionRequested(request=request)
        batch = Append(stream=stream, expected_version=snapshot.version, events=(asked,), keep_wake=True)
        try:
            await self._history.append(batch, now)
        except ConflictError:
            self._asked.pop(str(view.attempt_key(cluster)), None)  # something else was written: soon again
            return 0
        return 1


def may_need_it(view: JobView) -> bool:
    """Whether the job runs, may not be requeued, and somebody whose word counts wants that it may."""
    return view.state is JobState.RUNNING and view.requeue_allowed is False and bool(view.arming)


def arm_request(record: JobRecord, view: JobView, now: datetime) -> Request | None:
    """What is asked for; None where it is under way, was tried often enough, or was taken back on this job."""
    known = [item for item in record.requests if item.request.verb in (RequestVerb.ARM, RequestVerb.DISARM)]
    if any(item.request.verb is RequestVerb.DISARM or item.is_open for item in known):
        return None
    here = [item for item in known if item.request.restart_count == view.restart_count]
    if len(here) >= TRIES or any(item.end is ActionEnd.FAILED for item in here):
        return None
    return Request(
        id=request_id(record.job.cluster, str(record.job), RequestVerb.ARM, OURSELVES, now),
        verb=RequestVerb.ARM,
        cluster=record.job.cluster,
        reason=view.arming,
        by=OURSELVES,
        at=now,
        expires_at=now + GOOD_FOR,
        job=record.job,
        restart_count=view.restart_count,
    )
