from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.advice import Answer, Guard
from relance.domain.findings import FindingKind
from relance.domain.stages import HealthCap, Stage
from relance.domain.streams import Stream
from relance.domain.views import JobState
from relance.ports.notifiers import Notice, NoticeKind, NotifierError
from relance.recovery.announcing import Announcer
from relance.recovery.notices import notices_for
from relance.testing import history_values as values
from tests.served.worlds import ADVICE, ASKING, DIGEST, World, world


class Mailbox:
    """Keeps what it is told; fails so many times first."""

    def __init__(self, failures: int = 0) -> None:
        self.notices: list[Notice] = []
        self._failures = failures
        self.filled = asyncio.Event()

    async def notify(self, notice: Notice) -> None:
        if self._failures > 0:
            self._failures -= 1
            raise NotifierError("the pager is out of paper")
        self.notices.append(notice)
        self.filled.set()

    async def close(self) -> None:
        """Nothing is held."""


async def told(made: World, stream: Stream, *events: e.Event) -> list[Notice]:
    """What people are told of these events."""
    after = await made.history.head()
    await made.append(stream, *events)
    found: list[Notice] = []
    for recorded in await made.history.follow(after):
        found += notices_for(recorded, (await made.history.load(stream)).record)
    return found


JOB = values.job_stream("17")
ALPHA = Stream.of_cluster("alpha")


async def test_a_person_is_asked_when_the_commands_are_prepared() -> None:
    made = await world()
    recorded = (await made.history.read(JOB))[-1]
    (notice,) = notices_for(recorded, (await made.history.load(JOB)).record)
    assert notice.kind is NoticeKind.APPROVAL_NEEDED
    assert notice.title == "approve: restart the job from its last checkpoint without n1 (job 17 train)?"
    assert "without an answer nothing is done" in notice.text
    assert (notice.job, notice.incident_id, notice.owner) == (str(values.job_key("17")), ASKING, "ada")
    assert notice.facts["commands"].splitlines()[0] == "scontrol requeue 17"
    assert (notice.facts["advice"], notice.facts["effect"]) == (ADVICE, DIGEST)
    assert notice.facts["line"] == "RuntimeError: CUDA error"


@pytest.mark.parametrize("stage", [Stage.OBSERVE, Stage.ACT])
async def test_nobody_is_asked_at_another_stage(stage: Stage) -> None:
    made = await world(stage)
    recorded = (await made.history.read(JOB))[-1]
    assert notices_for(recorded, (await made.history.load(JOB)).record) == ()


async def test_nobody_is_asked_twice_after_an_answer() -> None:
    made = await world()
    recorded = (await made.history.read(JOB))[-1]
    approved = e.AdviceApproved(
        incident_id=ASKING, advice_id=ADVICE, generation=1, by="x", effect_digest=DIGEST, at=values.NOON,
        until=values.NOON,
    )  # fmt: skip
    await made.append(JOB, approved)
    assert notices_for(recorded, (await made.history.load(JOB)).record) == ()


async def test_a_hold_names_its_reason_and_is_one_notice_however_often_it_is_decided() -> None:
    made = await world()
    ids = set()
    for generation in (2, 3):
        issued = values.advice_issued(ASKING, "17", generation)
        guard = Guard(name="storm", answer=Answer.NO, reason="a shared cause is open")
        advice = replace(issued.advice, hold=True, guards=(guard,), decide_again_at=values.after(600))
        (notice,) = await told(made, JOB, replace(issued, advice=advice))
        assert notice.kind is NoticeKind.HELD
        assert notice.text == "a shared cause is open; decided again at 12:10:00 UTC"
        ids.add(notice.id)
    assert len(ids) == 1


async def test_what_passes_within_minutes_and_what_a_storm_holds_is_no_notice_of_its_own() -> None:
    made = await world()
    issued = values.advice_issued(ASKING, "17", 2)
    guard = Guard(name="verdict_final", answer=Answer.NO, reason="late evidence may come")
    soon = replace(issued.advice, hold=True, guards=(guard,), decide_again_at=values.after(200))
    shared = replace(issued.advice, hold=True, guards=(guard,), storm="storm-1", generation=3)
    assert await told(made, JOB, replace(issued, advice=soon), replace(issued, advice=shared)) == []


async def test_a_storm_a_lost_source_and_a_cap_are_told() -> None:
    made = await world()
    storm = e.StormOpened(cluster="alpha", storm_id="s", reason="nfs", incidents=("a", "b"), at=values.NOON)
    lost = e.SourceLost(cluster="alpha", source="loki", reason="no answer", at=values.NOON)
    cap = e.HealthCapped(
        cluster="alpha", cap=HealthCap(name="controller", stage=Stage.OBSERVE, reason="silent", since=values.NOON)
    )
    back = e.SourceBack(cluster="alpha", source="loki", at=values.NOON)
    notices = await told(made, ALPHA, storm, lost, cap, back)
    assert [notice.kind for notice in notices] == [NoticeKind.STORM, NoticeKind.SOURCE_LOST, NoticeKind.SOURCE_LOST]
    assert notices[0].text.startswith("nfs; 2 jobs so far: `relance storm show` lists them")
    assert "on the whole cluster" in notices[0].title
    assert len({notice.id for notice in notices}) == 3


