"""Where controllers show, claim and hand over evidence of suspected hangs: the server's half of it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog

from relance.domain import events as e
from relance.domain.advice import ClaimReply, Lease
from relance.domain.collecting import Collected, EvidenceClaim, EvidenceOrder, EvidenceReport
from relance.domain.collecting_events import shown_key
from relance.domain.findings import RuleHit
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.ports.backends import BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History, LeaseLostError, NoPermitError, NotUniqueError
from relance.recovery.assigning import view_of
from relance.recovery.collecting import (
    Ground,
    collected_hits,
    evidence_orders,
    permits,
    refusal,
    started,
    unique_key,
)
from relance.recovery.evidence_outputs import TraceRules, read_outputs
from relance.recovery.live import Live
from relance.recovery.ordering import job_stage
from relance.recovery.sites import ClusterRules, Site

_LOG = structlog.get_logger(__name__)
_TRIES = 20


class EvidenceDesk:
    """Takes claims and reports on evidence, and gives the orders for it."""

    def __init__(self, history: History, live: Live, site: Site, clock: Clock, rules: TraceRules) -> None:
        """Take the history, what agents said last, the site's rules, the time, and the rules of traces."""
        self._history = history
        self._live = live
        self._site = site
        self._clock = clock
        self._rules = rules

    def orders(
        self, record: JobRecord, incident_id: str, stages: ClusterRecord, now: datetime
    ) -> tuple[EvidenceOrder, ...]:
        """The orders for an open incident of a job."""
        incident = record.incident(incident_id)
        return evidence_orders(self._ground(record, incident, stages, now)) if incident is not None else ()

    def shown(self, record: JobRecord, attempt: AttemptKey) -> tuple[RuleHit, ...]:
        """What was collected of an attempt shows, for its detectors."""
        return collected_hits(record, attempt, self._live.progress.get(attempt))

    async def claim(self, claim: EvidenceClaim) -> ClaimReply:
        """Let the command be run: all checks and the append are one transaction on the job's stream."""
        stream = Stream.of_job(claim.attempt.job)
        for _ in range(_TRIES):
            now = self._clock.now()
            snapshot = await self._history.load(stream)
            record, incident = _meant(snapshot.record, claim.incident_id)
            if record is None or incident is None:
                return ClaimReply(granted=False, reason="no such incident")
            cluster = await self._history.load(Stream.of_cluster(claim.cluster))
            against = refusal(self._ground(record, incident, _stages(cluster.record, claim.cluster), now), claim)
            if against:
                return ClaimReply(granted=False, reason=against)
            append = Append(
                stream=stream,
                expected_version=snapshot.version,
                events=(started(claim, now),),
                keep_wake=True,
                unchanged=((cluster.stream, cluster.version),),  # a stage set meanwhile counts before this begins
                unique=(unique_key(claim),),
                permits=permits(claim),
                lease=Lease(
                    cluster=claim.cluster,
                    holder=claim.holder,
                    epoch=claim.lease_epoch,
                    duration_s=self._site.rules(claim.cluster).lease_s,
                ),
            )
            try:
                await self._history.append(append, now)
            except ConflictError:
                continue
            except NoPermitError as error:
                free_in_s = max(0.0, (error.free_at - now).total_seconds())
                return ClaimReply(granted=False, reason=str(error), again_in_s=free_in_s)
            except (NotUniqueError, LeaseLostError) as error:
                return ClaimReply(granted=False, reason=str(error))
            return ClaimReply(granted=True, action_id=claim.key)
        message = f"{stream} is too busy"
        raise BackendUnavailableError(message)

    async def record(self, report: EvidenceReport, stage_of: Callable[[JobRecord], Awaitable[Stage]]) -> None:
        """Store what a controller tells. Raises BackendRefusedError for an incident that is not known."""
        stream = Stream.of_job(report.attempt.job)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            record, incident = _meant(snapshot.record, report.incident_id)
            if record is None or incident is None:
                message = f"no such incident: {report.incident_id}"
                raise BackendRefusedError(message)
            if report.shown is not None:
                append = Append(
                    stream=stream,
                    expected_version=snapshot.version,
                    events=_shown(incident, report, await stage_of(record)),
                    keep_wake=True,
                )
            else:
                append = await self._ended(record, incident, report, snapshot.version)
            if not append.events:
                return
            try:
                await self._history.append(append, self._clock.now())
            except ConflictError:
                continue
            return
        message = f"{stream} is too busy"
        raise BackendUnavailableError(message)

    async def _ended(self, record: JobRecord, incident: Incident, report: EvidenceReport, version: int) -> Append:
        """The append of what came of a command; without events where that is known, or nothing was begun."""
        stream = Stream.of_job(record.job)
        known = next((item for item in incident.evidence if item.key == report.key), None)
        if report.collected is None or known is None or not known.is_open:
            return Append(stream=stream, expected_version=version, events=())
        number = 1 + sum(item.ended_at is not None for item in incident.evidence)
        pieces = _pieces(report.collected, f"evidence {number}")
        try:
            hits, notes = await asyncio.to_thread(read_outputs, pieces, self._rules, self._clock.now())
        except Exception as error:  # noqa: BLE001 - what was collected is kept, whatever is wrong with reading it
            _LOG.exception("evidence not read", key=report.key)
            hits, notes = (), (f"an error of ours: it could not be read ({type(error).__name__})",)
        return Append(
            stream=stream,
            expected_version=version,
            events=(*(_kept(report, piece) for piece in pieces), _outcome(report, report.collected, hits, notes)),
            keep_wake=True,
            attachments=tuple((report.attempt, piece) for piece in pieces),
        )

    def _ground(self, record: JobRecord, incident: Incident, stages: ClusterRecord, now: datetime) -> Ground:
        cluster = record.job.cluster
        rules, report = self._site.rules(cluster), self._live.reports.get(cluster)
        return Ground(
            record=record,
            incident=incident,
            report=report,
            progress=self._live.progress.get(incident.attempt),
            stage=job_stage(record, stages, rules, now, view_of(report, record.job)),
            watched=_is_watched(self._live.watched_at.get(cluster), rules, now),
            limits=rules.limits,
            now=now,
        )


