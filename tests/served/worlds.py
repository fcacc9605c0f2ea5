"""A small world behind a server: one cluster, a job that waits for an approval, one that recovered, one that runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import httpx2
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from relance.api import ServerParts, WebSettings, create_app
from relance.console import create_console
from relance.domain import events as e
from relance.domain.advice import Answer, Command, Effect, Guard
from relance.domain.progress import Phase, Progress
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, JobState, JobView, NodeState, NodeView, SchedulerFacts
from relance.ports.histories import Append
from relance.ports.tokens import Token, TokenRole
from relance.recovery.backends import LocalBackend
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.sites import ClusterRules, Site
from relance.rules.formats import DerivedRule
from relance.serving.identities import digest_of
from relance.serving.owners import Owners
from relance.testing import history_values as values
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_histories import MemoryHistory
from relance.testing.memory_tokens import MemoryTokens
from tests.unit.rules.packs import packaged

DIGEST = "d" * 64
ASKING = "inc-17"
ADVICE = "adv-17-1-inc-17"
SCARY = "<script>alert(1)</script> \x1b[31mred\x1b[0m [bold]x[/bold]"


@functools.cache
def trace_rules() -> tuple[DerivedRule, ...]:
    """The shipped rules of traces."""
    return packaged().derived


_PREPARED: dict[tuple[int, str], BaseRoute] = {}


def _prepared(route: BaseRoute) -> BaseRoute:
    """The same router as an earlier application included it, if one did.

    FastAPI makes the schemas of an included router anew for each application, at its first request: a fifth of a second
    for each of some hundred worlds. They hang on the router alone; what a request reads comes from the application.
    """
    router, context = getattr(route, "original_router", None), getattr(route, "include_context", None)
    if router is None or context is None:
        return route
    return _PREPARED.setdefault((id(router), context.prefix), route)


@dataclass(kw_only=True)
class World:
    """The parts of a server over a history in memory, with a token for each role."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(values.after(30)))
    history: MemoryHistory = field(default_factory=MemoryHistory)
    tokens: MemoryTokens = field(default_factory=MemoryTokens)
    live: Live = field(default_factory=Live)
    site: Site = field(default_factory=lambda: Site(clusters=(ClusterRules(cluster="alpha", opted_in=None),)))
    web: WebSettings = field(default_factory=WebSettings)
    owners: Owners = field(default_factory=Owners)

    def __post_init__(self) -> None:
        self.loop = Loop(self.history, self.live, self.site, self.clock)
        self.backend = LocalBackend(self.history, self.live, self.loop, self.site, self.clock, trace_rules)
        self.parts = ServerParts(
            backend=self.backend,
            history=self.history,
            tokens=self.tokens,
            clock=self.clock,
            site=self.site,
            live=self.live,
            web=self.web,
            session_key=b"k" * 32,
            owners=self.owners,
        )

    async def append(self, stream: Stream, *events: e.Event) -> None:
        """Append to a stream as it is."""
        snapshot = await self.history.load(stream)
        batch = Append(stream=stream, expected_version=snapshot.version, events=events)
        await self.history.append(batch, self.clock.now())

    def app(self) -> ASGIApp:
        """API and console over this world."""
        made = create_app(self.parts, create_console(self.parts))
        made.router.routes[:] = [_prepared(route) for route in made.router.routes]
        return made

    def client(self, role: TokenRole | None = None, **headers: str) -> httpx2.AsyncClient:
        """A client in the same process, with the token of a role."""
        if role is not None:
            headers["Authorization"] = f"Bearer {secret(role)}"
        transport = httpx2.ASGITransport(app=self.app())
        return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8642", headers=headers)


def secret(role: TokenRole) -> str:
    """The secret of a role's token; its name is the role's."""
    return f"relance_{role.value}"


async def world(stage: Stage = Stage.APPROVE, web: WebSettings | None = None, owners: Owners | None = None) -> World:
    """A world at a stage, in the middle of a night: job 17 asks for an approval, 18 recovered, 19 runs."""
    made = World(web=web or WebSettings(), owners=owners or Owners())
    for role in TokenRole:
        await made.tokens.add_token(
            Token(name=role.value, role=role, digest=digest_of(secret(role)), created_at=made.clock.now())
        )
    await made.append(Stream.of_cluster("alpha"), values.stage_set(stage=stage))
    await made.append(values.job_stream("17"), *_asking(stage))
    await made.append(values.job_stream("18"), *values.whole_story("18", "inc-18"))
    await made.append(
        values.job_stream("19"),
        values.job_seen("19", name=SCARY),
        e.AttemptStarted(attempt=values.attempt_key("19"), nodes=("n0",), started_at=values.after(0)),
    )
    await made.append(Stream.of_node("alpha", "n1"), *values.node_events())
    made.live.accept(report(made), made.clock.now())
    made.live.progress[values.attempt_key("17")] = progress(480, durable=450)
    made.live.progress[values.attempt_key("19")] = progress(1200, total=5000)
    return made


def progress(step: int, *, durable: int | None = None, total: int | None = None) -> Progress:
    """Progress up to a step, one step a second."""
    return Progress(
        as_of=values.after(29),
        phase=Phase.TRAINING,
        first_step=1,
        step=step,
        step_at=values.after(1),
        highest_step=step,
        total_steps=total,
        steps_seen=step,
        median_step_s=1.0,
        checkpoint_durable=durable,
    )


def report(made: World) -> ClusterReport:
    """What the scheduler shows: 17 failed, 18 completed, 19 runs."""
    return ClusterReport(
        cluster="alpha",
        session="s1",
        sequence=1,
        as_of=made.clock.now(),
        facts=SchedulerFacts(release="24.05", may_act=True),
        jobs=(
            view("17", JobState.FAILED, nodes=("n0", "n1")),
            view("18", JobState.COMPLETED),
            view("19", JobState.RUNNING, nodes=("n0",), name=SCARY),
        ),
        nodes=(
            NodeView(name="n0", state=NodeState.ALLOCATED, partitions=("gpu",)),
            NodeView(name="n1", state=NodeState.DOWN, partitions=("gpu",), reason="not responding"),
        ),
    )


def view(raw_id: str, state: JobState, nodes: tuple[str, ...] = (), name: str = "train") -> JobView:
    """A job as the scheduler shows it."""
    return JobView(
        raw_id=raw_id,
        first_submitted_at=values.NOON,
        submitted_at=values.NOON,
        restart_count=0,
        name=name,
        user="ada",
        owner_uid=1000,
        partition="gpu",
        state=state,
        nodes=nodes,
        node_count=max(1, len(nodes)),
        started_at=values.after(0),
        ended_at=values.after(2) if state.is_over else None,
    )


def _asking(stage: Stage) -> tuple[e.Event, ...]:
    *story, issued = values.whole_story("17", ASKING)[:7]
    assert isinstance(issued, e.AdviceIssued)
    guards = (
        Guard(name="over", answer=Answer.YES, reason="the attempt has ended"),
        Guard(name="twin", answer=Answer.YES, reason="no other job is the same work"),
    )
    issued = replace(issued, advice=replace(issued.advice, guards=guards))
    effect = Effect(
        summary="requeue job 17 without n1",
        commands=(
            Command(argv=("scontrol", "requeue", "17")),
            Command(argv=("scontrol", "update", "JobId=17", "ExcNodeList=n1", "StartTime=now")),
        ),
        digest=DIGEST,
    )
    prepared = e.ActionPrepared(
        incident_id=ASKING, advice_id=ADVICE, generation=1, effect=effect, stage=stage, at=values.after(5)
    )
    return (*story, issued, prepared)