async def test_the_owner_is_told_that_a_job_is_not_started_again() -> None:
    made = await world()
    closed = e.IncidentClosed(
        incident_id=ASKING, end=e.IncidentEnd.STOPPED, reason="the same error twice", at=values.NOON
    )
    (notice,) = await told(made, JOB, closed)
    assert notice.kind is NoticeKind.JOB_STOPPED
    assert notice.text == "the same error twice. It is a node, not your code: n1 (GPU fell off the bus)"


@pytest.mark.parametrize(
    ("outcome", "kinds"),
    [(JobState.FAILED, [NoticeKind.JOB_STOPPED]), (JobState.CANCELLED, []), (JobState.REQUEUED, [])],
    ids=["the attempt failed", "somebody cancelled it", "somebody requeued it"],
)
async def test_the_owner_is_told_when_our_own_restart_came_to_nothing(
    outcome: JobState, kinds: list[NoticeKind]
) -> None:
    made = await world()
    begun = values.action_started(incident_id=ASKING)
    abandoned = e.ActionAbandoned(
        incident_id=ASKING, action_id=begun.action_id, step_id="s1", reason="nothing was sent", at=values.NOON
    )
    closed = e.IncidentClosed(incident_id=ASKING, end=e.IncidentEnd.LEFT, reason="nothing was sent", at=values.NOON)
    over = e.AttemptEnded(attempt=values.attempt_key("17"), outcome=outcome, ended_at=values.NOON)
    notices = await told(made, JOB, begun, over, abandoned, closed)
    assert [notice.kind for notice in notices] == kinds


async def test_the_owner_is_told_at_once_that_a_job_did_not_resume() -> None:
    made = await world()
    finding = replace(values.finding(9), kind=FindingKind.DID_NOT_RESUME, summary="starts from 0, durable was 450")
    (notice,) = await told(made, JOB, e.FindingReported(finding=finding))
    assert notice.kind is NoticeKind.DID_NOT_RESUME
    assert notice.text == "starts from 0, durable was 450; no further automatic restart"


async def test_an_action_of_which_nothing_is_known_is_told() -> None:
    made = await world()
    unknown = e.ActionUnknown(
        incident_id=ASKING, action_id=f"act-17-{ASKING}", step_id="s", reason="no answer", at=values.NOON
    )
    (notice,) = await told(made, JOB, values.action_started(ASKING, "17"), unknown)
    assert (notice.kind, notice.text) == (NoticeKind.ACTION_UNKNOWN, "no answer")


async def test_a_job_that_does_not_start_because_of_hard_evidence_asks_a_person() -> None:
    made = await world()
    reason = "waits for BadConstraints without n1; the evidence is hard: a person has to choose"
    done = e.ActionSucceeded(
        incident_id=ASKING, action_id=f"act-17-{ASKING}", step_id="s", reason=reason, at=values.NOON
    )
    (notice,) = await told(made, JOB, values.action_started(ASKING, "17"), done)
    assert (notice.kind, notice.text) == (NoticeKind.HELD, reason)


async def test_a_job_that_is_parked_for_a_person_to_choose_is_told_with_the_choices() -> None:
    made = await world()
    issued = next(item.event for item in await made.history.read(JOB) if isinstance(item.event, e.AdviceIssued))
    guard = Guard(name="enough_nodes", answer=Answer.NO, reason="only 3 remain; a person has to choose: free a node")
    parked = replace(issued, advice=replace(issued.advice, hold=False, park=True, guards=(guard,)))
    (notice,) = await told(made, JOB, parked)
    assert notice.kind is NoticeKind.HELD
    assert notice.text.startswith("only 3 remain; a person has to choose")


async def test_everything_else_is_nobodys_concern_at_night() -> None:
    made = await world(Stage.ACT)
    assert await told(made, values.job_stream("30"), *values.whole_story("30", "inc-30")) == []
    assert await told(made, Stream.of_node("alpha", "n5"), *values.node_events("n5")) == []


async def test_an_announcer_tells_each_thing_once_and_goes_on_after_a_failure() -> None:
    made = await world()
    mailbox = Mailbox(failures=1)
    announcer = Announcer(made.history, mailbox, made.clock)
    assert await announcer.turn() > 0
    assert mailbox.notices == [], "the first notice met a failure"
    storm = e.StormOpened(cluster="alpha", storm_id="s", reason="nfs", incidents=(), at=values.NOON)
    await made.append(ALPHA, storm)
    await made.append(ALPHA, storm)
    assert await announcer.turn() == 2
    assert [notice.kind for notice in mailbox.notices] == [NoticeKind.STORM]
    assert announcer.position == await made.history.head()


async def test_a_running_announcer_tells_what_happens_as_it_happens() -> None:
    made = await world()
    mailbox = Mailbox()
    running = asyncio.create_task(Announcer(made.history, mailbox, made.clock).run())
    await asyncio.sleep(0)
    storm = e.StormOpened(cluster="alpha", storm_id="s", reason="nfs", incidents=(), at=values.NOON)
    await made.append(ALPHA, storm)
    async with asyncio.timeout(5):
        await mailbox.filled.wait()
    running.cancel()
    assert [notice.kind for notice in mailbox.notices] == [NoticeKind.STORM]


async def test_an_announcer_begins_at_the_newest_event_unless_told_where() -> None:
    made = await world()
    mailbox = Mailbox()
    announcer = Announcer(made.history, mailbox, made.clock)
    announcer.position = await made.history.head()
    assert await announcer.turn() == 0
    assert mailbox.notices == []
