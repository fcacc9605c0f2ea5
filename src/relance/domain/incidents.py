"""An incident as a fold over events, with its transition table in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from relance.domain import events as e
from relance.domain.advice import ActionKind, Advice, Effect
from relance.domain.clocks import Milestones, Stamp
from relance.domain.collecting_events import Collecting, with_evidence
from relance.domain.deeds import DeedState, WatchdogDeed
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey
from relance.domain.ledgers import Verb
from relance.domain.stages import EndRunning
from relance.domain.verdicts import Opinion, Verdict


class IncidentState(Enum):
    """Where an incident stands."""

    OPEN = "open"
    """Findings, no verdict yet."""
    JUDGED = "judged"
    """A verdict, no advice on it yet."""
    ADVISED = "advised"
    """An advice is in force; no action has begun."""
    ACTING = "acting"
    """A controller carries out the advice."""
    UNSETTLED = "unsettled"
    """An action ended without anybody knowing how; looking at the cluster will tell."""
    SETTLED = "settled"
    """The action has ended; the next attempt is awaited, or there will be none."""
    RUNNING = "running"
    """The next attempt has run for 2 s; it is not proven yet."""
    CLOSED = "closed"
    """Over; `end` says how."""


S = IncidentState
_BEFORE_ACTION = (S.OPEN, S.JUDGED, S.ADVISED)
_ALIVE = (*_BEFORE_ACTION, S.ACTING, S.UNSETTLED, S.SETTLED, S.RUNNING)
_LATE = {state: state for state in (S.JUDGED, S.ADVISED, S.SETTLED, S.RUNNING, S.CLOSED)}
"""What a controller reports late is recorded and changes no state: the next attempt was seen already, or a job that was
parked has been decided on again."""


def _to(target: IncidentState, *states: IncidentState) -> dict[IncidentState, IncidentState]:
    return dict.fromkeys(states, target)


def _stay(*states: IncidentState) -> dict[IncidentState, IncidentState]:
    return {state: state for state in states}


TRANSITIONS: Mapping[type, Mapping[IncidentState, IncidentState]] = {
    e.FindingAttached: _stay(*_ALIVE),
    e.VerdictReached: _to(S.JUDGED, *_BEFORE_ACTION),
    e.OpinionGiven: _stay(*(state for state in _ALIVE if state is not S.OPEN), S.CLOSED),
    e.AdviceIssued: _to(S.ADVISED, S.JUDGED, S.ADVISED, S.SETTLED),
    e.AdviceApproved: _stay(S.ADVISED),
    e.AdviceDenied: _stay(S.ADVISED),
    e.ActionPrepared: _stay(S.ADVISED),
    e.ActionStarted: _to(S.ACTING, S.ADVISED),
    e.ActionStepped: _stay(S.ACTING, S.UNSETTLED) | _LATE,
    e.ActionSucceeded: _to(S.SETTLED, S.ACTING, S.UNSETTLED) | _LATE,
    e.ActionFailed: _to(S.SETTLED, S.ACTING, S.UNSETTLED) | _LATE,
    e.ActionAbandoned: _to(S.SETTLED, S.ACTING, S.UNSETTLED) | _LATE,
    e.ActionUnknown: _to(S.UNSETTLED, S.ACTING, S.UNSETTLED) | _LATE,
    e.AttemptRestarted: _to(S.RUNNING, *_BEFORE_ACTION, S.ACTING, S.UNSETTLED, S.SETTLED),
    e.ProgressResumed: _stay(S.RUNNING),
    e.IncidentClosed: _to(S.CLOSED, *_ALIVE),
    e.EvidencePrepared: _stay(*_ALIVE),
    e.EvidenceStarted: _stay(*_ALIVE),
    e.EvidenceCollected: _stay(*_ALIVE, S.CLOSED),
    e.EvidenceFailed: _stay(*_ALIVE, S.CLOSED),
}
"""For each event of an incident: from which state it leads to which. Anything else is impossible."""


class ImpossibleEventError(ValueError):
    """An event came in a state in which it makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's yes or no to one generation of advice and the effect that was shown."""

    advice_id: str
    generation: int
    yes: bool
    by: str
    at: datetime
    effect_digest: str = ""
    until: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A transaction as far as the history knows it."""

    id: str
    advice_id: str
    generation: int
    kind: ActionKind
    effect: Effect
    holder: str
    stage: str
    started_at: datetime
    steps: tuple[str, ...] = ()
    """Ids of the steps reported so far."""
    parks: bool = False
    """Whether it gave the job a start time ahead: it waits, and is to be renewed or let go."""
    after_park: bool = False
    """Whether it goes on with a job that an earlier action of ours had put back into the queue."""
    requeued: bool = False
    """Whether its steps show that a requeue was sent and not refused."""
    held: bool = False
    """Whether its steps show a requeue that holds the job, and no release of it yet: that hold is ours."""
    requeue_refused: bool = False
    """Whether its steps show that a requeue was refused: what is requeued all the same is another's doing."""
    end: str | None = None
    """Name of the event that ended it."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """What the advice of an incident came to, over all generations: for the comparison with what people did.

    Only what may begin counts: an advice that is held asks for nothing yet.
    """

    restart_at: datetime | None = None
    """When the first advice asked for a restart, or to park the job."""
    end_at: datetime | None = None
    """When the first advice asked to end the RUNNING attempt."""
    end_id: str = ""
    """The id of that advice."""
    end_for: EndRunning | None = None
    last: Remedy | None = None
    """The newest that was restart, restart_excluding or stop; what follows a person's own decision does not count."""
    last_at: datetime | None = None
    exclude: tuple[str, ...] = ()
    """The nodes that the newest of them would have kept out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One disturbance of one attempt, folded from its events."""

    id: str
    attempt: AttemptKey
    state: IncidentState
    opened_at: datetime
    times: Milestones
    findings: tuple[str, ...]
    verdict: Verdict | None = None
    judged_findings: int = 0
    """How many findings the verdict was made from: fewer than there are means that it is to be judged again."""
    advice: Advice | None = None
    advised: Advised = field(default_factory=Advised)
    approval: Approval | None = None
    prepared: tuple[str, ...] = ()
    """Keys `advice id/stage/effect digest` of the preparations recorded of the advice in force."""
    effect: Effect | None = None
    """The newest effect prepared for the advice in force."""
    action: Action | None = None
    evidence: tuple[Collecting, ...] = ()
    """What was collected of its silences by a site's command, oldest first."""
    by_watchdog: bool = False
    """Whether the watchdog restarted the attempt, or may have: that is our doing as well."""
    next_attempt: AttemptKey | None = None
    resumed_step: int | None = None
    beyond: bool = False
    end: e.IncidentEnd | None = None
    end_reason: str = ""
    ended_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state is not S.CLOSED

    @property
    def is_parked(self) -> bool:
        """Whether the job waits with a start time that we gave it, also where letting it go came to nothing since."""
        action = self.action
        if action is None:
            return False
        if action.after_park and action.end == "ActionAbandoned":
            return True
        return action.parks and action.end == "ActionSucceeded"

    @property
    def restart_begun(self) -> bool:
        """Whether a controller has begun an action on this attempt: then no newer advice is issued."""
        return self.action is not None

    @property
    def restarted_by_us(self) -> bool:
        """Whether the attempt after this one is our doing, as far as is known.

        Not when our action ended before the scheduler had accepted anything of it, nor when it only added to what
        somebody else had begun, be it that our requeue was refused because another's had just come first.
        """
        action = self.action
        if self.by_watchdog or (action is not None and action.after_park):
            return True
        if action is None or action.kind not in (ActionKind.RESTART, ActionKind.PARK):
            return False
        if action.requeue_refused and not action.requeued:
            return False
        return self.times.act is not None or action.end not in ("ActionFailed", "ActionAbandoned")


