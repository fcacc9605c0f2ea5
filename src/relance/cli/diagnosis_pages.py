"""What `relance diagnose` shows to a person: the answer first, then the lines that it rests on."""

from __future__ import annotations

from dataclasses import replace

from relance.attribution.setaside import Reason
from relance.cli.diagnosing import Diagnosis
from relance.cli.diagnosis_reports import outcome, symptom, what_to_do, whose_fault, would_help
from relance.cli.quotes import show_quote
from relance.cli.screens import Screen
from relance.domain.faults import Remedy
from relance.domain.findings import RuleHit
from relance.domain.progress import Progress
from relance.domain.verdicts import Strength, Verdict
from relance.recovery import wordings
from relance.recovery.stories import quote_of

_MOST_QUOTES = 3
_FIRST_LINES, _LAST_LINES = 2, 4
_MARGIN, _LEAST_ROOM = 4, 40
"""Columns before a quote, and the fewest of its own."""
_MOST_IGNORED = 4
_MOST_GAPS = 4
_TONES = {Remedy.STOP: "bad", Remedy.WAIT: "warn", Remedy.NONE: "good"}
_WHY_IGNORED = {
    Reason.OUTLIVED: "training went on after it",
    Reason.RECOVERED: "a later line takes it back",
    Reason.OTHER_NODE: "not a node of this job",
    Reason.EARLIER: "older than this attempt",
    Reason.HARMLESS: "the job was not harmed",
    Reason.DECIDED: "a person or the scheduler had decided",
    Reason.BESIDE: "a line beside it says it better",
    Reason.OUTWEIGHED: "other evidence is earlier or stronger",
    Reason.TEARDOWN: "noise of the shut-down",
    Reason.CONSEQUENCE: "a consequence",
    Reason.DIAGNOSTIC: "advice or a counter",
}


def show(screen: Screen, found: Diagnosis) -> None:
    """The answer as a page of a screen."""
    verdict, progress = found.verdict, found.progress
    screen.sentence("whose fault", whose_fault(found), "bad" if verdict.remedy is Remedy.STOP else "")
    screen.sentence("what to do", what_to_do(found), _TONES.get(verdict.remedy, "busy"))
    screen.sentence("decision", f"{verdict.remedy.value} (limits of a site are not applied)")
    screen.sentence("how sure", _how_sure(verdict))
    for suspect in verdict.to_leave_out:
        doubt = "" if suspect.strength is Strength.HARD else ", weak evidence"
        screen.sentence("suspect", f"{suspect.node}: {suspect.reason}{doubt}")
    for suspect in verdict.to_watch:
        screen.sentence("to watch", f"{suspect.node}: {suspect.reason}; not enough to leave it out")
    screen.line()
    _show_evidence(screen, verdict)
    screen.sentence("what was seen", wordings.name(symptom(found)) if found.findings else "nothing")
    if verdict.evidence:
        rule = verdict.evidence[0].rule
        screen.sentence("by rule", f"{rule}; relance rules show {rule} has its source and its notes")
    screen.sentence("it ended as", _outcome(found))
    screen.sentence("progress", _progress(progress))
    _show_doubts(screen, found)


def _outcome(found: Diagnosis) -> str:
    """The scheduler's word, and where there is none, that it was not asked."""
    said = outcome(found.job)
    return "not known: no answer of the scheduler was read" if said == "unknown" else said


def _how_sure(verdict: Verdict) -> str:
    basis = verdict.basis
    if basis is None or not basis.of:
        return f"{wordings.confidence(verdict.confidence)} ({verdict.confidence:.2f})"
    return (
        f"{basis.level} ({verdict.confidence:.2f}): {basis.right} of {basis.of} such answers on known cases were right"
    )


def _show_evidence(screen: Screen, verdict: Verdict) -> None:
    if not verdict.evidence:
        screen.sentence("what happened", verdict.summary)
        return
    screen.sentence("what happened", _told(verdict))
    for hit in _distinct(verdict.evidence)[:_MOST_QUOTES]:
        quote = quote_of(hit)
        show_quote(screen, replace(quote, text=_folded(_shortened(quote.text), screen.width)))
    screen.line()


def _told(verdict: Verdict) -> str:
    """The sentence without the line that is quoted below it."""
    return verdict.summary.split(': "', 1)[0]


def _shortened(text: str) -> str:
    """A quote of many lines by its first and its last ones: of a traceback those say what and where."""
    lines = text.splitlines()
    if len(lines) <= _FIRST_LINES + _LAST_LINES + 1:
        return text
    left_out = f"... {len(lines) - _FIRST_LINES - _LAST_LINES} lines ..."
    return "\n".join([*lines[:_FIRST_LINES], left_out, *lines[-_LAST_LINES:]])


def _folded(text: str, width: int) -> str:
    """A quote in a terminal's width: each of its lines goes on below itself."""
    room = max(width - _MARGIN, _LEAST_ROOM)
    lines = [line[at : at + room] for line in text.splitlines() for at in range(0, max(len(line), 1), room)]
    return "\n".join(lines)


def _distinct(hits: tuple[RuleHit, ...]) -> list[RuleHit]:
    """One hit a place and a wording: two rules may match one line, and ranks say the same."""
    by_place = {(hit.file, hit.line, hit.offset): hit for hit in reversed(hits)}.values()
    return list({hit.excerpt: hit for hit in by_place}.values())[::-1]


def _progress(progress: Progress) -> str:
    if progress.step is None:
        return "no step was recognised"
    total = f" of {wordings.steps(progress.total_steps)}" if progress.total_steps else ""
    saved = progress.checkpoint_durable
    told = f"; last checkpoint of step {wordings.steps(saved)}" if saved is not None else ""
    return f"last step {wordings.steps(progress.step)}{total}{told}"


def _show_doubts(screen: Screen, found: Diagnosis) -> None:
    """What else it may be, what was set aside, and what was not seen."""
    verdict = found.verdict
    if verdict.runner_up is not None:
        screen.sentence("next best", verdict.runner_up.reason, "quiet")
    rows = [row for row in found.ignored if row.reason is not Reason.DIAGNOSTIC]
    for row in rows[:_MOST_IGNORED]:
        place = f"{row.hit.file}:{row.hit.line}" if row.hit.line is not None else row.hit.file
        times = f" and {row.count - 1} more" if row.count > 1 else ""
        said = f"{wordings.name(row.hit.symptom)} ({place}{times}): {_WHY_IGNORED[row.reason]}"
        screen.sentence("set aside", said, "quiet")
    if len(rows) > _MOST_IGNORED:
        screen.sentence("set aside", f"{len(rows) - _MOST_IGNORED} more: see --json", "quiet")
    for gap in verdict.gaps[:_MOST_GAPS]:
        screen.sentence("not seen", gap, "quiet")
    if len(verdict.gaps) > _MOST_GAPS:
        screen.sentence("not seen", f"{len(verdict.gaps) - _MOST_GAPS} more: see --json", "quiet")
    for what in would_help(found):
        screen.sentence("would help", what)
