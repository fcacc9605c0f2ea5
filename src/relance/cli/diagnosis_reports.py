"""What `relance diagnose --json` prints. Its keys are documented in docs/reference/diagnose.md, and stay.

No time of reading is in it: only times that the files themselves bear.
"""

from __future__ import annotations

from math import isfinite

from relance.attribution import faults_sentence
from relance.attribution.setaside import SetAside
from relance.cli.diagnosing import Diagnosis
from relance.domain.encoding import encode
from relance.domain.faults import FaultDomain, Remedy, Scope
from relance.domain.findings import Coverage, FindingKind, RuleHit
from relance.domain.progress import Phase, Progress
from relance.domain.verdicts import Basis, RunnerUp, Strength, Suspect, Verdict
from relance.domain.views import JobState, JobView
from relance.recovery import wordings

_NOTHING = "nothing_recognised"
_SOUND = "healthy"
_NOTHING_SEEN = "It cannot be told: neither a step nor a fault was recognised in what was read."
_NO_END_SEEN = "Nothing wrong was seen, and nothing says how the job ended."
_DOUBTFUL = ("low", "very low")
"""Levels of confidence at which an answer is a guess."""
_WEAK = 0.5
"""Weak evidence against a node counts at its second time: half the confidence."""
_SEEN_FIRST = (FindingKind.EXIT, FindingKind.CRASH, FindingKind.HANG)
_MOST_ITEMS = 200
"""Files of the coverage and of what was left out, each."""

Data = dict[str, object]


def report_of(diagnosis: Diagnosis) -> Data:
    """The whole answer as JSON data, in the order of the documentation."""
    verdict = diagnosis.verdict
    first = verdict.evidence[0] if verdict.evidence else None
    return {
        "outcome": outcome(diagnosis.job),
        "symptom": symptom(diagnosis),
        "cause": verdict.cause,
        "domain": verdict.domain.value,
        "decision": verdict.remedy.value,
        "reason": verdict.remedy_reason,
        "suspects": [_suspect(each, verdict) for each in verdict.to_leave_out],
        "watched": [_suspect(each, verdict) for each in verdict.to_watch],
        "first_evidence": None if first is None else _place(first),
        "confidence": verdict.confidence,
        "basis": _basis(verdict.basis),
        "runner_up": _runner_up(verdict.runner_up),
        "explanation": " ".join(explanation(diagnosis)),
        "summary": verdict.summary,
        "evidence": [_hit(hit) for hit in verdict.evidence],
        "ignored": [_ignored(row) for row in diagnosis.ignored],
        "coverage": [_covered(item) for item in diagnosis.coverage[:_MOST_ITEMS]],
        "left_out": [_covered(item) for item in diagnosis.left_out[:_MOST_ITEMS]],
        "gaps": list(verdict.gaps),
        "would_help": list(would_help(diagnosis)),
        "progress": _progress(diagnosis.progress),
        "fingerprint": verdict.fingerprint,
        "logs": list(diagnosis.logs),
        "engine": diagnosis.engine,
    }


def outcome(job: JobView | None) -> str:
    """How the scheduler says that the attempt ended, or that it runs; "unknown" where it does not say."""
    if job is None or job.state is JobState.UNKNOWN:
        return "unknown"
    if job.exit_signal:
        return f"{job.state.value} (signal {job.exit_signal})"
    return f"{job.state.value} (exit code {job.exit_code})" if job.exit_code else job.state.value


def symptom(diagnosis: Diagnosis) -> str:
    """What was seen, which need not be why: what the first finding is called; "none" where there is none."""
    found = sorted(
        diagnosis.findings,
        key=lambda item: (item.kind not in _SEEN_FIRST, item.first_evidence_at, item.symptom, item.id),
    )
    return found[0].symptom if found else "none"


