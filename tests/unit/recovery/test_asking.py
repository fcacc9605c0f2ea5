"""Outside providers are asked after our verdict: what comes in time is weighed, and nothing ever waits for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from relance.domain import events as e
from relance.domain.encoding import encode
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.incidents import Incident
from relance.domain.streams import Stream
from relance.domain.verdicts import Opinion
from relance.domain.views import ClusterReport, JobView, NodeState, NodeView, SchedulerFacts
from relance.ports.providers import NotAnswerableError, ProviderError, ProviderQuestion
from relance.providers.exchanges import Exchange
from relance.providers.windows import WindowProvider
from relance.recovery.asking import Asker
from relance.recovery.backends import LocalBackend
from relance.recovery.breakers import BreakerState
from relance.recovery.desks import Desk
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.queries import Queries
from relance.recovery.rounds import Round
from relance.recovery.sites import Site
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_histories import MemoryHistory
from tests.contract.loopback_services import Manner, Service, answers, drips, floods, hangs, says, talks_nonsense
from tests.unit.recovery.situations import FAILED, FIRST, JOB, at

Answer = Callable[[ProviderQuestion], Awaitable[Opinion | None]]
FAILED = replace(FAILED, log_paths=("/logs/17.out", "/logs/*.err"))


class Scripted:
    """A provider that answers as it is told."""

    name = "second"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.questions: list[ProviderQuestion] = []

    async def ask(self, question: ProviderQuestion) -> Opinion | None:
        self.questions.append(question)
        return await self.answer(question)

    async def close(self) -> None: ...


def opinion(**fields: Any) -> Opinion:  # noqa: ANN401 - any field
    return Opinion(provider="another name", at=at(0), **fields)


def always(given: Opinion | None) -> Answer:
    async def answer(_: ProviderQuestion) -> Opinion | None:
        return given

    return answer


def raising(error: Exception) -> Answer:
    async def answer(_: ProviderQuestion) -> Opinion | None:
        raise error

    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server without its doors: one job that failed, and what is asked about it."""

    clock: ManualClock
    history: MemoryHistory
    live: Live
    loop: Loop
    backend: LocalBackend

    async def look(self, *jobs: JobView, sequence: int = 1) -> None:
        nodes = tuple(NodeView(name=f"n{number}", state=NodeState.IDLE, partitions=("gpu",)) for number in range(1, 5))
        await self.backend.report(
            ClusterReport(
                cluster="alpha", session="s", sequence=sequence, as_of=self.clock.now(),
                facts=SchedulerFacts(release="x"), jobs=jobs, nodes=nodes,
            )
        )  # fmt: skip
        await self.loop.tick()

    async def events(self) -> list[e.Event]:
        return [item.event for item in await self.history.read(Stream.of_job(JOB))]

    async def incident(self) -> Incident:
        (row,) = await self.history.incidents()
        return row.incident

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so():  # noqa: ASYNC110 - what is awaited is the code's own, and rings no bell
                await asyncio.sleep(0.005)

    async def kept(self) -> list[Opinion]:
        """The opinions in the history, once there is one."""
        found: list[Opinion] = []
        async with asyncio.timeout(60):
            while not found:
                found = [item.opinion for item in await self.events() if isinstance(item, e.OpinionGiven)]
                await asyncio.sleep(0.005)
        return found


@asynccontextmanager
async def site(*desks: Callable[[ManualClock], Desk], rules: Site = Site()) -> AsyncIterator[Server]:  # noqa: B008 - a value
    clock, history, live = ManualClock(at(101)), MemoryHistory(), Live()
    live.desks = tuple(make(clock) for make in desks)
    loop = Loop(history, live, rules, clock)
    backend = LocalBackend(history, live, loop, rules, clock)
    asker = Asker(history, lambda snapshot, record: loop.gather(snapshot, record, Round()), live.desks, clock)
    asking = asyncio.create_task(asker.run()) if live.desks else None
    try:
        yield Server(clock=clock, history=history, live=live, loop=loop, backend=backend)
    finally:
        if asking is not None:
            assert not asking.done()
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
        for desk in live.desks:
            await desk.close()


