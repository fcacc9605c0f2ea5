"""What people ask for: who may, when it is refused and in which words, what comes of it, and what ends by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionEnd, Effect
from relance.domain.records import JobRecord, NodeRecord
from relance.domain.requests import (
    OURSELVES,
    Request,
    RequestClaim,
    RequestKind,
    RequestOrder,
    RequestReport,
    RequestVerb,
)
from relance.domain.stages import Stage, StageSetting
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, Hold, JobState, NodeState, Window
from relance.ports.backends import BackendRefusedError
from relance.recovery.commands import CommandRefusedError
from relance.recovery.intake import job_events
from relance.recovery.requesting import Wanted
from relance.recovery.sites import ClusterRules, Site
from relance.recovery.subjects import NotKnownError
from relance.recovery.tellings import told
from relance.testing import history_values as values
from tests.served.worlds import World, report, view, world

EFFECT = Effect(summary="as asked", commands=(), digest="d" * 64)
ALL = frozenset(RequestKind)
DAY_S = 86400.0


async def made_at(stage: Stage = Stage.APPROVE, allowed: frozenset[RequestKind] = ALL) -> World:
    """A world in which job 20 waits and 21 is held, beside those that it has."""
    made = await world(stage)
    site = Site(clusters=(ClusterRules(cluster="alpha", opted_in=None, requests=allowed),))
    made = World(clock=made.clock, history=made.history, tokens=made.tokens, live=made.live, site=site)
    for raw_id in ("20", "21"):
        await made.append(values.job_stream(raw_id), values.job_seen(raw_id))
    waiting = (view("20", JobState.PENDING), replace(view("21", JobState.PENDING), hold=Hold.ADMIN))
    shown = report(made)
    look(made, replace(shown, jobs=(*shown.jobs, *waiting)))
    return made


def look(made: World, shown: ClusterReport) -> None:
    """The scheduler shows this now."""
    number = made.live.reports["alpha"].sequence + 1
    made.live.accept(replace(shown, sequence=number, as_of=made.clock.now()), made.clock.now())


async def ask(made: World, verb: RequestVerb, raw_id: str = "19") -> Request:
    return await made.parts.requesting().of_job(raw_id, Wanted(verb=verb, reason="wrong data", by="grace"))


async def keep_out(made: World, verb: RequestVerb = RequestVerb.QUARANTINE, node: str = "n0") -> Request:
    for_s = None if verb is RequestVerb.RETURN else DAY_S
    return await made.parts.requesting().of_node(
        "alpha", node, Wanted(verb=verb, reason="Xid 79", by="grace", for_s=for_s)
    )


async def orders(made: World) -> Sequence[RequestOrder]:
    return (await made.backend.orders("alpha", "c1")).requests


async def claim(made: World, request: Request) -> str:
    """Why a claim is not granted; empty when it is."""
    lease = (await made.backend.orders("alpha", "c1")).lease
    wanted = RequestClaim(request=request, holder="c1", lease_epoch=lease.epoch, effect=EFFECT)
    reply = await made.backend.claim_request(wanted)
    return "" if reply.granted else reply.reason


async def carried_out(made: World, request: Request, end: ActionEnd = ActionEnd.SUCCEEDED, reason: str = "") -> None:
    assert await claim(made, request) == ""
    await made.backend.record_request(RequestReport(request=request, end=end, reason=reason, at=made.clock.now()))


async def node(made: World, name: str = "n0") -> NodeRecord:
    record = (await made.history.load(Stream.of_node("alpha", name))).record
    assert isinstance(record, NodeRecord)
    return record


async def names_of(made: World, stream: Stream) -> list[str]:
    return [type(item.event).__name__ for item in await made.history.read(stream)]


async def test_what_was_asked_is_begun_once_and_told_with_its_name() -> None:
    made = await made_at()
    request = await ask(made, RequestVerb.CANCEL)
    assert [order.request for order in await orders(made)] == [request]
    assert await claim(made, request) == ""
    assert "begun once" in await claim(made, request)
    (begun,) = await orders(made)
    assert begun.started_by == "c1"
    told = RequestReport(request=request, end=ActionEnd.SUCCEEDED, reason="", at=made.clock.now())
    for _ in range(2):
        await made.backend.record_request(told)
    assert await orders(made) == ()
    assert (await names_of(made, values.job_stream("19")))[-3:] == ["ActionRequested", "RequestStarted", "RequestEnded"]
    with pytest.raises(BackendRefusedError):
        await made.backend.record_request(replace(told, request=replace(request, id="req-other")))


@pytest.mark.parametrize("stage", [Stage.OFF, Stage.OBSERVE])
async def test_below_approve_nothing_can_be_asked_and_nothing_begins(stage: Stage) -> None:
    made = await made_at(stage)
    with pytest.raises(CommandRefusedError, match=f"cluster alpha is at {stage.value}: below approve"):
        await ask(made, RequestVerb.CANCEL)
    with pytest.raises(CommandRefusedError, match="below approve Relance changes nothing"):
        await keep_out(made)
    assert await orders(made) == ()


async def test_a_stage_that_is_lowered_after_the_asking_counts() -> None:
    made = await made_at()
    request = await ask(made, RequestVerb.CANCEL)
    await made.append(Stream.of_cluster("alpha"), values.stage_set(stage=Stage.OBSERVE))
    (order,) = await orders(made)
    assert "cluster alpha is at observe" in order.why_not
    assert "cluster alpha is at observe" in await claim(made, request)


async def test_the_stage_of_a_partition_counts_for_jobs_and_nodes() -> None:
    made = await made_at(Stage.ACT)
    setting = StageSetting(stage=Stage.OBSERVE, set_by="grace", set_at=made.clock.now(), partition="gpu")
    await made.append(Stream.of_cluster("alpha"), e.StageSet(cluster="alpha", setting=setting))
    with pytest.raises(CommandRefusedError, match="partition gpu is at observe"):
        await ask(made, RequestVerb.CANCEL)
    with pytest.raises(CommandRefusedError, match="partition gpu is at observe"):
        await keep_out(made)


@pytest.mark.parametrize("verb", [RequestVerb.CANCEL, RequestVerb.HOLD, RequestVerb.RELEASE])
async def test_a_kind_that_the_site_has_not_switched_on_is_refused_by_its_setting(verb: RequestVerb) -> None:
    made = await made_at(allowed=frozenset())
    with pytest.raises(CommandRefusedError, match=r"actions: \{(cancel|hold)_jobs: true\}"):
        await ask(made, verb)


async def test_what_the_scheduler_would_refuse_is_said_before() -> None:
    made = await made_at()
    shown = made.live.reports["alpha"]
    refuses = (("drain_nodes", "Slurm would refuse it: relance is no administrator"),)
    look(made, replace(shown, facts=replace(shown.facts, refuses=refuses)))
    with pytest.raises(CommandRefusedError, match="no administrator"):
        await keep_out(made, RequestVerb.DRAIN)
    assert (await keep_out(made)).mark.startswith("relance-")


@pytest.mark.parametrize(
    ("raw_id", "verb", "word"),
    [
        ("17", RequestVerb.CANCEL, "nothing to cancel: it is failed"),
        ("19", RequestVerb.HOLD, "only a job that waits"),
        ("20", RequestVerb.RELEASE, "it is not held"),
        ("21", RequestVerb.HOLD, "held already"),
    ],
)
async def test_what_makes_no_sense_now_is_refused_at_once(raw_id: str, verb: RequestVerb, word: str) -> None:
    made = await made_at()
    with pytest.raises(CommandRefusedError, match=word):
        await ask(made, verb, raw_id)


async def test_one_request_after_the_other() -> None:
    made = await made_at()
    await ask(made, RequestVerb.HOLD, "20")
    with pytest.raises(CommandRefusedError, match="hold, asked for by grace, is not settled yet"):
        await ask(made, RequestVerb.CANCEL, "20")


async def test_a_release_is_known_as_what_undoes_the_hold() -> None:
    made = await made_at()
    held = await ask(made, RequestVerb.HOLD, "20")
    await carried_out(made, held)
    shown = made.live.reports["alpha"]
    jobs = tuple(replace(job, hold=Hold.ADMIN) if job.raw_id == "20" else job for job in shown.jobs)
    look(made, replace(shown, jobs=jobs))
    released = await ask(made, RequestVerb.RELEASE, "20")
    assert released.undoes == held.id
    await carried_out(made, released)
    record = (await made.history.load(values.job_stream("20"))).record
    assert isinstance(record, JobRecord)
    assert [item.is_in_force for item in record.requests] == [False, True]


async def armed(made: World, *more: e.JobEvent) -> Request:
    """Relance asks for job 19 to be let requeue."""
    asked = Request(
        id="req-arm", verb=RequestVerb.ARM, cluster="alpha", job=values.job_key("19"), reason="its comment",
        by=OURSELVES, at=made.clock.now(), expires_at=made.clock.now() + timedelta(minutes=10),
    )  # fmt: skip
    await made.append(values.job_stream("19"), e.ActionRequested(request=asked), *more)
    return asked


def done(made: World, request_id: str, verb: RequestVerb) -> e.RequestEnded:
    end = ActionEnd.SUCCEEDED
    return e.RequestEnded(request_id=request_id, verb=verb, by="", end=end, reason="", at=made.clock.now())


async def test_what_was_done_to_a_job_meanwhile_does_not_hide_what_a_disarm_takes_back() -> None:
    made = await made_at()
    arm = await armed(made, done(made, "req-arm", RequestVerb.ARM))
    held = replace(arm, id="req-held", verb=RequestVerb.HOLD, by="grace")
    await made.append(
        values.job_stream("19"), e.ActionRequested(request=held), done(made, "req-held", RequestVerb.HOLD)
    )  # fmt: skip
    shown = made.live.reports["alpha"]
    jobs = tuple(replace(job, requeue_allowed=True) if job.raw_id == "19" else job for job in shown.jobs)
    look(made, replace(shown, jobs=jobs))
    assert (await ask(made, RequestVerb.DISARM)).undoes == arm.id


async def test_what_relance_asks_for_itself_keeps_no_person_waiting_before_it_has_begun() -> None:
    made = await made_at()
    await armed(made)
    assert (await ask(made, RequestVerb.CANCEL)).by == "grace"


async def test_a_request_that_nobody_begins_in_time_is_void() -> None:
    made = await made_at()
    request = await ask(made, RequestVerb.CANCEL)
    made.clock.advance(601)
    assert await orders(made) == ()
    assert "no such request is open" in await claim(made, request)
    (row,) = await made.parts.requesting().of_jobs_record("19")
    assert (row.end, row.reason) == (ActionEnd.ABANDONED, "nobody began it in time: no controller did")


async def test_requests_that_were_open_when_the_server_ended_are_found_again() -> None:
    made = await made_at()
    request = await ask(made, RequestVerb.CANCEL)
    again = World(clock=made.clock, history=made.history, tokens=made.tokens, live=made.live, site=made.site)
    assert [order.request for order in await orders(again)] == [request]


async def test_a_node_that_is_kept_out_shows_who_why_and_until_when() -> None:
    made = await made_at()
    request = await keep_out(made)
    await carried_out(made, request)
    (row,) = [row for row in await made.parts.queries().nodes() if row.node == "n0"]
    (exclusion,) = row.exclusions
    assert (exclusion.owner, exclusion.reason, exclusion.until, exclusion.job) == (
        "grace",
        "Xid 79",
        request.until,
        None,
    )
    assert [item.request.id for item in row.requests] == [request.id]
    with pytest.raises(CommandRefusedError, match=r"in quarantine until .* for grace: Xid 79: have it returned first"):
        await keep_out(made, RequestVerb.DRAIN)


async def test_a_node_is_returned_by_what_the_history_knows() -> None:
    made = await made_at()
    kept = await keep_out(made)
    await carried_out(made, kept)
    undo = await keep_out(made, RequestVerb.RETURN)
    assert (undo.mark, undo.undoes, undo.undoes_verb) == (kept.mark, kept.id, RequestVerb.QUARANTINE)
    await carried_out(made, undo)
    assert (await node(made)).exclusions == ()
    assert (await node(made)).kept_out_by is None
    with pytest.raises(CommandRefusedError, match="what others did is theirs to undo"):
        await keep_out(made, RequestVerb.RETURN)


async def test_a_refused_quarantine_keeps_nobody_out() -> None:
    made = await made_at()
    await carried_out(made, await keep_out(made), ActionEnd.FAILED, "Invalid user id")
    assert (await node(made)).exclusions == ()


async def test_a_node_or_a_time_that_makes_no_sense_is_refused() -> None:
    made = await made_at()
    with pytest.raises(NotKnownError):
        await keep_out(made, node="nowhere")
    for for_s in (None, 1.0, 400 * DAY_S):
        wanted = Wanted(verb=RequestVerb.QUARANTINE, reason="Xid 79", by="grace", for_s=for_s)
        with pytest.raises(CommandRefusedError, match="for how long"):
            await made.parts.requesting().of_node("alpha", "n0", wanted)


async def test_a_quarantine_whose_time_is_over_has_ended_by_itself() -> None:
    made = await made_at()
    await carried_out(made, await keep_out(made))
    made.clock.advance(DAY_S + 1)
    assert await orders(made) == ()
    assert (await node(made)).kept_out_by is None
    assert (await names_of(made, Stream.of_node("alpha", "n0")))[-1] == "ExclusionEnded"


def drained(made: World, reason: str) -> ClusterReport:
    shown = made.live.reports["alpha"]
    nodes = tuple(
        replace(item, state=NodeState.DRAINED, reason=reason, set_by="root") if item.name == "n0" else item
        for item in shown.nodes
    )
    return replace(shown, nodes=nodes)


async def test_a_drain_whose_time_is_over_is_asked_back_by_relance_once() -> None:
    made = await made_at()
    kept = await keep_out(made, RequestVerb.DRAIN)
    await carried_out(made, kept)
    made.clock.advance(DAY_S + 1)
    look(made, drained(made, kept.mark))
    await orders(made)
    (order,) = await orders(made)
    assert (order.request.verb, order.request.by, order.request.mark) == (RequestVerb.RETURN, "relance", kept.mark)
    await carried_out(made, order.request, ActionEnd.FAILED, "Invalid user id")
    assert await orders(made) == ()
    made.clock.advance(601)
    look(made, drained(made, kept.mark))
    await orders(made)
    assert len(await orders(made)) == 1


async def test_at_observe_a_drain_whose_time_is_over_is_left_to_people() -> None:
    made = await made_at()
    kept = await keep_out(made, RequestVerb.DRAIN)
    await carried_out(made, kept)
    await made.append(Stream.of_cluster("alpha"), values.stage_set(stage=Stage.OBSERVE))
    made.clock.advance(DAY_S + 1)
    look(made, drained(made, kept.mark))
    assert await orders(made) == ()
    assert await orders(made) == ()
    assert (await node(made)).kept_out_by is not None


async def test_a_drain_that_somebody_took_over_is_theirs_from_then_on() -> None:
    made = await made_at()
    kept = await keep_out(made, RequestVerb.DRAIN)
    await carried_out(made, kept)
    look(made, drained(made, "hopper is at the rack"))
    await orders(made)
    assert (await node(made)).kept_out_by is not None  # too early to tell: nodes are read now and then
    made.clock.advance(200)
    look(made, drained(made, "hopper is at the rack"))
    await orders(made)
    ended = (await made.history.read(Stream.of_node("alpha", "n0")))[-1].event
    assert isinstance(ended, e.ExclusionEnded)
    assert (ended.by, ended.reason) == ("root", "its reason is 'hopper is at the rack' now")


@pytest.mark.parametrize("stands", [True, False])
async def test_a_reservation_that_somebody_deleted_is_seen(stands: bool) -> None:
    made = await made_at()
    kept = await keep_out(made)
    await carried_out(made, kept)
    made.clock.advance(200)
    now = made.clock.now()
    window = Window(name=kept.mark, starts_at=now, ends_at=now + timedelta(days=1), nodes=("n0",), is_maintenance=True)
    look(made, replace(made.live.reports["alpha"], windows=(window,) if stands else ()))
    await orders(made)
    assert ((await node(made)).kept_out_by is not None) is stands


async def test_a_lease_that_was_lost_begins_nothing() -> None:
    made = await made_at()
    request = await ask(made, RequestVerb.CANCEL)
    await made.backend.orders("alpha", "c1")
    stale = RequestClaim(request=request, holder="c2", lease_epoch=1, effect=EFFECT)
    assert not (await made.backend.claim_request(stale)).granted


@pytest.mark.parametrize("allowed", [ALL, frozenset[RequestKind]()])
async def test_hard_evidence_against_a_node_shows_the_ready_command_and_nothing_is_done(
    allowed: frozenset[RequestKind],
) -> None:
    made = await made_at(Stage.ACT, allowed)
    story = await made.parts.queries().incident_story("inc-17")
    ready = "relance node quarantine n1 --for 24h --reason 'Xid 79'"
    assert story.by_hand == ((ready,) if allowed else ())
    assert await orders(made) == ()


async def test_a_quarantine_that_shows_after_all_is_known_and_can_be_returned() -> None:
    made = await made_at()
    late = await keep_out(made)
    await carried_out(made, late, ActionEnd.FAILED, "no answer, and nothing of it shows after 15 s")
    made.clock.advance(30)
    now = made.clock.now()
    window = Window(name=late.mark, starts_at=now, ends_at=now + timedelta(days=1), nodes=("n0",), is_maintenance=True)
    look(made, replace(made.live.reports["alpha"], windows=(window,)))
    await orders(made)
    kept = (await node(made)).kept_out_by
    assert kept is not None
    assert (kept.request.id, kept.reason) == (late.id, "it shows after all")
    assert (await keep_out(made, RequestVerb.RETURN)).mark == late.mark


async def test_what_shows_of_a_cancel_of_ours_is_told_as_the_person_s_who_asked() -> None:
    made = await made_at()
    await carried_out(made, await ask(made, RequestVerb.CANCEL))
    record = (await made.history.load(values.job_stream("19"))).record
    assert isinstance(record, JobRecord)
    gone = replace(view("19", JobState.CANCELLED), cancelled_by=999)
    (seen,) = [
        item for item in job_events(record, gone, (), None, made.clock.now()) if isinstance(item, e.OutsideChangeSeen)
    ]
    assert (seen.change, seen.who) == ("cancel", "grace (by Relance)")
    assert told(seen).title == "Shows as asked for: cancel"


async def test_a_hold_that_somebody_else_released_is_over() -> None:
    made = await made_at()
    await carried_out(made, await ask(made, RequestVerb.HOLD, "20"))
    job = values.job_key("20")
    freed = e.OutsideChangeSeen(job=job, change="release", detail="attempt 0", who=None, at=made.clock.now())
    await made.append(values.job_stream("20"), freed)
    (held,) = await made.parts.requesting().of_jobs_record("20")
    assert (held.is_in_force, held.over_by) == (False, "somebody else")
