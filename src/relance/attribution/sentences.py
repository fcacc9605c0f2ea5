"""Sentences for people: what happened, whose fault it is, and what was not seen."""

from __future__ import annotations

from relance.attribution.explanations import Explanation
from relance.attribution.fingerprints import deciding_line, own_frame
from relance.attribution.symptoms import words
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.findings import Coverage, Sight
from relance.domain.verdicts import CaseFile, Strength, Verdict

_QUOTE = 160
_SERVICES = (FaultDomain.STORAGE, FaultDomain.SYSTEM, FaultDomain.INTERCONNECT, FaultDomain.HARDWARE)


def faults_sentence(verdict: Verdict) -> str:
    """Whose fault it is, as one of five sentences (operators.md 2a); a sixth says that there is no fault."""
    what = words(verdict.cause)
    if verdict.domain is FaultDomain.NONE:
        return "Nothing was wrong."
    if verdict.domain is FaultDomain.SCHEDULER or (
        verdict.domain is FaultDomain.USER and verdict.remedy is Remedy.NONE
    ):
        return f"The scheduler or a person decided: {what}."
    if verdict.domain in (FaultDomain.APPLICATION, FaultDomain.USER):
        return f"It is your code or data: {_shown(verdict) or what}."
    blamed = [suspect for suspect in verdict.suspects if not suspect.isolated]
    if blamed and (verdict.domain in _SERVICES or _has_hard(verdict)):
        names = " and ".join(suspect.node for suspect in blamed)
        return f"It is a node, not your code: {names} ({what})."
    if verdict.domain in _SERVICES:
        return f"It is a shared service, not your code: {what}."
    return f"It cannot be told whose fault it is: {what} is all that was seen."


def summary(explanation: Explanation) -> str:
    """One sentence on what happened, with the line that shows it."""
    nodes = ", ".join(suspect.node for suspect in explanation.suspects)
    head = words(explanation.cause) + (f" on {nodes}" if nodes else "")
    first = explanation.first
    if first is None:
        return f"{head}: {explanation.because}"
    quote = deciding_line(first.hit)
    frame = own_frame(first.hit) if explanation.is_own else None
    told = f"{head}: {explanation.because}"
    if quote:
        told += f': "{quote[:_QUOTE]}"'
    return told + (f" at {frame}" if frame else "")


def gaps(case: CaseFile) -> tuple[str, ...]:
    """What was not seen: never evidence of health or of death (20.16)."""
    seen = {(item.source, item.sight): item for item in _coverage(case)}
    found = [_gap(item) for item in seen.values() if item.sight is not Sight.SEEN]
    found += [
        f"{item.lost_bytes} bytes of {item.source} were lost before they were read"
        for item in seen.values()
        if item.lost_bytes
    ]
    if not seen:
        found.append("nothing is known of what was read")
    job = case.job
    if job is not None and job.state.is_failure and job.steps is None:
        found.append("the scheduler's books on the steps could not be read: a person's decision cannot be ruled out")
    return tuple(dict.fromkeys(found))


def not_counted(case: CaseFile) -> tuple[str, ...]:
    """What nodes of the attempt show that is no evidence against them."""
    return tuple(f"{node}: {words}" for node, words in sorted(case.expected.items()) if node in case.nodes)


def _shown(verdict: Verdict) -> str:
    """The exception and the frame of the job's own code, where a traceback shows them."""
    first = verdict.evidence[0] if verdict.evidence else None
    frame = own_frame(first) if first is not None else None
    if first is None or frame is None:
        return ""
    return f"{_cut(deciding_line(first).rstrip('.'))} at {frame}"


def _cut(line: str) -> str:
    """A line that is not too long for a sentence: up to its last whole sentence that fits, else to a whole word."""
    if len(line) <= _QUOTE:
        return line
    start = line[:_QUOTE]
    whole = start.rpartition(". ")[0] or start.rpartition(" ")[0] or start
    return f"{whole} ..."


def _coverage(case: CaseFile) -> tuple[Coverage, ...]:
    newest = {item.source: item for finding in case.findings for item in finding.coverage}
    newest.update({item.source: item for item in case.coverage})
    return tuple(newest.values())


def _gap(item: Coverage) -> str:
    words_of = {
        Sight.LAGGING: "was read, but not to its end",
        Sight.MISSING: "is not there",
        Sight.REFUSED: "could not be read",
        Sight.UNKNOWN: "was not seen",
    }
    note = f" ({item.note})" if item.note else ""
    return f"{item.source} {words_of[item.sight]}{note}"


def _has_hard(verdict: Verdict) -> bool:
    return any(suspect.strength is Strength.HARD for suspect in verdict.suspects)
