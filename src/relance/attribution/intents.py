"""Whether a person or the scheduler decided: asked first, because no action may go against it (20.2)."""

from __future__ import annotations

from collections.abc import Mapping

from relance.attribution.clues import Clue, lead_s
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.symptoms import (
    CANCELLED_BY_TEXT,
    FINISHED,
    PERSONS_WISH,
    PROCESS_EXITS,
    TERM_SIGNALS,
    TOLD_SIGNALS,
)
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope
from relance.domain.findings import Sight
from relance.domain.verdicts import CaseFile
from relance.domain.views import JobState, JobView

_TERM = 15
_TERM_EXIT = 143
_TERM_CODES = ("143", "-15", "15")
_AT_ONCE_S = 1.0
_HARM = (Role.ROOT, Role.MAYBE, Role.CASCADE)

_BY_STATE: Mapping[JobState, tuple[FaultDomain, str, str]] = {
    JobState.CANCELLED: (FaultDomain.USER, "user_cancelled", "the scheduler says that it was cancelled"),
    JobState.TIMEOUT: (FaultDomain.SCHEDULER, "time_limit", "it ran into its time limit"),
    JobState.DEADLINE: (FaultDomain.SCHEDULER, "deadline", "it ran into its deadline"),
    JobState.PREEMPTED: (FaultDomain.SCHEDULER, "preempted", "it was preempted"),
    JobState.REQUEUED: (FaultDomain.SCHEDULER, "requeued", "it was put back into the queue"),
    JobState.COMPLETED: (FaultDomain.NONE, "done", "the scheduler says that it completed"),
}


