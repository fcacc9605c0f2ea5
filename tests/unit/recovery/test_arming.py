"""Jobs that may not be requeued are armed where their own comment or their site says so, and once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.records import JobRecord
from relance.domain.requests import Request, RequestRecord, RequestVerb
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, JobState, JobView, SchedulerFacts
from relance.ports.histories import Append
from relance.recovery.arming import Arming, arm_request, may_need_it
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_histories import MemoryHistory
from tests.unit.recovery.situations import JOB, RUNNING

FIXED = replace(RUNNING, requeue_allowed=False, arming="its own comment asks for it")
"""A running job that may not be requeued, and whose comment asks for that to be changed."""
KEY = str(FIXED.attempt_key(JOB.cluster))


class Desk:
    """A history with the job in it, and who asks."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.history = MemoryHistory()
        self.arming = Arming(self.history)

    async def begin(self) -> Desk:
        seen = e.JobSeen(
            job=JOB, name=FIXED.name, user=FIXED.user, owner_uid=FIXED.owner_uid, partition=FIXED.partition,
            workflow="w", node_count=1,
        )  # fmt: skip
        await self.append(seen)
        return self

    async def append(self, event: e.JobEvent) -> None:
        stream = Stream.of_job(JOB)
        version = (await self.history.load(stream)).version
        await self.history.append(Append(stream=stream, expected_version=version, events=(event,)), self.clock.now())

    async def ask(self, view: JobView = FIXED, *, acting: bool = True, after_s: float = 31.0) -> int:
        self.clock.advance(after_s)
        now = self.clock.now()
        report = ClusterReport(
            cluster=JOB.cluster, session="s", sequence=1, as_of=now, facts=SchedulerFacts(release="22.05.8"),
            jobs=(view,), nodes=(),
        )  # fmt: skip
        return await self.arming.ask(report, (KEY,) if acting else (), now)

    async def requests(self) -> tuple[Request, ...]:
        record = (await self.history.load(Stream.of_job(JOB))).record
        assert isinstance(record, JobRecord)
        return tuple(item.request for item in record.requests)

    async def end(self, request: Request, end: ActionEnd) -> None:
        await self.append(
            e.RequestEnded(
                request_id=request.id, verb=request.verb, by=request.by, end=end, reason="", at=self.clock.now()
            )
        )


async def test_a_job_at_act_whose_word_counts_is_asked_for_once() -> None:
    desk = await Desk().begin()
    assert await desk.ask() == 1
    assert await desk.ask() == 0, "it is under way"
    (request,) = await desk.requests()
    assert (request.verb, request.by, request.restart_count) == (RequestVerb.ARM, "relance", FIXED.restart_count)
    assert request.reason == "its own comment asks for it"
    await desk.end(request, ActionEnd.SUCCEEDED)
    assert await desk.ask(replace(FIXED, requeue_allowed=True)) == 0


async def test_below_act_nothing_is_asked_for() -> None:
    desk = await Desk().begin()
    assert await desk.ask(acting=False) == 0
    assert await desk.requests() == ()


@pytest.mark.parametrize(
    "view",
    [
        replace(FIXED, arming=""),
        replace(FIXED, requeue_allowed=True),
        replace(FIXED, requeue_allowed=None),
        *(replace(FIXED, state=state) for state in JobState if state is not JobState.RUNNING),
    ],
)
def test_what_does_not_run_or_does_not_need_it_is_left_alone(view: JobView) -> None:
    assert not may_need_it(view)


async def test_a_scheduler_that_refuses_is_not_asked_again_for_the_same_attempt() -> None:
    desk = await Desk().begin()
    await desk.ask()
    await desk.end((await desk.requests())[0], ActionEnd.FAILED)
    assert await desk.ask() == 0


async def test_what_came_to_nothing_is_tried_again_three_times_at_most() -> None:
    desk = await Desk().begin()
    for _ in range(3):
        assert await desk.ask() == 1
        await desk.end((await desk.requests())[-1], ActionEnd.ABANDONED)
        assert await desk.ask(after_s=1.0) == 0, "not at once"
    assert await desk.ask() == 0


def test_whoever_takes_it_back_has_the_last_word_on_that_job() -> None:
    now = FIXED.submitted_at
    first = arm_request(JobRecord(job=JOB), FIXED, now)
    assert first is not None
    record = JobRecord(job=JOB, requests=(*_ended(first, now), *_ended(_taken_back(first), now)))
    assert arm_request(record, replace(FIXED, restart_count=FIXED.restart_count + 1), now + timedelta(hours=1)) is None


def _taken_back(first: Request) -> Request:
    return replace(first, id="req-other", verb=RequestVerb.DISARM, by="ada", undoes=first.id)


def _ended(request: Request, now: datetime) -> tuple[RequestRecord, ...]:
    return (RequestRecord(request=request, end=ActionEnd.SUCCEEDED, ended_at=now),)
