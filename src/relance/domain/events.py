"""The closed union of events. An event is a fact in the past tense; it is never changed, only followed by another.

`SCHEMA_VERSION` is stored with each event. Fields may be added with a default; anything else is a new event type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import get_args

from relance.domain.advice import ActionEnd, ActionKind, Advice, Effect
from relance.domain.attempt_events import AttemptEnded, AttemptMeasured, AttemptStarted, WatchdogActed
from relance.domain.clocks import Milestones, Stamp
from relance.domain.collecting_events import EvidenceCollected, EvidenceFailed, EvidencePrepared, EvidenceStarted
from relance.domain.findings import Finding
from relance.domain.fleet_events import (
    ControllerStarted,
    ExclusionEnded,
    HealthCapped,
    HealthRestored,
    NodeChanged,
    NodeExcluded,
    NodeSuspected,
    SourceBack,
    SourceLost,
    StageSet,
    StormCleared,
    StormOpened,
)
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.request_events import ActionRequested, RequestEnded, RequestEvent, RequestStarted
from relance.domain.stages import Stage
from relance.domain.verdicts import Opinion, Verdict
from relance.domain.views import Wish

__all__ = [
    "ACTION_ENDS",
    "EVENT_TYPES",
    "SCHEMA_VERSION",
    "ActionAbandoned",
    "ActionEnded",
    "ActionFailed",
    "ActionPrepared",
    "ActionRequested",
    "ActionStarted",
    "ActionStepped",
    "ActionSucceeded",
    "ActionUnknown",
    "AdviceApproved",
    "AdviceDenied",
    "AdviceIssued",
    "AttachmentKept",
    "AttemptEnded",
    "AttemptMeasured",
    "AttemptRestarted",
    "AttemptStarted",
    "ClusterEvent",
    "ControllerStarted",
    "Event",
    "EvidenceCollected",
    "EvidenceFailed",
    "EvidencePrepared",
    "EvidenceStarted",
    "ExclusionEnded",
    "FindingAttached",
    "FindingReported",
    "HealthCapped",
    "HealthRestored",
    "IncidentClosed",
    "IncidentEnd",
    "IncidentOpened",
    "JobEvent",
    "JobSeen",
    "JobSwitched",
    "NodeChanged",
    "NodeEvent",
    "NodeExcluded",
    "NodeSuspected",
    "OpinionGiven",
    "OutsideChangeSeen",
    "OwnerDisagreed",
    "ProgressResumed",
    "RequestEnded",
    "RequestEvent",
    "RequestStarted",
    "SourceBack",
    "SourceLost",
    "StageSet",
    "StormCleared",
    "StormOpened",
    "VerdictReached",
    "WatchdogActed",
    "WishChanged",
]

SCHEMA_VERSION = 1


class IncidentEnd(Enum):
    """How an incident ended; it ends exactly once."""

    RECOVERED = "recovered"
    """A step beyond the highest ever was seen."""
    RELAPSED = "relapsed"
    """The next attempt opened its own incident."""
    RUNNING_UNPROVEN = "running_unproven"
    """No step lines; the new attempt ran 10 minutes."""
    STOPPED = "stopped"
    """Another try is no use."""
    LEFT = "left"
    """A person or the scheduler decided."""
    JOB_ENDED = "job_ended"
    """The job ended, or nothing was wrong after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job was seen for the first time."""

    job: JobKey
    name: str
    user: str
    owner_uid: int
    partition: str
    workflow: str
    node_count: int
    wish: Wish = field(default_factory=Wish)
    array: str | None = None
    work_dir: str = ""
    script_id: str = ""
    """With the name, what makes another job of the same user the same work (design 8, nobody twice)."""
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WishChanged:
    """The job's own settings changed."""

    job: JobKey
    wish: Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSwitched:
    """The owner or an operator set a ceiling for one job (`relance off JOB`); None lifts it."""

    job: JobKey
    stage: Stage | None
    by: str
    reason: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerDisagreed:
    """The owner said that a verdict was wrong (`relance wrong JOB`): a label, and no further action on this job."""

    job: JobKey
    by: str
    text: str
    incident_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingReported:
    """A finding was stored. The same finding again is one event and a counter."""

    finding: Finding
    at: datetime | None = None
    """When it was stored; None in histories of older releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOpened:
    """An incident was opened by its first finding."""

    incident_id: str
    attempt: AttemptKey
    finding_id: str
    opened_at: datetime
    times: Milestones


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingAttached:
    """A further finding joined an open incident."""

    incident_id: str
    finding_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReached:
    """Attribution answered, from the findings counted in `findings`."""

    incident_id: str
    verdict: Verdict
    findings: int
    at: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class OpinionGiven:
    """An outside provider answered; it is kept beside the verdict, and may come when the incident is long over."""

    incident_id: str
    opinion: Opinion


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceIssued:
    """A decision was made; it voids the older generations of the same attempt."""

    incident_id: str
    advice: Advice
    at: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceApproved:
    """A named person said yes to this generation and to the effect shown."""

    incident_id: str
    advice_id: str
    generation: int
    by: str
    effect_digest: str
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceDenied:
    """A named person said no."""

    incident_id: str
    advice_id: str
    generation: int
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPrepared:
    """The exact commands that would carry out an advice; all there is in `observe`."""

    incident_id: str
    advice_id: str
    generation: int
    effect: Effect
    stage: Stage
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStarted:
    """A controller claimed an advice; from here on its ledger leads."""

    incident_id: str
    action_id: str
    advice_id: str
    generation: int
    attempt: AttemptKey
    kind: ActionKind
    effect: Effect
    holder: str
    lease_epoch: int
    stage: Stage
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStepped:
    """One step of a transaction, reported by the controller."""

    incident_id: str
    action_id: str
    step_id: str
    step: str
    detail: str
    at: datetime
    accepted_at: datetime | None = None
    """Set when the scheduler accepted the change that restarts the job (t_act)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEnded:
    """What `ActionSucceeded`, `ActionFailed`, `ActionUnknown` and `ActionAbandoned` say."""

    incident_id: str
    action_id: str
    step_id: str
    reason: str
    at: datetime
    accepted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSucceeded(ActionEnded):
    """The transaction was carried out and read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed(ActionEnded):
    """The scheduler refused; nothing of it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionUnknown(ActionEnded):
    """It cannot be told what the scheduler did; looking at the cluster settles it later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAbandoned(ActionEnded):
    """The world had changed; nothing was done, or what was begun was brought to its safe end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRestarted:
    """The next attempt has run for 2 s."""

    incident_id: str
    attempt: AttemptKey
    nodes: tuple[str, ...]
    by_us: bool
    at: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressResumed:
    """The next attempt made its first step, or (`beyond`) a step beyond the highest ever."""

    incident_id: str
    attempt: AttemptKey
    step: int
    beyond: bool
    at: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentClosed:
    """The incident is over."""

    incident_id: str
    end: IncidentEnd
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideChangeSeen:
    """A person or the scheduler did something: requeue, cancel, hold, resubmit, drain. `who` is None when not known."""

    job: JobKey
    change: str
    detail: str
    who: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentKept:
    """A piece of a log (or a dump) was kept beside the incident; its bytes are read by `digest`."""

    attempt: AttemptKey
    file: str
    start_offset: int
    size_bytes: int
    digest: str


