"""The judgement of a case: whose fault it is, which nodes are suspect, and what would help (design 7)."""

from __future__ import annotations

from dataclasses import replace

from relance.attribution import sentences
from relance.attribution.choices import choose, merged
from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.failures import failure_explanations, second_thoughts
from relance.attribution.fingerprints import fingerprint
from relance.attribution.firsts import evidence_of
from relance.attribution.hosts import host_explanations, node_explanations
from relance.attribution.intents import intent
from relance.attribution.isolations import isolated, with_isolation
from relance.attribution.levels import level_of
from relance.attribution.placing import clues_of
from relance.attribution.proofs import death_is_proven, in_job_restart_at, last_root_at, proof_of
from relance.attribution.remedies import Prescription, prescribe
from relance.attribution.slowness import (
    divergence_of,
    explains_slowness,
    slowdown_of,
    slowness_reason,
    told_slowness,
)
from relance.attribution.symptoms import words
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope
from relance.domain.findings import Certainty, FindingKind, Sight
from relance.domain.verdicts import Basis, CaseFile, RunnerUp, Verdict

_SURE_OF_A_HOST = 0.75
"""The weight from which on a host's row counts although the job goes on: such a GPU will not come back."""
_HARM = (Role.ROOT, Role.MAYBE, Role.CASCADE, Role.TEARDOWN)
_UNSURE_WITHOUT_SIGHT = 0.9


def attribute(case: CaseFile) -> Verdict:
    """The verdict on a case file: a value of it alone, so that the same case is always judged the same way."""
    case = replace(case, findings=tuple(sorted(case.findings, key=lambda item: (item.first_evidence_at, item.id))))
    clues = clues_of(case)
    ranked = _explain(case, clues)
    best = merged(ranked[0], ranked[1:])
    mark = fingerprint(best, case)
    prescription = _special(case, best, clues) or prescribe(best, mark, case)
    apart = isolated(case, best) if prescription.remedy.restarts else ()
    prescription = with_isolation(prescription, apart)
    proof = proof_of(case)
    missing = sentences.gaps(case)
    blind = any(item.sight is not Sight.SEEN and item.scope is not Scope.METRICS for item in case.coverage)
    level = level_of(best.confidence * (_UNSURE_WITHOUT_SIGHT if blind else 1.0))
    return Verdict(
        domain=best.domain,
        cause=best.cause,
        summary=sentences.summary(best),
        remedy=prescription.remedy,
        remedy_reason=prescription.reason,
        confidence=level.stated,
        basis=Basis(level=level.name, right=level.right, of=level.of),
        fingerprint=mark,
        suspects=(*best.suspects, *apart),
        evidence=evidence_of(best, ranked[1:], clues),
        runner_up=_runner_up(ranked),
        gaps=missing,
        not_counted=sentences.not_counted(case),
        proven_death=death_is_proven(case),
        restart_limit_without_progress=prescription.limit,
        confirmable=prescription.confirmable,
        proof=proof.kind if proof else None,
        proof_at=proof.at if proof else None,
        last_root_at=last_root_at(clues),
        in_job_restart_at=in_job_restart_at(clues),
    )


def _explain(case: CaseFile, clues: tuple[Clue, ...]) -> tuple[Explanation, ...]:
    """All explanations, best first; never none."""
    decided = intent(case, clues)
    host, node = host_explanations(case, clues), node_explanations(case, clues)
    own = failure_explanations(case, clues)
    ranked = choose(host, node, own, case)
    if decided is not None:
        return (decided, *ranked)
    told = _told_only(case, clues)
    if told is not None and not _is_over(case):
        return (told, *ranked)
    goes_on = not _is_over(case) and _all_outlived(clues) and not _confirmed_hang(case)
    if goes_on and not (ranked and _is_fresh(ranked[0])):
        return (_unharmed("recovered", "training went on after every sign", clues), *ranked)
    if ranked and _is_doubtful(ranked[0]) and not _is_disturbed(case, clues):
        return (_unharmed("healthy", "training shows no sign of it", ranked[0].clues), *ranked)
    late = second_thoughts(clues)
    if late is not None and (not ranked or ranked[0].trust >= Trust.CASCADE):
        return (late, *ranked)
    return ranked or (_nothing(case, clues),)


def _special(case: CaseFile, best: Explanation, clues: tuple[Clue, ...]) -> Prescription | None:
    """Remedies that the kind of finding gives, whatever the cause."""
    if any(finding.kind is FindingKind.DID_NOT_RESUME for finding in case.findings) and best.trust is not Trust.INTENT:
        return Prescription(remedy=Remedy.NONE, reason="it did not resume from its checkpoint: its owner has to look")
    if best.trust is Trust.INTENT:
        return None
    if best.cause in ("recovered", "healthy", "nothing_recognised"):
        return Prescription(remedy=Remedy.NONE, reason="nothing is wrong")
    told = _told_only(case, clues)
    if told is not None and told.cause == best.cause and not _is_over(case):
        if any(finding.kind is FindingKind.HANG for finding in case.findings):
            return Prescription(remedy=Remedy.WAIT, reason="the silence is not confirmed to be a hang")
        return Prescription(remedy=Remedy.NONE, reason=_why_left(case, best))
    if explains_slowness(best) and slowdown_of(case.findings) is not None and not _is_over(case):
        return Prescription(remedy=Remedy.NONE, reason=slowness_reason(best))
    return None


