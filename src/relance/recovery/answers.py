"""The researcher's five answers about one job, and the sentence that says what happens next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.attribution import faults_sentence
from relance.domain.advice import NEEDS_A_PERSON, Advice
from relance.domain.clocks import time_to_step_s
from relance.domain.events import IncidentEnd
from relance.domain.faults import Remedy
from relance.domain.findings import Coverage
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.domain.records import AttemptRecord, ClusterRecord, JobRecord
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.verdicts import Verdict
from relance.domain.views import ClusterReport, JobState, JobView
from relance.recovery import wordings
from relance.recovery.collecting import silence_shown
from relance.recovery.gatings import Around, Standpoint, waits_for
from relance.recovery.ordering import job_stage
from relance.recovery.queued import held_by_scheduler, queued
from relance.recovery.sites import ClusterRules
from relance.recovery.stories import FiveAnswers, Quote, quote_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Everything the read side knows of one job at one moment."""

    record: JobRecord
    cluster: ClusterRecord
    report: ClusterReport | None
    view: JobView | None
    """The job in that report, if it is this very job and not a reused id."""
    rules: ClusterRules
    progress: Mapping[AttemptKey, Progress]
    now: datetime
    coverage: tuple[Coverage, ...] = ()
    """What the watcher sees of the current attempt's logs."""
    around: Around = field(default_factory=Around)
    """What the gates ask about the cluster."""

    @property
    def state(self) -> JobState:
        """The scheduler's word, else the last known outcome, else unknown."""
        if self.view is not None:
            return self.view.state
        last = self.last_attempt
        return (last.outcome if last else None) or JobState.UNKNOWN

    @property
    def last_attempt(self) -> AttemptRecord | None:
        """The newest attempt that the history knows."""
        return self.record.attempts[-1] if self.record.attempts else None

    @property
    def current(self) -> AttemptKey:
        """The newest attempt of which anything is known."""
        known = self.last_attempt.attempt.restart_count if self.last_attempt else 0
        seen = self.view.restart_count if self.view else 0
        return AttemptKey(job=self.record.job, restart_count=max(known, seen))

    @property
    def last_incident(self) -> Incident | None:
        """The open incident, else the newest."""
        return self.record.open_incident or (self.record.incidents[-1] if self.record.incidents else None)

    @property
    def stage(self) -> EffectiveStage:
        """The effective stage of the job."""
        return job_stage(self.record, self.cluster, self.rules, self.now, self.view)

    def standpoint(self, incident: Incident) -> Standpoint:
        """From where the gates of an incident's advice are asked."""
        return Standpoint(
            incident=incident,
            record=self.record,
            stage=self.stage,
            rules=self.rules,
            report=self.report,
            now=self.now,
            around=self.around,
        )


def five_answers(facts: JobFacts) -> FiveAnswers:
    """The five answers, each one sentence."""
    incident = facts.last_incident
    return FiveAnswers(
        running=_running(facts),
        from_step=_from_step(facts),
        lost=lost(facts, incident),
        fault=_NOT_CERTAIN if incident is None and _silence(facts) else fault(incident),
        next=_next(facts, incident),
    )


def fault(incident: Incident | None) -> str:
    """Whose fault it was, as far as it is known."""
    if incident is None:
        return "nothing went wrong so far"
    if incident.verdict is None:
        return "not judged yet" if incident.end is None else "not judged: it was over before a verdict was needed"
    sentence = faults_sentence(incident.verdict).rstrip(".")
    sure = wordings.confidence(incident.verdict.confidence)
    return f"{sentence[:1].lower()}{sentence[1:]}; confidence {sure}"


def first_quote(verdict: Verdict | None) -> Quote | None:
    """The line where the cause first shows: attribution puts it in front."""
    return quote_of(verdict.evidence[0]) if verdict is not None and verdict.evidence else None


def quoted(quote: Quote) -> str:
    """A quoted line with the place where it stands; of a traceback its last line, which says what was raised."""
    lines = [line.strip() for line in quote.text.splitlines() if line.strip()] or [""]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return f'"{line[:200]}" ({quote.place})' if quote.place else f'"{line[:200]}"'


def headline(facts: JobFacts) -> str:
    """The job in half a line: its open incident, else its state and step."""
    incident = facts.record.open_incident
    if incident is not None:
        return incident_headline(facts, incident)
    progress = facts.progress.get(facts.current)
    if facts.state is JobState.RUNNING:
        if progress is None or progress.step is None:
            return f"running; no step line recognised yet{_silence(facts)}"
        total = f" of {wordings.steps(progress.total_steps)}" if progress.total_steps else ""
        return f"running, step {wordings.steps(progress.step)}{total}{_silence(facts)}"
    if facts.state is JobState.PENDING and facts.view is not None and facts.view.reason:
        return f"queued: {facts.view.reason}"
    if facts.state is JobState.UNKNOWN:
        return "not known: the scheduler does not show it"
    return wordings.name(facts.state.value)