def _shown(incident: Incident, report: EvidenceReport, stage: Stage) -> tuple[e.JobEvent, ...]:
    if report.shown is None:
        return ()
    event = e.EvidencePrepared(
        incident_id=incident.id,
        key=report.key,
        finding_id=report.finding_id,
        attempt=report.attempt,
        effect=report.shown,
        stage=stage,
        switched_on=report.switched_on,
        at=report.at,
    )
    known = next((item for item in incident.evidence if item.key == report.key), None)
    was_shown = known is not None and (shown_key(event) in known.shown or known.started_at is not None)
    return () if was_shown or not incident.is_open else (event,)


def _pieces(collected: Collected, name: str) -> tuple[Attachment, ...]:
    outputs = (("output", collected.stdout), ("errors", collected.stderr))
    return tuple(Attachment(file=f"{name}: {what}", start_offset=0, data=data) for what, data in outputs if data)


def _kept(report: EvidenceReport, piece: Attachment) -> e.AttachmentKept:
    return e.AttachmentKept(
        attempt=report.attempt,
        file=piece.file,
        start_offset=0,
        size_bytes=len(piece.data),
        digest=hashlib.sha256(piece.data).hexdigest(),
    )


def _outcome(
    report: EvidenceReport, collected: Collected, hits: tuple[RuleHit, ...], notes: tuple[str, ...]
) -> e.EvidenceCollected | e.EvidenceFailed:
    went_well = collected.exit_code == 0 and not collected.gave_up
    reason = collected.gave_up or ("" if went_well else f"it ended with exit code {collected.exit_code}")
    failed = e.EvidenceFailed(
        incident_id=report.incident_id,
        key=report.key,
        attempt=report.attempt,
        exit_code=collected.exit_code,
        size_bytes=len(collected.stdout) + len(collected.stderr),
        took_s=round(collected.took_s, 3),
        reason=reason,
        hits=hits,
        notes=notes,
        at=report.at,
    )
    if not went_well:
        return failed
    return e.EvidenceCollected(**{name: getattr(failed, name) for name in e.EvidenceCollected.__dataclass_fields__})


def _meant(record: object, incident_id: str) -> tuple[JobRecord | None, Incident | None]:
    if not isinstance(record, JobRecord):
        return None, None
    return record, record.incident(incident_id)


def _stages(record: object, cluster: str) -> ClusterRecord:
    return record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=cluster)


def _is_watched(heard: datetime | None, rules: ClusterRules, now: datetime) -> bool:
    """Whether a watcher was heard; a server that has just started has not heard one, and waits until it has."""
    return heard is not None and (now - heard).total_seconds() <= rules.watcher_lost_s
