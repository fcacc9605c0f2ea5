"""Asks outside providers once a verdict of ours is stored, and appends what they say to the history.

Nothing waits for them: advice is decided on as if they were not there, and an answer that comes in time is weighed when
the loop looks at the incident again.
"""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from relance.domain import events as e
from relance.domain.faults import NOBODYS_FAULT
from relance.domain.findings import FindingKind
from relance.domain.incidents import Incident
from relance.domain.records import JobRecord
from relance.domain.streams import Recorded, Stream
from relance.domain.verdicts import Opinion
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History, HistoryError, Snapshot
from relance.ports.providers import CAUSE_CHARS, NODE_CHARS, SUSPECTS, TEXT_CHARS, ProviderQuestion
from relance.recovery.desks import Desk
from relance.recovery.situations import Situation, case_file

COUNTS_WITHIN_S = 3.0
"""An opinion counts if it comes this soon after our verdict, well within the settle time; later it is only kept."""
_AT_A_TIME = 4
"""Questions to one provider that are open at the same time."""
_WAITING = 64
"""Questions to one provider that may wait; what comes when so many do is left out."""
_PER_INCIDENT = 3
"""A provider is asked so often about one incident, each time because our verdict or the attempt's end changed."""
_REMEMBERED = 10_000
_TRIES = 8
_LOG = structlog.get_logger(__name__)

Gather = Callable[[Snapshot, JobRecord], Awaitable[Situation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    stream: Stream
    incident_id: str
    reached_at: datetime


class Asker:
    """Puts the questions that new verdicts raise to every desk."""

    def __init__(
        self,
        history: History,
        gather: Gather,
        desks: tuple[Desk, ...],
        clock: Clock,
        counts_within_s: float = COUNTS_WITHIN_S,
    ) -> None:
        """Ask at `desks` about what `gather` finds; subscribes to the history, asks nothing before `run`."""
        self._history = history
        self._gather = gather
        self._clock = clock
        self._counts_within = timedelta(seconds=counts_within_s)
        self._queues = {desk: asyncio.Queue[_Call](_WAITING) for desk in desks}
        self._asked: dict[tuple[str, str], tuple[tuple[object, ...], ...]] = {}
        if desks:
            history.subscribe(self.heard)

    def heard(self, recorded: tuple[Recorded, ...]) -> None:
        """Take in what was appended: each verdict of ours is a question, unless nobody is at fault."""
        for item in recorded:
            if isinstance(item.event, e.VerdictReached) and item.event.verdict.domain not in NOBODYS_FAULT:
                call = _Call(stream=item.stream, incident_id=item.event.incident_id, reached_at=item.event.at.at)
                for desk, queue in self._queues.items():
                    if queue.full():
                        desk.leave_out()
                    else:
                        queue.put_nowait(call)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for desk, queue in self._queues.items():
                for _ in range(_AT_A_TIME):
                    group.create_task(self._serve(desk, queue))

    async def _serve(self, desk: Desk, queue: asyncio.Queue[_Call]) -> None:
        while True:
            call = await queue.get()
            try:
                await self._put(desk, call)
            except Exception as error:  # noqa: BLE001 - the one seam: no trouble with an opinion may end the server
                trace = not isinstance(error, HistoryError)
                _LOG.warning("nothing was asked", incident=call.incident_id, error=repr(error), exc_info=trace)

    async def _put(self, desk: Desk, call: _Call) -> None:
        question = await self._question(call)
        if question is None or not self._is_new(desk, call, question):
            return
        opinion = await desk.ask(question)
        if opinion is not None:
            await self._keep(call, _bounded(replace(opinion, provider=desk.name, effect="")))

    async def _question(self, call: _Call) -> ProviderQuestion | None:
        snapshot = await self._history.load(call.stream)
        record = snapshot.record
        incident = record.incident(call.incident_id) if isinstance(record, JobRecord) else None
        if not isinstance(record, JobRecord) or incident is None or incident.verdict is None:
            return None
        situation = await self._gather(snapshot, record)
        return question_of(situation, record, incident)

    def _is_new(self, desk: Desk, call: _Call, question: ProviderQuestion) -> bool:
        """Whether this was not asked before; the same verdict, reached again because of an opinion, was."""
        key, before = (desk.name, call.incident_id), self._asked.get((desk.name, call.incident_id), ())
        asked = (question.verdict.domain, question.verdict.cause, question.is_over)
        if asked in before or len(before) >= _PER_INCIDENT:
            return False
        self._asked[key] = (*before, asked)
        if len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]
        return True

    async def _keep(self, call: _Call, opinion: Opinion) -> None:
        for _ in range(_TRIES):
            now = self._clock.now()
            snapshot = await self._history.load(call.stream)
            incident = snapshot.record.incident(call.incident_id) if isinstance(snapshot.record, JobRecord) else None
            if incident is None or incident.verdict is None:
                return
            late = now - call.reached_at > self._counts_within or not incident.is_open
            given = e.OpinionGiven(incident_id=call.incident_id, opinion=replace(opinion, at=now, late=late))
            batch = Append(
                stream=call.stream, expected_version=snapshot.version, events=(given,), keep_wake=True
            )  # fmt: skip
            try:
                await self._history.append(batch, now)
            except ConflictError:
                continue
            return
        _LOG.warning("an opinion was not kept: the job changes all the time", incident=call.incident_id)


def _bounded(opinion: Opinion) -> Opinion:
    """An opinion of a size that can be kept, whoever wrote the provider."""
    sure = opinion.confidence
    return replace(
        opinion,
        cause=opinion.cause[:CAUSE_CHARS],
        text=opinion.text[:TEXT_CHARS],
        suspects=tuple(name[:NODE_CHARS] for name in opinion.suspects[:SUSPECTS]),
        confidence=sure if sure is not None and 0 <= sure <= 1 else None,
    )


def question_of(situation: Situation, record: JobRecord, incident: Incident) -> ProviderQuestion | None:
    """What a provider is asked about an incident; None before it is judged."""
    if incident.verdict is None:
        return None
    case = case_file(situation, record, incident)
    ended = any(finding.kind is FindingKind.EXIT for finding in case.findings)
    view = situation.view
    named = tuple(path for path in (view.log_paths if view is not None else ()) if not glob.has_magic(path))
    return ProviderQuestion(
        case=case,
        verdict=incident.verdict,
        user=record.user,
        log_paths=named,
        is_over=ended or (case.job is not None and case.job.state.is_failure),
    )
