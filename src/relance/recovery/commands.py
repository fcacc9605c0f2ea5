"""The write side for people: each command is an event with a person's name, appended to the stream that it concerns.

A command decides on the record as it is and appends with that version; when somebody else was first it looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from relance.domain import events as e
from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import ClusterRecord, JobRecord, Record
from relance.domain.stages import EndRunning, Stage, StageSetting
from relance.domain.streams import Stream
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History
from relance.recovery import subjects
from relance.recovery.assigning import view_of
from relance.recovery.gatings import Standpoint, why_not_approvable
from relance.recovery.health import missing_for_act
from relance.recovery.ordering import job_stage
from relance.recovery.sites import Site

_TRIES = 8
"""A command loses the race for a stream this often before it gives up; each loss means that the loop moved on."""

_Ordered = TypeVar(
    "_Ordered", e.StageSet, e.JobSwitched, e.OwnerDisagreed, e.AdviceApproved, e.AdviceDenied, e.StormCleared
)


class CommandRefusedError(Exception):
    """What was asked does not make sense now; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which advice a person looked at: its id, its generation, and the digest of the effect that was shown."""

    advice_id: str
    generation: int
    effect_digest: str = ""


class Commands:
    """What people may order.

    Every method may raise NotKnownError, AmbiguousError, CommandRefusedError, and what the history raises.
    """

    def __init__(self, history: History, site: Site, clock: Clock) -> None:
        """Take the parts."""
        self._history = history
        self._site = site
        self._clock = clock

    async def check_fit(self, cluster: str, stage: Stage) -> None:
        """Raise CommandRefusedError where a stage would have us act and the controller said that it may not or cannot.

        The health cap would hold such a cluster at `observe` anyway; this says so to the person at once, with what
        mends it. A cluster whose controller has not reported yet is taken as it comes: the cap follows the report.
        """
        report = await self._history.report(cluster)
        missing = missing_for_act(report.facts) if report is not None and stage.rank >= Stage.APPROVE.rank else ()
        if missing:
            reasons = " ".join(f"({number}) {reason}." for number, reason in enumerate(missing, start=1))
            raise CommandRefusedError(f"cluster {cluster} is not fit for {stage.value}: {reasons}")

    async def set_stage(
        self,
        cluster: str,
        partition: str | None,
        stage: Stage,
        end_running: frozenset[EndRunning] | None,
        by: str,
    ) -> StageSetting:
        """Set the stage of a cluster, or of one of its partitions.

        `end_running` None keeps the consents that are there; they count at stage `act` only.
        """

        def decide(record: Record) -> e.StageSet:
            consents = end_running
            if consents is None:
                consents = _consents(record, partition)
            setting = StageSetting(
                stage=stage, end_running=consents, set_by=by, set_at=self._clock.now(), partition=partition
            )
            return e.StageSet(cluster=cluster, setting=setting)

        return (await self._append(Stream.of_cluster(cluster), decide)).setting

    async def switch_job(
        self, text: str, stage: Stage | None, by: str, until: datetime | None = None, reason: str = ""
    ) -> JobRecord:
        """Set a ceiling for one job, for good or until a time; None lifts it."""
        job = await subjects.job_meant(self._history, text)
        if until is not None and until <= self._clock.now():
            raise CommandRefusedError("the end of the switch is in the past")
        event = e.JobSwitched(job=job.job, stage=stage, by=by, reason=reason, until=until)
        await self._append(Stream.of_job(job.job), lambda _: event)
        return job

    async def disagree(self, text: str, by: str, words: str) -> JobRecord:
        """Record that a person holds the newest verdict on a job to be wrong: no further action on this job."""
        job = await subjects.job_meant(self._history, text)

        def decide(record: Record) -> e.OwnerDisagreed:
            newest = record.incidents[-1].id if isinstance(record, JobRecord) and record.incidents else None
            return e.OwnerDisagreed(job=job.job, by=by, text=words, incident_id=newest)

        await self._append(Stream.of_job(job.job), decide)
        return job

    async def approve(self, choice: Choice, by: str, until: datetime | None = None) -> e.AdviceApproved:
        """Say yes to one generation of advice and to the effect that was shown.

        Good until `until`, at most for the site's approval time and never beyond the advice's expiry.
        """
        row = await subjects.incident_meant(self._history, choice.advice_id)
        report = await self._history.report(row.job.cluster)
        loaded = (await self._history.load(Stream.of_cluster(row.job.cluster))).record
        cluster = loaded if isinstance(loaded, ClusterRecord) else ClusterRecord(cluster=row.job.cluster)

        def decide(record: Record) -> e.AdviceApproved:
            now, rules = self._clock.now(), self._site.rules(row.job.cluster)
            job, incident = _incident(record, row.incident.id)
            _same_generation(incident, choice)
            stage = job_stage(job, cluster, rules, now, view_of(report, job.job))
            standpoint = Standpoint(incident=incident, record=job, stage=stage, rules=rules, report=report, now=now)
            refusal = why_not_approvable(standpoint)
            if refusal:
                raise CommandRefusedError(refusal)
            _same_effect(incident, choice)
            return _approved(incident, choice, by, _limit(incident, now, rules.limits.approval_s, until), now)

        return await self._append(Stream.of_job(row.job), decide)

    async def deny(self, choice: Choice, by: str, reason: str) -> e.AdviceDenied:
        """Say no to one generation of advice; the incident is then left to people."""
        row = await subjects.incident_meant(self._history, choice.advice_id)

        def decide(record: Record) -> e.AdviceDenied:
            _, incident = _incident(record, row.incident.id)
            _same_generation(incident, choice)
            if incident.state is not IncidentState.ADVISED:
                raise CommandRefusedError(f"it is too late to deny: the incident is {incident.state.value}")
            return e.AdviceDenied(
                incident_id=incident.id,
                advice_id=choice.advice_id,
                generation=choice.generation,
                by=by,
                reason=reason,
                at=self._clock.now(),
            )

        return await self._append(Stream.of_job(row.job), decide)

    async def open_storm_bucket(self, cluster: str, by: str, reason: str, storm_id: str = "") -> e.StormCleared:
        """Let restarts come back after a storm, by a person's word; at the storm's slow rate after one canary.

        `storm_id`, or a unique beginning of it, says which one; it may be empty where one alone is open.
        """

        def decide(record: Record) -> e.StormCleared:
            found = record.open_storms if isinstance(record, ClusterRecord) else ()
            meant = [storm for storm in found if storm.storm_id.startswith(storm_id)]
            if not meant:
                what = f"storm {storm_id} is not open" if storm_id and found else "no storm is open"
                raise CommandRefusedError(f"{what} on {cluster}")
            if len(meant) > 1:
                names = "; ".join(f"{storm.storm_id} {storm.place}" for storm in meant)
                raise CommandRefusedError(f"{len(meant)} storms are open on {cluster}, say which: {names}")
            storm, at = meant[0], self._clock.now()
            return e.StormCleared(cluster=cluster, storm_id=storm.storm_id, by=by, reason=reason, at=at)

        return await self._append(Stream.of_cluster(cluster), decide)

    async def _append(self, stream: Stream, decide: Callable[[Record], _Ordered]) -> _Ordered:
        """Load, decide, append; again when somebody else was first. A job's timer is set to now, so the loop looks."""
        tries = 0
        while True:
            tries += 1
            snapshot = await self._history.load(stream)
            event, now = decide(snapshot.record), self._clock.now()
            batch = Append(
                stream=stream,
                expected_version=snapshot.version,
                events=(event,),
                wake_at=now,
                keep_wake=stream.kind != "job",
            )
            try:
                await self._history.append(batch, now)
            except ConflictError:
                if tries >= _TRIES:
                    raise
                continue
            return event