def _why_left(case: CaseFile, told: Explanation) -> str:
    """Why nothing is done about what is only told."""
    lost, slow = divergence_of(case.findings), slowdown_of(case.findings)
    if lost is not None and lost.symptom == told.cause:
        before = "" if lost.durable_before is None else f": step {lost.durable_before} is the last checkpoint before it"
        return f"it goes on; its owner is told{before}"
    return "it goes on; its owner is told" if slow is None else slowness_reason(told)


def _told_only(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation | None:
    """A finding that is never a reason to act: did not resume, slow, diverging, a node's health, a suspected hang."""
    findings = case.findings
    lost = next((item for item in findings if item.kind is FindingKind.DID_NOT_RESUME), None)
    if lost is not None:
        return _unharmed("did_not_resume", lost.summary, (), domain=FaultDomain.UNKNOWN)
    if any(item.kind in (FindingKind.CRASH, FindingKind.EXIT) for item in findings) or _confirmed_hang(case):
        return None
    hang = next((item for item in findings if item.kind is FindingKind.HANG), None)
    lost, slow = divergence_of(findings), slowdown_of(findings)
    if hang is None and lost is None and slow is not None:
        return told_slowness(slow, case, clues)
    first = hang or lost or next((item for item in findings if item.kind is FindingKind.NODE_HEALTH), None)
    if first is None:
        return None
    domain = FaultDomain.APPLICATION if first is lost else FaultDomain.UNKNOWN
    sign = min(first.hits, key=lambda hit: (hit.when, hit.file, hit.offset, hit.rule), default=None)
    domain = sign.domain if first.kind is FindingKind.NODE_HEALTH and sign is not None else domain
    return _unharmed(first.symptom, first.summary, (), domain=domain)


def _unharmed(cause: str, because: str, clues: tuple[Clue, ...], domain: FaultDomain = FaultDomain.NONE) -> Explanation:
    return Explanation(
        trust=Trust.EXIT,
        domain=domain,
        cause=cause,
        hint=RestartHint.NOTHING,
        confidence=0.65 if domain is FaultDomain.NONE else 0.6,
        because=because,
        clues=clues[:1],
    )


def _nothing(case: CaseFile, clues: tuple[Clue, ...]) -> Explanation:
    """No sign at all: nothing is wrong where nothing ended, else it cannot be told."""
    if _is_over(case):
        return _unharmed("ended_without_a_sign", "it ended, and nothing shows why", (), domain=FaultDomain.UNKNOWN)
    if death_is_proven(case) and not (clues and all(clue.outlived for clue in clues)):
        because = "a process of it ended, and nothing shows why"
        return _unharmed("ended_without_a_sign", because, (), domain=FaultDomain.UNKNOWN)
    stepped = case.progress is not None and case.progress.steps_seen > 0
    if all(clue.foreign for clue in clues) and not case.findings and case.job is None and not stepped:
        because = "neither a step nor a fault was recognised in what was read, which is no proof of good health"
        return replace(_unharmed("nothing_recognised", because, ()), confidence=0.3)
    return _unharmed("healthy", "no sign of a fault was seen", ())


def _is_over(case: CaseFile) -> bool:
    """Whether the attempt is known to have ended badly."""
    ended = any(finding.kind is FindingKind.EXIT for finding in case.findings)
    return ended or (case.job is not None and case.job.state.is_failure)


def _is_fresh(item: Explanation) -> bool:
    """Whether steps that went on do not speak against an explanation, such as one of why they are slow."""
    return item.trust in (Trust.MAYBE, Trust.HANG) and (item.first is None or not item.first.outlived)


def _is_doubtful(item: Explanation) -> bool:
    """Whether it is a host's row that a job may well go on after."""
    first = item.first
    of_host = item.trust in (Trust.HOST, Trust.HOST_WEAK) and not item.shared
    return of_host and first is not None and first.hit.weight < _SURE_OF_A_HOST


def _is_disturbed(case: CaseFile, clues: tuple[Clue, ...]) -> bool:
    """Whether anything shows that the job itself was harmed; of one whose steps are not known it cannot be said."""
    if _is_over(case) or _confirmed_hang(case) or death_is_proven(case):
        return True
    if case.progress is None or not case.progress.steps_seen:
        return True
    return any(
        not clue.of_host and not clue.outlived and clue.role in _HARM and clue.hit.scope is not Scope.NOTES
        for clue in clues
    )  # fmt: skip


def _all_outlived(clues: tuple[Clue, ...]) -> bool:
    causes = [clue for clue in clues if clue.may_be_cause]
    return bool(causes) and all(clue.outlived for clue in causes)


def _confirmed_hang(case: CaseFile) -> bool:
    return any(item.kind is FindingKind.HANG and item.certainty is Certainty.CONFIRMED for item in case.findings)


def _runner_up(ranked: tuple[Explanation, ...]) -> RunnerUp | None:
    best = ranked[0]
    other = next((item for item in ranked[1:] if item.cause != best.cause), None)
    if other is None:
        return None
    return RunnerUp(domain=other.domain, cause=other.cause, reason=f"{words(other.cause)}: {other.because}")