def desk_of(provider: Scripted) -> Callable[[ManualClock], Desk]:
    return lambda clock: Desk(provider, clock, 5.0)


async def test_a_verdict_of_ours_is_asked_about_with_what_is_known() -> None:
    provider = Scripted(always(None))
    async with site(desk_of(provider)) as here:
        await here.look(FAILED)
        await here.wait_for(lambda: bool(provider.questions))
        (question,) = provider.questions
        incident = await here.incident()
    assert question.verdict == incident.verdict
    assert (question.user, question.log_paths, question.is_over) == ("ada", ("/logs/17.out",), True)
    assert question.case.attempt == incident.attempt


async def test_an_opinion_in_time_is_weighed_once_and_not_asked_for_again() -> None:
    provider = Scripted(always(opinion(domain=FaultDomain.STORAGE, cause="nfs", text="the filer was away")))
    async with site(desk_of(provider)) as here:
        await here.look(FAILED)
        alone = (await here.incident()).verdict
        assert alone is not None
        await here.kept()
        await here.loop.tick()
        verdict = (await here.incident()).verdict
        assert verdict is not None
        assert (verdict.remedy, verdict.domain, verdict.confidence) == (alone.remedy, alone.domain, alone.confidence)
        assert [(item.provider, item.effect, item.late) for item in verdict.opinions] == [
            ("second", "sees it otherwise", False)
        ]
        assert verdict.runner_up is not None
        assert verdict.runner_up.domain is FaultDomain.STORAGE
        before = len(await here.events())
        for _ in range(3):
            await here.look(FAILED, sequence=before)
            await asyncio.sleep(0.01)
        assert len(provider.questions) == 1
        assert len(await here.events()) == before


async def test_an_opinion_that_comes_late_is_kept_and_the_decision_is_not_made_again() -> None:
    arrive = asyncio.Event()

    async def slow(_: ProviderQuestion) -> Opinion:
        await arrive.wait()
        return opinion(domain=FaultDomain.STORAGE, remedy=Remedy.STOP)

    provider = Scripted(slow)
    async with site(desk_of(provider)) as here:
        await here.look(FAILED)
        await here.wait_for(lambda: bool(provider.questions))
        before = await here.incident()
        here.clock.advance(3.5)
        arrive.set()
        (kept,) = await here.kept()
        await here.look(FAILED, sequence=2)
        after = await here.incident()
    assert kept.late
    assert after.verdict == replace(before.verdict, opinions=(kept,))  # type: ignore[type-var]  # it is judged
    assert after.advice == before.advice


async def test_what_was_not_weighed_before_the_advice_may_begin_counts_no_more() -> None:
    arrive = asyncio.Event()

    async def slow(_: ProviderQuestion) -> Opinion:
        await arrive.wait()
        return opinion(remedy=Remedy.STOP)

    rules = Site().rules("alpha")
    at_once = Site(clusters=(replace(rules, limits=replace(rules.limits, settle_s=0.0)),))
    provider = Scripted(slow)
    async with site(desk_of(provider), rules=at_once) as here:
        here.live.read_to_end[FIRST] = True
        await here.look(FAILED)
        await here.wait_for(lambda: bool(provider.questions))
        arrive.set()
        await here.kept()
        before = await here.incident()
        await here.look(FAILED, sequence=2)
        after = await here.incident()
    assert before.advice is not None
    assert before.advice.may_begin
    assert after.advice == before.advice
    assert after.verdict is not None
    assert [(item.effect, item.late) for item in after.verdict.opinions] == [("", False)]


async def test_what_the_owner_of_the_provider_wrote_is_cut_to_a_size_that_can_be_kept() -> None:
    wild = opinion(text="x" * 10_000, cause="y" * 500, suspects=("n" * 500,) * 100, confidence=float("nan"))
    async with site(desk_of(Scripted(always(replace(wild, effect="agrees", late=True))))) as here:
        await here.look(FAILED)
        (kept,) = await here.kept()
    assert (len(kept.text), len(kept.cause), len(kept.suspects), len(kept.suspects[0])) == (2000, 120, 64, 253)
    assert (kept.confidence, kept.effect, kept.late, kept.provider) == (None, "", False, "second")


