"""Where claims are granted: everything that bears on one is gathered, asked, and appended in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Claim, ClaimReply, Lease
from relance.domain.incidents import Incident
from relance.domain.quiet_hours import quiet_now
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import EffectiveStage
from relance.domain.streams import Stream
from relance.ports.backends import BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.histories import (
    Append,
    ConflictError,
    History,
    LeaseLostError,
    NoPermitError,
    NotUniqueError,
    Snapshot,
    TooManyRecoveriesError,
)
from relance.recovery.assigning import view_of
from relance.recovery.claims import (
    Counter,
    action_id,
    incident_of,
    most_recoveries,
    permits,
    refusal,
    started,
    unique_key,
)
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.ordering import as_shown, job_stage, standing, switch
from relance.recovery.sites import ClusterRules, Site
from relance.recovery.storms import storm_for, whereabouts

_TRIES = 20
_RECOVERY_S = 2.0
"""After so long it is worth asking again whether fewer recoveries are under way: the shortest take about as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A claim, and the streams on which it is decided, as they were read."""

    claim: Claim
    job: Snapshot
    record: JobRecord
    cluster: Snapshot
    now: datetime

    @property
    def stages(self) -> ClusterRecord:
        """The cluster's record."""
        record = self.cluster.record
        return record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=self.claim.cluster)


class ClaimDesk:
    """Grants claims, or says why not."""

    def __init__(self, history: History, live: Live, loop: Loop, site: Site, clock: Clock) -> None:
        """Take the parts."""
        self._history = history
        self._live = live
        self._loop = loop
        self._site = site
        self._clock = clock

    async def claim(self, claim: Claim) -> ClaimReply:
        """Begin an advice: all checks and the append are one transaction on the job's stream."""
        stream = Stream.of_job(claim.attempt.job)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            if not isinstance(snapshot.record, JobRecord):
                return ClaimReply(granted=False, reason="no such job")
            cluster = await self._history.load(Stream.of_cluster(claim.cluster))
            asked = _Asked(
                claim=claim, job=snapshot, record=snapshot.record, cluster=cluster, now=self._clock.now()
            )  # fmt: skip
            reply = await self._decide(asked)
            if reply is not None:
                return reply
        message = f"{stream} is too busy"
        raise BackendUnavailableError(message)

    async def _decide(self, asked: _Asked) -> ClaimReply | None:
        """The answer to a claim; None: somebody else appended first, and it is to be asked again."""
        claim, incident = asked.claim, incident_of(asked.record, asked.claim)
        action = incident.action if incident else None
        if action is not None and action.id == action_id(claim) and action.holder == claim.holder:
            return ClaimReply(granted=True, action_id=action.id, reason="granted before")
        counter = await self._counter(asked, incident)
        reason = refusal(counter, incident, claim)
        if reason is not None or incident is None:
            return ClaimReply(granted=False, reason=reason or "no such incident")
        try:
            await self._history.append(self._append_of(asked, incident, counter), asked.now)
        except ConflictError:
            return None
        except NoPermitError as error:
            free_in_s = max(0.0, (error.free_at - asked.now).total_seconds())
            return ClaimReply(granted=False, reason=str(error), again_in_s=free_in_s)
        except TooManyRecoveriesError as error:
            return ClaimReply(granted=False, reason=str(error), again_in_s=_RECOVERY_S)
        except (NotUniqueError, LeaseLostError) as error:
            return ClaimReply(granted=False, reason=str(error))
        return ClaimReply(granted=True, action_id=action_id(claim))

    async def _counter(self, asked: _Asked, incident: Incident | None) -> Counter:
        record, now, stages = asked.record, asked.now, asked.stages
        rules = self._site.rules(stages.cluster)
        report = self._live.reports.get(stages.cluster)
        view = view_of(report, record.job)
        brings = standing(as_shown(record, view), rules, view)
        verdict = incident.verdict if incident is not None else None
        where = whereabouts(record, view, verdict, rules.file_systems)
        return Counter(
            stage=job_stage(record, stages, rules, now, view),
            standing=brings,
            switch=switch(record, now),
            report=report,
            view_max_age_s=rules.limits.view_max_age_s,
            now=now,
            storm=storm_for(await self._loop.storms_of(stages, rules, now), where),
            successor=await self._successor_stage(incident, stages, rules, now),
            quiet=quiet_now(rules.quiet, brings.partitions, now),
            recoveries=(await self._loop.queue_of(stages.cluster)).under_way,
            most_recoveries=rules.limits.restarts.at_once,
        )

    def _append_of(self, asked: _Asked, incident: Incident, counter: Counter) -> Append:
        claim, rules = asked.claim, self._site.rules(asked.claim.cluster)
        return Append(
            stream=asked.job.stream,
            expected_version=asked.job.version,
            events=(started(incident, claim, counter.stage, asked.now),),
            keep_wake=True,
            # a stage set meanwhile counts before this begins
            unchanged=((asked.cluster.stream, asked.cluster.version),),
            unique=(unique_key(claim),),
            permits=permits(claim, counter.storm, asked.record, rules.limits.storms, asked.now),
            recoveries=most_recoveries(claim, asked.record, rules.limits),
            lease=Lease(
                cluster=claim.cluster, holder=claim.holder, epoch=claim.lease_epoch, duration_s=rules.lease_s
            ),
        )  # fmt: skip

    async def _successor_stage(
        self, incident: Incident | None, stages: ClusterRecord, rules: ClusterRules, now: datetime
    ) -> EffectiveStage | None:
        """The stage of the job that an advice touches in place of its own; None where none is named or shown."""
        wanted = incident.advice.successor if incident is not None and incident.advice is not None else ""
        report = self._live.reports.get(stages.cluster)
        view = next((job for job in (report.jobs if report else ()) if wanted and job.raw_id == wanted), None)
        if view is None:
            return None
        record = (await self._history.load(Stream.of_job(view.job_key(stages.cluster)))).record
        return job_stage(record, stages, rules, now, view) if isinstance(record, JobRecord) and record.name else None