def _silence(facts: JobFacts) -> str:
    """That the running attempt is silent, where no incident tells it (yet); else empty."""
    if facts.record.open_incident is not None or facts.state is not JobState.RUNNING:
        return ""
    progress = facts.progress.get(facts.current)
    silence = silence_shown(facts.record, facts.current, progress)
    if silence is None or progress is None:
        return ""
    if progress.step_at is None:
        return "; a hang is suspected"
    return f"; no step for {wordings.duration((facts.now - progress.step_at).total_seconds())}: a hang is suspected"


_NOT_CERTAIN = "nothing is known to be wrong; a hang is suspected"


def incident_headline(facts: JobFacts, incident: Incident) -> str:
    """An incident in half a line: what it is, then where it stands."""
    what = wordings.name(incident.verdict.cause) if incident.verdict else "something is wrong"
    if not incident.is_open and incident.end is not None:
        return f"{what}: {wordings.name(incident.end.value)}"
    return f"{what}: {next_of(facts, incident)}"


def next_of(facts: JobFacts, incident: Incident) -> str:
    """What happens next in an incident."""
    match incident.state:
        case IncidentState.OPEN:
            return "evidence is gathered, then a verdict follows"
        case IncidentState.JUDGED:
            return "a decision follows"
        case IncidentState.ADVISED:
            return _of_advice(facts, incident)
        case IncidentState.ACTING:
            kind = wordings.kind_of_action(incident.action.kind) if incident.action else "an action"
            return f"the controller is at it ({kind}){_awaited(facts, incident, '; ')}"
        case IncidentState.UNSETTLED:
            return "it cannot be told whether the action was carried out; looking at the cluster will settle it"
        case IncidentState.SETTLED:
            return (_awaited(facts, incident) or "the next attempt is awaited") + _choice(incident)
        case IncidentState.RUNNING:
            return "the new attempt runs, not yet proven: it must pass the highest step before"
        case IncidentState.CLOSED:
            return _of_end(incident)


def _awaited(facts: JobFacts, incident: Incident, before: str = "") -> str:
    """Why the next attempt does not run yet, where it waits in the queue; else empty."""
    view = facts.view
    if view is None or view.state is not JobState.PENDING or view.restart_count <= incident.attempt.restart_count:
        return ""
    return f"{before}the next attempt {queued(view, facts.now)}"


def _choice(incident: Incident) -> str:
    """What a parked job leaves to people to choose; else empty."""
    advice = incident.advice
    guards = advice.guards if advice is not None and advice.park else ()
    return next((f"; {guard.reason}" for guard in guards if NEEDS_A_PERSON in guard.reason), "")


_ENDS = {
    IncidentEnd.RECOVERED: "nothing more: it recovered",
    IncidentEnd.RELAPSED: "the next attempt failed too; see its own incident",
    IncidentEnd.RUNNING_UNPROVEN: "nothing more: it runs, but shows no step lines that would prove it",
    IncidentEnd.STOPPED: "no further attempt: somebody must change something first",
    IncidentEnd.LEFT: "nothing: a person or the scheduler decided",
    IncidentEnd.JOB_ENDED: "nothing: it is over",
}


def _of_end(incident: Incident) -> str:
    words = _ENDS[incident.end] if incident.end else "nothing"
    return f"{words} ({incident.end_reason})" if incident.end_reason else words


def _of_advice(facts: JobFacts, incident: Incident) -> str:
    advice = incident.advice
    if advice is None:
        return "a decision follows"
    what = wordings.action(advice)
    stage = facts.stage.stage
    if advice.hold:
        waiting = waits_for(facts.standpoint(incident))
        if stage in (Stage.OFF, Stage.OBSERVE) and advice.action not in (Remedy.STOP, Remedy.WAIT, Remedy.NONE):
            return f"nothing by us at stage {stage.value}; we would {what}, but not yet: {waiting}"
        return f"held, then {what}: {waiting}"
    if advice.action in (Remedy.STOP, Remedy.WAIT, Remedy.NONE) and not advice.may_begin:
        return f"{what}: {_reason(incident, advice)}" if advice.reasons else what
    if stage in (Stage.OFF, Stage.OBSERVE):
        return f"nothing by us at stage {stage.value}; we would {what}"
    waiting = waits_for(facts.standpoint(incident))
    if stage is Stage.APPROVE and incident.approval is None:
        if incident.effect is None:
            return f"the commands are prepared, then a person must approve: {what}"
        return f"a person must approve until {wordings.moment(advice.expires_at, facts.now)}: {what}"
    return f"{what}; waits for {waiting}" if waiting else what


def _reason(incident: Incident, advice: Advice) -> str:
    """The first reason of an advice, without what the verdict says of itself already."""
    told = f"{incident.verdict.summary}; " if incident.verdict else ""
    return advice.reasons[0].removeprefix(told) if told else advice.reasons[0]