def explanation(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Two or three sentences: whose fault it is, where it first shows, and what to do."""
    verdict = diagnosis.verdict
    told = [whose_fault(diagnosis)]
    if verdict.evidence:
        told.append(f"It first shows in {_where(verdict.evidence[0])}.")
    else:
        told.append(_sentence(verdict.summary.partition(": ")[2] or verdict.summary))
    told.append(what_to_do(diagnosis))
    return tuple(told)


def whose_fault(diagnosis: Diagnosis) -> str:
    """Whose fault it is, in a sentence; where no end was seen it is not said that all is well."""
    verdict = diagnosis.verdict
    if _is_end_untold(diagnosis):
        return _NO_END_SEEN
    return _NOTHING_SEEN if verdict.cause == _NOTHING else faults_sentence(verdict)


def what_to_do(diagnosis: Diagnosis) -> str:
    """The decision as advice to a person."""
    verdict, progress = diagnosis.verdict, diagnosis.progress
    if verdict.cause == _NOTHING:
        return "Give it more to read."
    if _is_end_untold(diagnosis):
        return "Nothing if the job runs or is done. If it broke off here, give it more to read."
    nodes = wordings.nodes([suspect.node for suspect in verdict.suspects]) if verdict.suspects else "the suspects"
    saved = progress.checkpoint_durable
    start = "Start it again" + (f" from the checkpoint of step {wordings.steps(saved)}" if saved is not None else "")
    match verdict.remedy:
        case Remedy.RESTART:
            return f"{start}: {_clause(verdict)}."
        case Remedy.RESTART_EXCLUDING:
            return f"{start}, without {nodes}, and have {nodes} looked at."
        case Remedy.STOP:
            return f"Do not start it again as it is: {_clause(verdict)}."
        case Remedy.WAIT:
            return f"Wait before you start it again: {_clause(verdict)}."
        case Remedy.NONE:
            return f"There is nothing to do: {_clause(verdict)}."


def would_help(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What to put beside the logs, where they do not suffice for an answer; nothing where they do."""
    if not (_is_doubtful(diagnosis.verdict) or _is_end_untold(diagnosis)):
        return ()
    lacking = {
        "the job's own output": Scope.APPLICATION not in diagnosis.scopes,
        "the kernel logs of its nodes, as dmesg-NODE.log": Scope.KERNEL not in diagnosis.scopes,
        "the scheduler's answer about the job: sacct -j JOB --json, or kubectl get events": diagnosis.job is None
        and Scope.SCHEDULER not in diagnosis.scopes,
        "context.yaml with its nodes, and which ranks ran where": not diagnosis.nodes,
    }
    return tuple(what for what, is_lacking in lacking.items() if is_lacking)


def _is_doubtful(verdict: Verdict) -> bool:
    level = verdict.basis.level if verdict.basis is not None else wordings.confidence(verdict.confidence)
    return verdict.domain is FaultDomain.UNKNOWN or verdict.cause == _NOTHING or level in _DOUBTFUL


def _is_end_untold(diagnosis: Diagnosis) -> bool:
    """Steps went by without a fault, and neither the scheduler nor the output says whether that was all."""
    job, progress = diagnosis.job, diagnosis.progress
    if diagnosis.verdict.cause != _SOUND or (job is not None and job.state is not JobState.UNKNOWN):
        return False
    step, total = progress.step, progress.total_steps
    return progress.phase is not Phase.ENDING and (step is None or total is None or step < total)


def _clause(verdict: Verdict) -> str:
    return verdict.remedy_reason.rstrip(".")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _where(hit: RuleHit) -> str:
    place = f"{hit.file or 'what was read'}" + (f", line {hit.line}" if hit.line is not None else "")
    owner = f"rank {hit.rank}" if hit.rank is not None else ""
    speaker = " on ".join(part for part in (owner, hit.node or "") if part)
    return f"{place} ({speaker})" if speaker else place


def _place(hit: RuleHit) -> Data:
    return {
        "file": hit.file,
        "line": hit.line,
        "text": hit.excerpt,
        "node": hit.node,
        "rank": hit.rank,
    }


def _hit(hit: RuleHit) -> Data:
    return {
        **_place(hit),
        "device": hit.device,
        "at": encode(hit.at),
        "rule": hit.rule,
        "symptom": hit.symptom,
        "role": hit.role.value,
    }


def _suspect(suspect: Suspect, verdict: Verdict) -> Data:
    share = 1.0 if suspect.strength is Strength.HARD else _WEAK
    return {
        "node": suspect.node,
        "device": suspect.device,
        "confidence": round(verdict.confidence * share, 2),
        "because": suspect.reason,
        "strength": suspect.strength.value,
    }


def _runner_up(other: RunnerUp | None) -> Data | None:
    if other is None:
        return None
    return {"domain": other.domain.value, "cause": other.cause, "because": other.reason}


def _basis(basis: Basis | None) -> Data | None:
    return None if basis is None else {"level": basis.level, "right": basis.right, "of": basis.of}


def _ignored(row: SetAside) -> Data:
    hit = row.hit
    return {
        "file": hit.file,
        "line": hit.line,
        "text": hit.excerpt,
        "node": row.node,
        "symptom": hit.symptom,
        "reason": row.reason.value,
        "count": row.count,
    }


def _covered(item: Coverage) -> Data:
    return {"source": item.source, "sight": item.sight.value, "note": item.note}


def _progress(progress: Progress) -> Data:
    """What is known of the steps; the phase only where a line told it."""
    return {
        "phase": None if progress.phase is Phase.UNKNOWN else progress.phase.value,
        "first_step": progress.first_step,
        "step": progress.step,
        "step_at": encode(progress.step_at),
        "highest_step": progress.highest_step,
        "total_steps": progress.total_steps,
        "steps_seen": progress.steps_seen,
        "median_step_s": progress.median_step_s,
        "throughput": _number(progress.throughput),
        "throughput_unit": progress.throughput_unit or None,
        "is_learned": progress.is_learned,
        "loss": _number(progress.loss),
        "checkpoint_durable": progress.checkpoint_durable,
        "loaded_step": progress.loaded_step,
        "started_cold": progress.started_cold,
    }


def _number(value: float | None) -> float | None:
    """A number that JSON has: a loss that is none, or without bounds, is not one."""
    return value if value is not None and isfinite(value) else None
