"""The banner of a restarted attempt: five lines that say what happened to the attempt before. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from relance.domain.advice import ActionKind, Advice
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey
from relance.recovery import wordings
from relance.recovery.answers import JobFacts, fault, lost, quoted
from relance.recovery.job_checks import restarts_allowed
from relance.recovery.stories import Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Lines for the top of an attempt's output; none where nothing went wrong before it that Relance knows of."""

    lines: tuple[str, ...] = ()


def banner(facts: JobFacts, restart_count: int, quote: Quote | None, zone: tzinfo | None) -> Banner:
    """The banner of the attempt with that restart count. `quote` is the line that shows why, if it may be quoted."""
    before = AttemptKey(job=facts.record.job, restart_count=restart_count - 1)
    incident = next((item for item in reversed(facts.record.incidents) if item.attempt == before), None)
    if incident is None:
        return Banner()
    job = facts.record.job.raw_id
    seen = f" · {quoted(quote)}" if quote is not None else ""
    lines = (
        f"attempt {restart_count + 1} of at most {1 + restarts_allowed(facts)}{_ended(facts, before, zone)}",
        f"why: {fault(incident)}{seen}",
        f"did: {_did(facts, incident, zone)}",
        f"cost: {_cost(facts, incident)}",
        f'full story: relance why {job} · not wanted: relance off {job} · not right: relance wrong {job} "WHY"',
    )
    return Banner(lines=tuple(wordings.one_line(f"relance: {line}") for line in lines))


def _ended(facts: JobFacts, before: AttemptKey, zone: tzinfo | None) -> str:
    known, progress = facts.record.attempt(before), facts.progress.get(before)
    highest = (progress.highest_step if progress else None) or (known.highest_step if known else None)
    ended = wordings.moment_at_site(known.ended_at if known else None, facts.now, zone)
    step = f" at step {wordings.steps(highest)}" if highest is not None else ""
    return f" · attempt {before.restart_count + 1} ended {ended}{step}"


def _did(facts: JobFacts, incident: Incident, zone: tzinfo | None) -> str:
    action, advice = incident.action, incident.advice
    if incident.by_watchdog:
        return "requeued by the watchdog, on the nodes that Slurm gives it"
    if action is None or advice is None or not (incident.restarted_by_us or action.kind is ActionKind.CONSTRAIN):
        return "nothing: the scheduler or a person started it again"
    begun = "others requeued it, now" if action.kind is ActionKind.CONSTRAIN else "requeued"
    return f"{begun}{_without(advice, facts, zone)}"


def _without(advice: Advice, facts: JobFacts, zone: tzinfo | None) -> str:
    if not advice.exclude:
        return ", no node kept out"
    until = f" until {wordings.moment_at_site(advice.exclude_until, facts.now, zone)}" if advice.exclude_until else ""
    own = set(facts.view.excluded if facts.view is not None else ()) - set(advice.exclude)
    return f" without {wordings.nodes(advice.exclude)}{until}" + ("; your own --exclude kept" if own else "")


def _cost(facts: JobFacts, incident: Incident) -> str:
    before, known = facts.progress.get(incident.attempt), facts.record.attempt(incident.attempt)
    durable = (before.checkpoint_durable if before else None) or (known.durable_step if known else None)
    back = f"back to checkpoint {wordings.steps(durable)}, " if durable is not None else ""
    ended = known.ended_at if known else None
    queued = f"; {wordings.duration((facts.now - ended).total_seconds())} since it ended" if ended is not None else ""
    return f"{back}{lost(facts, incident)}{queued}"