def open_incident(event: e.IncidentOpened, deeds: tuple[WatchdogDeed, ...] = ()) -> Incident:
    """The incident that an `IncidentOpened` begins, on a job about which the watchdog did that before."""
    key, at, first = event.attempt, event.opened_at, (event.finding_id,)
    opened = Incident(id=event.incident_id, attempt=key, state=S.OPEN, opened_at=at, times=event.times, findings=first)
    return after_watchdog(opened, deeds)


def after_watchdog(incident: Incident, deeds: tuple[WatchdogDeed, ...]) -> Incident:
    """The incident with what the watchdog did about its attempt."""
    own = [deed for deed in deeds if deed.attempt == incident.attempt and deed.is_requeue]
    act = next((deed.answered_at for deed in own if deed.state is DeedState.DONE), None)
    return replace(incident, by_watchdog=bool(own), times=_accepted(incident.times, act, "watchdog"))


def evolve(incident: Incident, event: e.JobEvent) -> Incident:
    """The incident after one of its events. Raises ImpossibleEventError where the table forbids it."""
    target = TRANSITIONS.get(type(event), {}).get(incident.state)
    if target is None:
        message = f"{type(event).__name__} in state {incident.state.value} of incident {incident.id}"
        raise ImpossibleEventError(message)
    return replace(_apply(incident, event), state=target)