JobEvent = (
    JobSeen | WishChanged | JobSwitched | OwnerDisagreed | AttemptStarted | AttemptEnded | AttemptMeasured
    | FindingReported | IncidentOpened | FindingAttached | VerdictReached | OpinionGiven | AdviceIssued | AdviceApproved
    | AdviceDenied | ActionPrepared | ActionStarted | ActionStepped | ActionSucceeded | ActionFailed | ActionUnknown
    | ActionAbandoned | AttemptRestarted | ProgressResumed | IncidentClosed | OutsideChangeSeen | AttachmentKept
    | EvidencePrepared | EvidenceStarted | EvidenceCollected | EvidenceFailed
    | ActionRequested | RequestStarted | RequestEnded | WatchdogActed
)  # fmt: skip
NodeEvent = (
    NodeChanged | NodeSuspected | NodeExcluded | ExclusionEnded | ActionRequested | RequestStarted | RequestEnded
)  # fmt: skip
ClusterEvent = (
    StageSet | HealthCapped | HealthRestored | StormOpened | StormCleared | SourceLost | SourceBack | ControllerStarted
)
Event = JobEvent | NodeEvent | ClusterEvent

EVENT_TYPES: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Event)}
"""Every event type by the name under which it is stored."""

ACTION_ENDS: Mapping[ActionEnd, type[ActionEnded]] = {
    ActionEnd.SUCCEEDED: ActionSucceeded,
    ActionEnd.FAILED: ActionFailed,
    ActionEnd.UNKNOWN: ActionUnknown,
    ActionEnd.ABANDONED: ActionAbandoned,
}