def raises_stage(
    cluster: ClusterRecord, partition: str | None, stage: Stage, end_running: frozenset[EndRunning] | None
) -> bool:
    """Whether a setting would let Relance do more than now; lowering is the kill switch and needs fewer rights."""
    setting = cluster.partitions.get(partition) if partition is not None else cluster.setting
    ceiling = setting or cluster.setting
    now = ceiling.stage if ceiling else Stage.OBSERVE
    return stage.rank > now.rank or not (end_running or frozenset()) <= _consents(cluster, partition)


def _consents(record: Record, partition: str | None) -> frozenset[EndRunning]:
    if not isinstance(record, ClusterRecord):
        return frozenset()
    setting = record.partitions.get(partition) if partition is not None else record.setting
    return setting.end_running if setting else frozenset()


def _incident(record: Record, incident_id: str) -> tuple[JobRecord, Incident]:
    incident = record.incident(incident_id) if isinstance(record, JobRecord) else None
    if incident is None or not isinstance(record, JobRecord):
        raise CommandRefusedError(f"incident {incident_id} is not known any more")
    return record, incident


def _same_generation(incident: Incident, choice: Choice) -> None:
    advice = incident.advice
    if advice is None:
        raise CommandRefusedError("there is no advice in force")
    if (advice.id, advice.generation) != (choice.advice_id, choice.generation):
        raise CommandRefusedError(
            f"advice {choice.generation} was voided by advice {advice.generation}; look at the incident again"
        )


def _same_effect(incident: Incident, choice: Choice) -> None:
    if incident.effect is None or incident.effect.digest != choice.effect_digest:
        raise CommandRefusedError("the prepared commands are not those that were shown; look at the incident again")


def _limit(incident: Incident, now: datetime, approval_s: float, until: datetime | None) -> datetime:
    limits = [now + timedelta(seconds=approval_s), *([until] if until else [])]
    if incident.advice is not None:
        limits.append(incident.advice.expires_at)
    return min(limits)


def _approved(incident: Incident, choice: Choice, by: str, until: datetime, now: datetime) -> e.AdviceApproved:
    if until <= now:
        raise CommandRefusedError("the end of the approval is in the past")
    return e.AdviceApproved(
        incident_id=incident.id,
        advice_id=choice.advice_id,
        generation=choice.generation,
        by=by,
        effect_digest=choice.effect_digest,
        at=now,
        until=until,
    )