def intent(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation | None:
    """The decision of a person or of the scheduler that ended the attempt, or its good end; None if there was none."""
    by_scheduler = _by_scheduler(case.job) if case.job is not None else None
    return by_scheduler or _by_lines(case, clues) or _by_signal(case, clues) or _by_good_end(case, clues)


def is_wish(clue: Clue) -> bool:
    """Whether a line tells a decision, as against a person's mistake in a setting."""
    hit = clue.hit
    if clue.role is not Role.ROOT:
        return False
    decided = hit.restart is RestartHint.SCHEDULER or hit.domain is FaultDomain.SCHEDULER
    return (decided and hit.restart is not RestartHint.OK) or hit.symptom in PERSONS_WISH


def _by_scheduler(job: JobView) -> Explanation | None:
    if job.preempted_at is not None and (job.started_at is None or job.preempted_at >= job.started_at):
        return _decided(FaultDomain.SCHEDULER, "preempted", "the scheduler preempted it")
    if job.state in _BY_STATE:
        return _decided(*_BY_STATE[job.state])
    if job.cancelled_by is not None:
        return _decided(FaultDomain.USER, "user_cancelled", f"uid {job.cancelled_by} cancelled it")
    for step in job.steps or ():
        if step.cancelled_by is not None:
            because = f"uid {step.cancelled_by} cancelled its step {step.name}"
            return _decided(FaultDomain.USER, "user_cancelled", because)
    return None


def _by_lines(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation | None:
    for clue in clues:
        if not is_wish(clue) or clue.outlived:
            continue
        if clue.hit.symptom in CANCELLED_BY_TEXT and _is_denied(case.job):
            continue
        if _has_earlier_cause(clue, clues):
            continue
        domain = FaultDomain.USER if clue.hit.domain is FaultDomain.USER else FaultDomain.SCHEDULER
        return _decided(domain, clue.hit.symptom, "a line says so before anything went wrong", (clue,))
    return None


def _is_denied(job: JobView | None) -> bool:
    """Whether the scheduler's books say that nobody cancelled: it writes such a line for a failed step, too."""
    return job is not None and job.state.is_failure and job.steps is not None


def _has_earlier_cause(mark: Clue, clues: tuple[Clue, ...]) -> bool:
    """Whether something had gone wrong before a line that tells the end of the step."""
    return any(
        clue.may_be_cause and not is_wish(clue) and not clue.outlived and _precedes(clue, mark) for clue in clues
    )  # fmt: skip


def _precedes(clue: Clue, mark: Clue) -> bool:
    if clue.hit.file == mark.hit.file:
        return clue.hit.offset < mark.hit.offset
    return lead_s(clue, mark) > -_AT_ONCE_S


def _by_signal(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation | None:
    """SIGTERM on all ranks with no earlier root line: somebody sent it (operators.md 1, V4)."""
    marks = tuple(clue for clue in clues if clue.hit.symptom in TERM_SIGNALS and not clue.outlived)
    failures = [clue for clue in clues if _is_failure(clue)]
    told = next((mark for mark in marks if mark.hit.symptom in TOLD_SIGNALS), None)
    if told is not None:
        ended_by_term = not any(_precedes(clue, told) for clue in failures)
    else:
        ended_by_term = not failures and _ended_by_term(case, marks)
    if not ended_by_term or (not clues and not _was_read(case)):
        return None
    because = "its processes got SIGTERM, and nothing had gone wrong before"
    return _decided(FaultDomain.USER, "terminated_from_outside", because, marks[:3])


def _was_read(case: CaseFile) -> bool:
    """Whether the job's output was read at all: that nothing had gone wrong before cannot be said of what was not."""
    return any(item.sight is Sight.SEEN and item.scope is Scope.APPLICATION for item in case.coverage)


def _ended_by_term(case: CaseFile, marks: tuple[Clue, ...]) -> bool:
    """Whether the way the attempt ended shows SIGTERM: its code, or where that is not known every node's ranks."""
    job = case.job
    if job is not None and job.state.is_over and (job.exit_code is not None or job.exit_signal is not None):
        return job.exit_signal == _TERM or job.exit_code == _TERM_EXIT
    places = {clue.node for clue in marks if clue.node is not None}
    return bool(places) and places >= set(case.nodes)


def _is_failure(clue: Clue) -> bool:
    """Whether a line shows that something had gone wrong, or that a process ended with a code of its own."""
    if clue.outlived or clue.hit.symptom in TERM_SIGNALS:
        return False
    own_end = clue.hit.symptom in PROCESS_EXITS and clue.hit.captures.get("exit") not in _TERM_CODES
    return clue.may_be_cause or own_end


def _by_good_end(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation | None:
    """The program's word that it is done, where the scheduler does not say otherwise."""
    done = next((clue for clue in reversed(clues) if _tells_a_good_end(clue)), None)
    failed = case.job is not None and case.job.state.is_failure
    if done is None or failed or (_has_earlier_cause(done, clues) and _was_harmed(done, clues)):
        return None
    return _decided(FaultDomain.NONE, "done", "the program says that it finished", (done,))


def _tells_a_good_end(clue: Clue) -> bool:
    return clue.hit.symptom in FINISHED and clue.role is Role.RECOVERY and not clue.outlived


def _was_harmed(done: Clue, clues: tuple[Clue, ...]) -> bool:
    """Whether the job itself, or its scheduler, told of harm before its word of a good end.

    What only a host's log or a note tells may be of another tenant, and the job came to its end all the same.
    """
    return any(
        clue.role in _HARM
        and not is_wish(clue)
        and not clue.outlived
        and not (clue.of_host or clue.hit.scope is Scope.NOTES)
        and _precedes(clue, done)
        for clue in clues
    )


def _decided(domain: FaultDomain, cause: str, because: str, clues: tuple[Clue, ...] = ()) -> Explanation:
    return Explanation(
        trust=Trust.INTENT,
        domain=domain,
        cause=cause,
        hint=RestartHint.SCHEDULER,
        confidence=0.95 if not clues else 0.85,
        because=because,
        at=clues[0].at if clues else None,
        clues=clues,
    )