def _apply(incident: Incident, event: e.JobEvent) -> Incident:  # noqa: C901, PLR0911, PLR0912 - one case per event
    times = incident.times
    match event:
        case e.FindingAttached():
            return replace(incident, findings=(*incident.findings, event.finding_id))
        case e.VerdictReached():
            return replace(
                incident,
                verdict=event.verdict,
                judged_findings=event.findings,
                times=replace(times, attribute=times.attribute or event.at),
            )
        case e.OpinionGiven():
            return _with_opinion(incident, event.opinion)
        case e.AdviceIssued():
            return replace(
                incident,
                advice=event.advice,
                advised=_advised(incident.advised, event.advice),
                approval=None,
                prepared=(),
                effect=None,
                times=replace(times, advise=times.advise or event.at),
            )
        case e.AdviceApproved():
            return replace(incident, approval=_approval(event))
        case e.AdviceDenied():
            return replace(incident, approval=_denial(event))
        case e.ActionPrepared():
            key = f"{event.advice_id}/{event.stage.value}/{event.effect.digest}"
            return replace(incident, prepared=(*incident.prepared, key), effect=event.effect)
        case e.ActionStarted():
            parks = incident.advice is not None and incident.advice.park
            action = replace(_action(event, parks=parks), after_park=incident.is_parked)
            return replace(incident, action=action)
        case e.ActionStepped():
            return _stepped(incident, event)
        case e.ActionSucceeded() | e.ActionFailed() | e.ActionUnknown() | e.ActionAbandoned():
            return _ended(incident, event)
        case e.AttemptRestarted():
            return replace(incident, next_attempt=event.attempt, times=replace(times, running=event.at))
        case e.ProgressResumed():
            return _resumed(incident, event)
        case e.EvidencePrepared() | e.EvidenceStarted() | e.EvidenceCollected() | e.EvidenceFailed():
            return replace(incident, evidence=with_evidence(incident.evidence, event))
        case e.IncidentClosed():
            return replace(incident, end=event.end, end_reason=event.reason, ended_at=event.at)
        case _:
            message = f"{type(event).__name__} is not an event of an incident"
            raise ImpossibleEventError(message)


_OPINIONS = 8
"""So many providers' opinions are kept beside a verdict, the newest of each."""


def _with_opinion(incident: Incident, opinion: Opinion) -> Incident:
    if incident.verdict is None:
        return incident
    others = tuple(item for item in incident.verdict.opinions if item.provider != opinion.provider)
    verdict = replace(incident.verdict, opinions=(*others, opinion)[-_OPINIONS:])
    return replace(incident, verdict=verdict)