@pytest.mark.parametrize(
    ("answer", "count", "state"),
    [
        (raising(ProviderError("it answered with HTTP 500")), "errors", BreakerState.CLOSED),
        (raising(ZeroDivisionError("s3cret")), "errors", BreakerState.CLOSED),
        (raising(NotAnswerableError("the log is not there")), "not_answerable", BreakerState.CLOSED),
        (always(None), "nothing_said", BreakerState.CLOSED),
    ],
    ids=["error", "fault of the provider", "not answerable", "nothing to say"],
)
async def test_what_is_no_opinion_is_counted_and_nothing_more(answer: Answer, count: str, state: BreakerState) -> None:
    async with site(desk_of(Scripted(answer))) as here:
        await here.look(FAILED)
        (desk,) = here.live.desks
        await here.wait_for(lambda: getattr(desk.state, count) == 1)
        assert desk.state.state is state
        assert "s3cret" not in str(encode(desk.state.last_error))
        assert not any(isinstance(item, e.OpinionGiven) for item in await here.events())


async def test_a_provider_without_an_answer_is_given_up_and_left_alone_after_three_times() -> None:
    async def never(_: ProviderQuestion) -> Opinion:
        await asyncio.Event().wait()
        raise AssertionError

    desk = Desk(Scripted(never), ManualClock(), 0.02)
    question: Any = None
    for _ in range(5):
        assert await desk.ask(question) is None
    state = desk.state
    assert (state.state, state.errors, state.left_out) == (BreakerState.OPEN, 3, 2)
    assert state.last_error == "no answer within 0.02 s"


async def test_how_a_provider_is_doing_is_told_by_a_check_of_a_job() -> None:
    async with site(desk_of(Scripted(raising(ProviderError("it answered with HTTP 500"))))) as here:
        await here.look(FAILED)
        await here.wait_for(lambda: here.live.desks[0].state.errors == 1)
        check = await Queries(here.history, Site(), here.clock, here.live).job_check("17")
    assert [(item.name, item.errors, item.last_error) for item in check.providers] == [
        ("second", 1, "it answered with HTTP 500")
    ]


async def _told(manner: Manner | None) -> tuple[list[str], int]:
    """The events of a failed job until its settle time is over, and how many opinions were asked for."""
    if manner is None:
        async with site() as here:
            return await _until_settled(here), 0
    async with Service(manner) as service:
        url = service.url
        async with site(lambda clock: Desk(WindowProvider("second", Exchange(url, 30), clock), clock, 31)) as here:
            found = await _until_settled(here, service)
            return found, len(service.requests)


async def _until_settled(here: Server, service: Service | None = None) -> list[str]:
    await here.look(FAILED)
    if service is not None:
        await here.wait_for(lambda: bool(service.requests))
    for second in range(20):
        here.clock.advance(1)
        await here.look(FAILED, sequence=second + 2)
    return [
        f"{type(item).__name__} {encode(item)!r}"
        for item in await here.events()
        if not isinstance(item, e.OpinionGiven)
    ]


@pytest.mark.parametrize(
    "manner",
    [hangs, drips, floods, talks_nonsense, answers("500 Internal Server Error"), answers("200 OK", b"garbage")],
    ids=["hangs", "drips", "floods", "no HTTP", "500", "garbage"],
)
async def test_a_service_that_is_slow_or_broken_changes_nothing_of_what_is_decided_and_when(manner: Manner) -> None:
    alone, _ = await _told(None)
    beside, asked = await _told(manner)
    assert asked == 1
    assert beside == alone
    assert any(line.startswith("AdviceIssued") for line in alone)


async def test_a_real_service_is_heard_and_its_opinion_is_shown() -> None:
    async with Service(says({"domain": "storage", "explanation": "the filer was away"})) as service:
        url = service.url
        async with site(lambda clock: Desk(WindowProvider("second", Exchange(url), clock), clock, 6)) as here:
            await here.look(FAILED)
            await here.kept()
            await here.loop.tick()
            story = await Queries(here.history, Site(), here.clock, here.live).job_story("17")
    (said,) = story.opinions
    assert (said.domain, said.text, said.effect) == (FaultDomain.STORAGE, "the filer was away", "sees it otherwise")