def _next(facts: JobFacts, incident: Incident | None) -> str:
    if incident is None and _silence(facts):
        return "nothing yet: if the silence lasts it becomes an incident, and evidence may be collected"
    if facts.view is not None and (choice := held_by_scheduler(facts.view)):
        return choice
    if incident is None:
        return "nothing: no incident is open"
    return next_of(facts, incident)


def _running(facts: JobFacts) -> str:
    number = facts.current.restart_count + 1
    view, last, now = facts.view, facts.last_attempt, facts.now
    age = _age(facts)
    match facts.state:
        case JobState.RUNNING:
            since = view.started_at if view else None
            return f"yes: attempt {number} since {wordings.moment(since, now)}{_step_now(facts)}{_unproven(facts)}{age}"
        case JobState.PENDING | JobState.CONFIGURING:
            why = queued(view, now) if view is not None and facts.state is JobState.PENDING else "is being started"
            return f"no: attempt {number} {why}{age}"
        case JobState.COMPLETING | JobState.SUSPENDED:
            return f"no: attempt {number} is {facts.state.value}{age}"
        case JobState.UNKNOWN:
            return "not known: the scheduler does not show the job, and its end was not seen"
        case _:
            ended = (view.ended_at if view else None) or (last.ended_at if last else None)
            words = wordings.name(facts.state.value)
            return f"no: attempt {number} ended as {words} at {wordings.moment(ended, now)}"


def _step_now(facts: JobFacts) -> str:
    progress = facts.progress.get(facts.current)
    if progress is None or progress.step is None:
        return f"; no step line recognised yet{_silence(facts)}"
    at = wordings.moment(progress.step_at, facts.now)
    return f", at step {wordings.steps(progress.step)} ({at}){_silence(facts)}"


def _unproven(facts: JobFacts) -> str:
    incident = facts.record.open_incident
    if incident is None or (incident.attempt == facts.current and incident.state is not IncidentState.RUNNING):
        return "" if incident is None else "; but something is wrong, see below"
    return "" if incident.beyond else "; not yet proven"


def _age(facts: JobFacts) -> str:
    if facts.view is None or facts.report is None:
        return ""
    age_s = (facts.now - facts.report.as_of).total_seconds()
    return f" (as the scheduler said {wordings.duration(age_s)} ago)" if age_s > facts.rules.report_lost_s else ""


def _from_step(facts: JobFacts) -> str:
    progress = facts.progress.get(facts.current)
    first = "" if progress is None or progress.first_step is None else wordings.steps(progress.first_step)
    if progress is not None and progress.started_cold:
        return "from the beginning: it found no checkpoint"
    if progress is not None and progress.loaded_step is not None:
        then = f"; its first step was {first}" if first else ""
        return f"from the checkpoint of step {wordings.steps(progress.loaded_step)}{then}"
    if first:
        return f"its first step was {first}"
    return "not known: no step or checkpoint line recognised yet"


def lost(facts: JobFacts, incident: Incident | None) -> str:
    """What an incident cost: the steps to do again, and how long the job stood still."""
    if incident is None:
        return "nothing"
    before = facts.progress.get(incident.attempt)
    after = facts.progress.get(incident.next_attempt) if incident.next_attempt else None
    highest = before.highest_step if before else None
    resumed = _resumed_at(before, after)
    if highest is None or resumed is None:
        return "not known: the steps before or after are not known"
    again = max(0, highest - resumed)
    median_s = (before.median_step_s if before else None) or (after.median_step_s if after else None)
    work = f"{wordings.count(again, 'step')} to do again"
    if median_s is not None and again:
        work += f", about {wordings.duration(again * median_s)}"
    stood_s = time_to_step_s(incident.times)
    would = "" if after is not None else " if it starts from its last checkpoint"
    return f"{work}{would}" + (f"; it stood still for {wordings.duration(stood_s)}" if stood_s is not None else "")


def _resumed_at(before: Progress | None, after: Progress | None) -> int | None:
    """The last step that the next attempt did not have to do again."""
    if after is not None and after.started_cold:
        return 0
    if after is not None and after.loaded_step is not None:
        return after.loaded_step
    if after is not None and after.first_step is not None:
        return after.first_step - 1
    if before is None or before.checkpoint_durable is not None:
        return before.checkpoint_durable if before else None
    return 0 if before.started_cold else before.loaded_step


def alarm(facts: JobFacts, did_not_resume: bool) -> str:  # noqa: FBT001 - a fact about the job
    """The sentence that comes first when the new attempt did not resume; else empty."""
    if not did_not_resume:
        return ""
    progress = facts.progress.get(facts.current)
    first = progress.first_step if progress else None
    where = f" It began at step {wordings.steps(first)}." if first is not None else ""
    return f"The new attempt did not resume from the last durable checkpoint.{where} No further automatic restart."
