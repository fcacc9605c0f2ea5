"""What the lists show: one typed row per job, incident, advice, node, cluster and event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Exclusion
from relance.domain.clocks import Milestones
from relance.domain.events import IncidentEnd
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.fleet import Storm
from relance.domain.incidents import IncidentState
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.requests import RequestRecord
from relance.domain.stages import EffectiveStage, HealthCap, StageSetting
from relance.domain.verdicts import Suspect
from relance.domain.views import JobState, NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job now. `as_of` is when the scheduler was read; None: `state` is what the history last knew, or unknown."""

    job: JobKey
    name: str
    user: str
    partition: str
    workflow: str
    state: JobState
    reason: str
    as_of: datetime | None
    restart_count: int
    nodes: tuple[str, ...]
    node_count: int
    started_at: datetime | None
    ended_at: datetime | None
    step: int | None = None
    """The newest step that is known, also of a job that is over."""
    progress: Progress | None
    """None where nothing is known, and in lists for jobs that are over."""
    stage: EffectiveStage
    incident_id: str | None
    """The open incident."""
    headline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentItem:
    """An incident in a list."""

    id: str
    job: JobKey
    name: str
    user: str
    partition: str
    attempt: AttemptKey
    state: IncidentState
    opened_at: datetime
    ended_at: datetime | None
    end: IncidentEnd | None
    end_reason: str
    domain: FaultDomain | None
    """None: not judged yet."""
    cause: str
    summary: str
    suspects: tuple[str, ...]
    action: Remedy | None
    hold: bool
    excluded: tuple[str, ...]
    times: Milestones
    next: str
    """What happens next, or how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRow:
    """An advice in force. `waits_for` says in words what has to happen before it is carried out."""

    id: str
    incident_id: str
    job: JobKey
    name: str
    user: str
    partition: str
    generation: int
    action: Remedy
    wording: str
    reasons: tuple[str, ...]
    hold: bool
    stage: EffectiveStage
    issued_at: datetime
    expires_at: datetime
    needs_approval: bool
    effect_digest: str
    waits_for: str
    closed: tuple[str, ...] = ()
    """The gates that are not open, in words, each with when it opens by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormRow:
    """An incident that many jobs share: one cause, one hold. `incidents` are those of its jobs, newest first."""

    cluster: str
    storm_id: str
    place: str
    """Where it is, in words."""
    partition: str | None
    file_system: str | None
    reason: str
    opened_at: datetime
    cleared_at: datetime | None
    cleared_by: str
    next: str
    """What happens next, or how it ended."""
    incidents: tuple[IncidentItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node. `as_of` is when the scheduler was read; None: not in its newest report."""

    cluster: str
    node: str
    state: NodeState
    reason: str
    set_by: str | None
    since: datetime | None
    as_of: datetime | None
    partitions: tuple[str, ...]
    jobs: tuple[str, ...]
    """Raw ids of the jobs that run there."""
    exclusions: tuple[Exclusion, ...]
    suspicions: tuple[tuple[Suspect, datetime, str], ...]
    """Suspicion, when, incident id; oldest first."""
    expected: str = ""
    """Why its state is no evidence against it: our own act explains it. Empty: nothing does."""
    requests: tuple[RequestRecord, ...] = ()
    """What people asked about it that is open or in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """What a cluster's stages are set to, and what caps them now."""

    cluster: str
    setting: StageSetting | None
    """None: nobody has set one; the cluster is in observe."""
    partitions: tuple[StageSetting, ...]
    caps: tuple[HealthCap, ...]
    storms: tuple[Storm, ...]
    """The shared incidents that are open."""
    lost_sources: tuple[tuple[str, str], ...]
    controller: str
    report_as_of: datetime | None
    """When the controller last looked at the scheduler; None: never."""
    report_age_s: float | None
    problems: tuple[str, ...]

    @property
    def storm_is_open(self) -> bool:
        """Whether restarts wait for a shared cause, somewhere on the cluster."""
        return bool(self.storms)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """An event as it is told. `stream` and `version` find it again; `title` and `detail` are sentences."""

    position: int
    at: datetime
    stream: str
    version: int
    event: str
    """The name of the event's type."""
    title: str
    detail: str
    incident_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStage:
    """The effective stage of one job and why."""

    job: JobKey
    name: str
    partition: str
    effective: EffectiveStage
