"""Current state folded from whole streams: a job, a node, a cluster. Projections are these values, written as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from relance.domain import events as e
from relance.domain.advice import Exclusion
from relance.domain.collecting import Silence, silence_of
from relance.domain.deeds import WatchdogDeed
from relance.domain.fleet import Storm
from relance.domain.incidents import Incident, after_watchdog, evolve, open_incident
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.request_events import with_request, without_hold, without_keeping_out
from relance.domain.requests import RequestRecord
from relance.domain.stages import ClusterStages, HealthCap, Stage, StageSetting
from relance.domain.verdicts import Suspect
from relance.domain.views import JobState, NodeState, Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt as the history knows it."""

    attempt: AttemptKey
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    by_us: bool = False
    outcome: JobState | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None
    highest_step: int | None = None
    durable_step: int | None = None
    gpu_count: int | None = None
    is_measured: bool = False
    """Whether `measure` is to be expected if anybody followed it to its end."""
    measure: e.AttemptMeasured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job folded from its stream."""

    job: JobKey
    name: str = ""
    user: str = ""
    owner_uid: int = -1
    partition: str = ""
    account: str = ""
    workflow: str = ""
    node_count: int = 1
    array: str | None = None
    work_dir: str = ""
    script_id: str = ""
    wish: Wish = field(default_factory=Wish)
    switch: Stage | None = None
    switch_until: datetime | None = None
    disagreed: str = ""
    attempts: tuple[AttemptRecord, ...] = ()
    incidents: tuple[Incident, ...] = ()
    finding_ids: frozenset[str] = frozenset()
    silences: tuple[Silence, ...] = ()
    """What hang detectors told, oldest first; the newest 20."""
    outside: tuple[str, ...] = ()
    """What others did, as `change: detail`, so that the same thing is recorded once."""
    requeues: tuple[tuple[datetime, str | None], ...] = ()
    """When others put the job back into the queue, and who, where that is known; the newest 20."""
    attachments: int = 0
    watchdog: tuple[WatchdogDeed, ...] = ()
    """What the watchdog did about this job, each deed as it was told last; the newest 20."""
    requests: tuple[RequestRecord, ...] = ()
    """What people asked to be done to it, oldest first."""

    def restarted_by_watchdog(self, key: AttemptKey) -> bool:
        """Whether the attempt after this one is the watchdog's doing, as far as is known."""
        return any(deed.attempt == key and deed.is_requeue for deed in self.watchdog)

    def attempt(self, key: AttemptKey) -> AttemptRecord | None:
        """The record of one attempt, if it is known."""
        return next((item for item in self.attempts if item.attempt == key), None)

    def incident(self, incident_id: str) -> Incident | None:
        """One incident, if it is known."""
        return next((item for item in self.incidents if item.id == incident_id), None)

    @property
    def open_incident(self) -> Incident | None:
        """The incident that has not ended; there is at most one that matters: the newest."""
        return next((item for item in reversed(self.incidents) if item.is_open), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node folded from its stream."""

    cluster: str
    node: str
    state: NodeState = NodeState.UNKNOWN
    reason: str = ""
    set_by: str | None = None
    since: datetime | None = None
    ours: str = ""
    """Which act of ours brought it into this state, in words; empty: none did."""
    suspicions: tuple[tuple[Suspect, datetime, str], ...] = ()
    """Suspicion, when, incident id; the newest 50."""
    exclusions: tuple[Exclusion, ...] = ()
    requests: tuple[RequestRecord, ...] = ()
    """What people asked to be done to it, oldest first."""

    @property
    def kept_out_by(self) -> RequestRecord | None:
        """The quarantine or drain of ours that is in force; there is at most one."""
        return next((item for item in self.requests if item.request.verb.keeps_out and item.is_in_force), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A cluster folded from its stream."""

    cluster: str
    setting: StageSetting | None = None
    partitions: Mapping[str, StageSetting] = field(default_factory=dict)
    caps: tuple[HealthCap, ...] = ()
    storms: tuple[Storm, ...] = ()
    """Shared incidents, oldest first: those that are open, and the newest 20."""
    lost_sources: Mapping[str, str] = field(default_factory=dict)
    controller: str = ""
    release: str = ""

    @property
    def open_storms(self) -> tuple[Storm, ...]:
        """The shared incidents that have not cleared."""
        return tuple(storm for storm in self.storms if storm.is_open)

    def stages(self) -> ClusterStages:
        """What limits the stages on this cluster, without the switches of single jobs."""
        return ClusterStages(cluster=self.setting, partitions=self.partitions, caps=self.caps)


Record = JobRecord | NodeRecord | ClusterRecord


def new_record(stream_name: str) -> Record:
    """The empty record of a stream. Raises ValueError for a name that is not a stream's."""
    kind, _, subject = stream_name.partition("/")
    if kind == "job":
        return JobRecord(job=JobKey.parse(subject))
    if kind == "node":
        cluster, _, node = subject.partition("/")
        return NodeRecord(cluster=cluster, node=node)
    if kind == "cluster":
        return ClusterRecord(cluster=subject)
    message = f"not a stream: {stream_name!r}"
    raise ValueError(message)


def fold(stream_name: str, events: Iterable[e.Event]) -> Record:
    """The record that a whole stream comes to."""
    record = new_record(stream_name)
    for event in events:
        record = apply(record, event)
    return record


def apply(record: Record, event: e.Event) -> Record:
    """The record after one more event of its stream. Raises ImpossibleEventError or TypeError for a foreign event."""
    if isinstance(record, JobRecord | NodeRecord) and isinstance(event, e.RequestEvent):
        return replace(record, requests=with_request(record.requests, event))
    if isinstance(record, JobRecord) and isinstance(event, e.JobEvent):
        return _apply_job(record, event)
    if isinstance(record, NodeRecord) and isinstance(event, e.NodeEvent):
        return _apply_node(record, event)
    if isinstance(record, ClusterRecord) and isinstance(event, e.ClusterEvent):
        return _apply_cluster(record, event)
    message = f"{type(event).__name__} does not belong in the stream of a {type(record).__name__}"
    raise TypeError(message)


def _apply_job(record: JobRecord, event: e.JobEvent) -> JobRecord:  # noqa: C901, PLR0911, PLR0912 - one case per event
    match event:
        case e.JobSeen():
            return _seen(record, event)
        case e.WishChanged():
            return replace(record, wish=event.wish)
        case e.JobSwitched():
            return replace(record, switch=event.stage, switch_until=event.until)
        case e.OwnerDisagreed():
            # a switch that runs out would let us act again on a job whose owner said that we are wrong
            words = event.text or "the owner disagreed"
            return replace(record, disagreed=words, switch=Stage.OBSERVE, switch_until=None)
        case e.AttemptStarted():
            return _with_attempt(
                record,
                event.attempt,
                nodes=event.nodes,
                started_at=event.started_at,
                by_us=event.by_us,
                gpu_count=event.gpu_count,
            )
        case e.AttemptEnded():
            return _with_attempt(
                record,
                event.attempt,
                outcome=event.outcome,
                ended_at=event.ended_at,
                exit_code=event.exit_code,
                exit_signal=event.exit_signal,
                cancelled_by=event.cancelled_by,
                highest_step=event.highest_step,
                durable_step=event.durable_step,
                is_measured=event.is_measured,
            )
        case e.AttemptMeasured():
            return _with_attempt(record, event.attempt, measure=event)
        case e.FindingReported():
            silence = silence_of(event.finding, event.at)
            silences = (*record.silences[-19:], silence) if silence is not None else record.silences
            return replace(record, finding_ids=record.finding_ids | {event.finding.id}, silences=silences)
        case e.IncidentOpened():
            opened = open_incident(event, record.watchdog)
            return replace(record, incidents=(*record.incidents, opened))
        case e.OutsideChangeSeen():
            return _changed_by_others(record, event)
        case e.AttachmentKept():
            return replace(record, attachments=record.attachments + 1)
        case e.WatchdogActed():
            return _watched(record, event.deed)
        case _:
            return _evolve_one(record, event)


def _seen(record: JobRecord, event: e.JobSeen) -> JobRecord:
    return replace(
        record,
        name=event.name,
        user=event.user,
        owner_uid=event.owner_uid,
        partition=event.partition,
        workflow=event.workflow,
        node_count=event.node_count,
        wish=event.wish,
        array=event.array,
        work_dir=event.work_dir,
        script_id=event.script_id,
        account=event.account,
    )


def _watched(record: JobRecord, deed: WatchdogDeed) -> JobRecord:
    others = tuple(item for item in record.watchdog if item.id != deed.id)
    known = replace(record, watchdog=(*others, deed)[-20:])
    incidents = tuple(after_watchdog(item, known.watchdog) for item in record.incidents)
    return replace(known, incidents=incidents)


def _changed_by_others(record: JobRecord, event: e.OutsideChangeSeen) -> JobRecord:
    requeues = record.requeues
    if event.change == "release":
        record = replace(record, requests=without_hold(record.requests, event.who or "somebody else", event.at))
    if event.change == "requeue" and event.at is not None:
        requeues = (*requeues[-19:], (event.at, event.who))
    return replace(record, outside=(*record.outside[-99:], f"{event.change}: {event.detail}"), requeues=requeues)


def _evolve_one(record: JobRecord, event: e.JobEvent) -> JobRecord:
    wanted = getattr(event, "incident_id", None)
    found = any(item.id == wanted for item in record.incidents)
    if not found:
        message = f"{type(event).__name__} for incident {wanted}, which job {record.job} does not have"
        raise TypeError(message)
    incidents = tuple(evolve(item, event) if item.id == wanted else item for item in record.incidents)
    return replace(record, incidents=incidents)


def _with_attempt(record: JobRecord, key: AttemptKey, **changes: object) -> JobRecord:
    known = record.attempt(key) or AttemptRecord(attempt=key)
    changed = replace(known, **changes)  # type: ignore[arg-type]
    others = [item for item in record.attempts if item.attempt != key]
    return replace(record, attempts=tuple(sorted([*others, changed], key=lambda item: item.attempt.restart_count)))


def _apply_node(record: NodeRecord, event: e.NodeEvent) -> NodeRecord:
    match event:
        case e.NodeChanged():
            return replace(
                record, state=event.state, reason=event.reason, set_by=event.set_by, since=event.at, ours=event.ours
            )
        case e.NodeSuspected():
            entry = (event.suspect, event.at, event.incident_id)
            return replace(record, suspicions=(*record.suspicions[-49:], entry))
        case e.NodeExcluded():
            others = tuple(item for item in record.exclusions if item.job != event.exclusion.job)
            return replace(record, exclusions=(*others, event.exclusion))
        case e.ExclusionEnded():
            kept = tuple(item for item in record.exclusions if item.job != event.job)
            requests = record.requests
            if event.job is None:
                requests = without_keeping_out(requests, event.by, event.at)
            return replace(record, exclusions=kept, requests=requests)
        case e.ActionRequested() | e.RequestStarted() | e.RequestEnded():
            return replace(record, requests=with_request(record.requests, event))


def _apply_cluster(record: ClusterRecord, event: e.ClusterEvent) -> ClusterRecord:  # noqa: PLR0911 - one case per event
    match event:
        case e.StageSet():
            if event.setting.partition is None:
                return replace(record, setting=event.setting)
            return replace(record, partitions={**record.partitions, event.setting.partition: event.setting})
        case e.HealthCapped():
            return replace(record, caps=(*_other_caps(record, event.cap.name, event.cap.partition), event.cap))
        case e.HealthRestored():
            return replace(record, caps=_other_caps(record, event.name, event.partition))
        case e.StormOpened():
            return replace(record, storms=(*_kept_storms(record.storms), _storm_of(event)))
        case e.StormCleared():
            return replace(record, storms=tuple(_cleared(storm, event) for storm in record.storms))
        case e.SourceLost():
            return replace(record, lost_sources={**record.lost_sources, event.source: event.reason})
        case e.SourceBack():
            kept = {name: why for name, why in record.lost_sources.items() if name != event.source}
            return replace(record, lost_sources=kept)
        case e.ControllerStarted():
            return replace(record, controller=event.holder, release=event.release)


def _storm_of(event: e.StormOpened) -> Storm:
    return Storm(
        storm_id=event.storm_id,
        reason=event.reason,
        opened_at=event.at,
        partition=event.partition,
        file_system=event.file_system,
        incidents=event.incidents,
    )


def _kept_storms(storms: tuple[Storm, ...]) -> tuple[Storm, ...]:
    recent = storms[-19:]
    return (*(storm for storm in storms[:-19] if storm.is_open), *recent)


def _cleared(storm: Storm, event: e.StormCleared) -> Storm:
    if storm.storm_id != event.storm_id or not storm.is_open:
        return storm
    return replace(storm, cleared_at=event.at, cleared_by=event.by)


def _other_caps(record: ClusterRecord, name: str, partition: str | None) -> tuple[HealthCap, ...]:
    return tuple(cap for cap in record.caps if (cap.name, cap.partition) != (name, partition))
