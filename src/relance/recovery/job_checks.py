"""What Relance sees of one job, and what it would do if the job failed now: for the person who submitted it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.domain.stages import Stage
from relance.domain.views import JobView, Wish
from relance.recovery import wordings
from relance.recovery.answers import JobFacts, next_of
from relance.recovery.desks import DeskState
from relance.recovery.rows import JobRow
from relance.recovery.tables import job_row

WAYS_TO_READ = (
    "let the group of Relance's account read it (chmod g+r on the file, g+x on its folders)",
    "write the logs into a folder that this group may read by default (setfacl -d)",
    "ask the site to have Relance open your files as you, or to send the logs to a log store",
)
"""Ways to mend a log that cannot be read; any one of them will do."""
_OTHER_FORM = {
    ("aps", False): "a comment that asks another engine (APS), which is observed",
    ("aps", True): "a comment in another engine's form (APS), which this site takes for a wish",
}
_SIGHTS = {
    Sight.SEEN: "read to its end",
    Sight.LAGGING: "read, but not to its end",
    Sight.MISSING: "not there",
    Sight.REFUSED: "cannot be read",
    Sight.UNKNOWN: "not looked at yet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """One log of a job: a path or pattern, and what comes of reading it."""

    path: str
    sight: Sight
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCheck:
    """Everything that `relance check JOB` says."""

    job: JobRow
    wish: Wish
    settings: tuple[str, ...]
    """What the job asked for and is granted, a phrase each; empty: it asked for nothing."""
    notes: tuple[str, ...]
    """What was clipped, ignored or broken in the job's settings, and what of its log paths could not be resolved."""
    logs: tuple[LogCheck, ...]
    ways: tuple[str, ...]
    """Ways to mend a log that cannot be read; empty where all can be."""
    would: str
    """What Relance does, or would do if the job failed now."""
    providers: tuple[DeskState, ...] = ()
    """Outside providers that are asked about each verdict, and how they are doing."""


def job_check(facts: JobFacts) -> JobCheck:
    """The check of one job from its facts."""
    wish = facts.view.wish if facts.view is not None else facts.record.wish
    logs = _logs(facts)
    return JobCheck(
        job=job_row(facts),
        wish=wish,
        settings=_settings(wish),
        notes=(*wish.notes, *(facts.view.log_notes if facts.view is not None else ())),
        logs=logs,
        ways=WAYS_TO_READ if any(log.sight is Sight.REFUSED for log in logs) else (),
        would=_would(facts),
    )


def restarts_allowed(facts: JobFacts) -> int:
    """How often the job may be started again in all: the site's limit, or the job's own where that is lower."""
    wanted, allowed = facts.record.wish.max_restarts, facts.rules.limits.restarts.in_all
    return allowed if wanted is None else min(wanted, allowed)


def _settings(wish: Wish) -> tuple[str, ...]:
    said = (
        _OTHER_FORM.get((wish.form, wish.mode is Stage.ACT), "") if wish.form else "",
        f"mode {wish.mode.value}" if wish.mode is not None else "",
        f"at most {wordings.count(wish.max_restarts, 'restart')}" if wish.max_restarts is not None else "",
        f"a hang after {wordings.duration(wish.hang_after_s)} of silence" if wish.hang_after_s is not None else "",
        f"workflow {wish.workflow}" if wish.workflow is not None else "",
        f"steps by the pattern {wish.progress}" if wish.progress is not None else "",
        f"logs {', '.join(wish.logs)}" if wish.logs else "",
        "to be made fit for a requeue (arm_requeue)" if wish.arm_requeue else "",
    )
    return tuple(filter(None, said))


def _logs(facts: JobFacts) -> tuple[LogCheck, ...]:
    seen = {item.source: item for item in facts.coverage if item.scope is Scope.APPLICATION}
    found: list[LogCheck] = []
    for item in seen.values():
        note = f": {item.note}" if item.note else ""
        found.append(LogCheck(path=item.source, sight=item.sight, words=f"{_SIGHTS[item.sight]}{note}"))
    paths = facts.view.log_paths if facts.view is not None else ()
    if not found:
        found += [LogCheck(path=path, sight=Sight.UNKNOWN, words=_SIGHTS[Sight.UNKNOWN]) for path in paths]
    return tuple(found)


def _would(facts: JobFacts) -> str:
    incident, view = facts.record.open_incident, facts.view
    if incident is not None:
        return next_of(facts, incident)
    if view is not None and view.only_watched:
        return f"watch, and never restart it: {view.only_watched}"
    if view is not None and view.requeue_allowed is False:
        return _not_requeued(view, facts.stage.stage)
    match facts.stage.stage:
        case Stage.OFF:
            return "nothing: it is switched off"
        case Stage.OBSERVE:
            return "if it fails, say why and what would have helped, and do nothing"
        case Stage.APPROVE:
            return "if it fails, prepare a restart and wait for a person's yes"
        case Stage.ACT:
            times = wordings.count(restarts_allowed(facts), "restart")
            return (
                f"if it fails and a restart can help, start it again from its last checkpoint; at most {times} in all"
            )


def _not_requeued(view: JobView, stage: Stage) -> str:
    """What becomes of a job that the scheduler would not requeue as it is."""
    if not view.arming or view.state.is_over:
        return "watch, and not restart it: the job does not allow a requeue (submit it with --requeue)"
    if stage is not Stage.ACT:
        return (
            f"watch, and not restart it: the job does not allow a requeue, which is changed at act only ({view.arming})"
        )
    return f"let it be requeued while it runs ({view.arming}), and then restart it if it fails and that can help"