def _advised(so_far: Advised, advice: Advice) -> Advised:
    told = advice.action.restarts or advice.action is Remedy.STOP
    if advice.hold or not (told or advice.park):
        return so_far
    if told:
        so_far = replace(so_far, last=advice.action, last_at=advice.issued_at, exclude=advice.exclude)
    if so_far.restart_at is None and (advice.action.restarts or advice.park):
        so_far = replace(so_far, restart_at=advice.issued_at)
    if so_far.end_at is None and advice.ends_running is not None:
        so_far = replace(so_far, end_at=advice.issued_at, end_id=advice.id, end_for=advice.ends_running)
    return so_far


def _approval(event: e.AdviceApproved) -> Approval:
    return Approval(
        advice_id=event.advice_id,
        generation=event.generation,
        yes=True,
        by=event.by,
        at=event.at,
        effect_digest=event.effect_digest,
        until=event.until,
    )


def _denial(event: e.AdviceDenied) -> Approval:
    return Approval(
        advice_id=event.advice_id,
        generation=event.generation,
        yes=False,
        by=event.by,
        at=event.at,
        reason=event.reason,
    )


def _action(event: e.ActionStarted, *, parks: bool) -> Action:
    return Action(
        id=event.action_id,
        advice_id=event.advice_id,
        generation=event.generation,
        kind=event.kind,
        effect=event.effect,
        holder=event.holder,
        stage=event.stage.value,
        started_at=event.at,
        parks=parks,
    )


_REQUEUES = (Verb.REQUEUE.value, Verb.REQUEUE_HELD.value)
_REQUEUES_REFUSED = tuple(f"{name} refused" for name in _REQUEUES)
"""The names under which controllers report it (docs/explanation/transaction.md)."""


def _stepped(incident: Incident, event: e.ActionStepped) -> Incident:
    action = incident.action
    if action is None or action.id != event.action_id:
        message = f"a step of action {event.action_id}, which incident {incident.id} does not know"
        raise ImpossibleEventError(message)
    requeued = action.requeued or event.step in _REQUEUES
    refused = action.requeue_refused or event.step in _REQUEUES_REFUSED
    held = event.step == Verb.REQUEUE_HELD.value or (action.held and event.step != Verb.RELEASE.value)
    steps = (*action.steps, event.step_id)
    stepped = replace(action, steps=steps, requeued=requeued, held=held, requeue_refused=refused)
    return replace(incident, action=stepped, times=_accepted(incident.times, event.accepted_at))


def _ended(incident: Incident, event: e.ActionEnded) -> Incident:
    action = incident.action
    if action is None or action.id != event.action_id:
        message = f"the end of action {event.action_id}, which incident {incident.id} does not know"
        raise ImpossibleEventError(message)
    ended = replace(action, steps=(*action.steps, event.step_id))
    if action.end in (None, e.ActionUnknown.__name__):
        # The first end that is known stands, whatever another controller makes of it afterwards.
        ended = replace(ended, end=type(event).__name__, reason=event.reason)
    return replace(incident, action=ended, times=_accepted(incident.times, event.accepted_at))


def _accepted(times: Milestones, at: datetime | None, clock: str = "controller") -> Milestones:
    """The first time that the scheduler accepted something of ours is t_act."""
    if times.act is not None or at is None:
        return times
    return replace(times, act=Stamp(at=at, clock=clock))


def _resumed(incident: Incident, event: e.ProgressResumed) -> Incident:
    times = replace(incident.times, step=incident.times.step or event.at)
    if event.beyond:
        times = replace(times, progress=event.at)
    first = incident.resumed_step if incident.resumed_step is not None else event.step
    return replace(incident, times=times, resumed_step=first, beyond=incident.beyond or event.beyond)
