"""What `relance evaluate` prints: scores of each folder and of all, and the cases whose answers are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relance.attribution.folds import Fold, folds_of
from relance.attribution.scores import CaseScore, Scores, scores_of
from relance.cli.evaluating import Evaluation
from relance.cli.screens import Screen
from relance.recovery import wordings

Data = dict[str, object]

_ALL = "all"


def report_of(found: Mapping[str, Evaluation], folds: int) -> Data:
    """Everything as JSON data; the same for the same cases."""
    every = _every(found)
    return {
        "scores": scores_of(every).figures,
        "calibration": _calibration(every),
        "folders": {name: scores_of(each.scored).figures for name, each in found.items()},
        "folds": [_fold(fold) for fold in folds_of(every, folds)],
        "wrong": [
            {"folder": name, **_wrong(case)} for name, each in found.items() for case in each.scored if _flaws(case)
        ],
        "unreadable": [
            {"folder": name, "case": broken.name, "why": broken.why}
            for name, each in found.items()
            for broken in each.unreadable
        ],
    }


def show(screen: Screen, found: Mapping[str, Evaluation], folds: int) -> None:
    """The scores as a table, the confidences, and what was wrong."""
    every = _every(found)
    rows = [(name, scores_of(each.scored)) for name, each in found.items()]
    rows += [(_ALL, scores_of(every))] if len(rows) > 1 else []
    screen.table(("measure", *(f"#{name}" for name, _ in rows)), _table([scores for _, scores in rows]), empty="")
    screen.line()
    screen.table(
        ("#confidence", "level", "#cases", "#right"),
        ((f"{row['confidence']:.2f}", *map(str, list(row.values())[1:])) for row in _calibration(every)),
        empty="no case could be scored",
    )
    told = folds_of(every, folds)
    if told:
        screen.line()
        screen.table(
            ("fold", "#cases", "#decision", "#domain", "#right", "#expected from the others"),
            (tuple(_shown(each) for each in _fold(fold).values()) for fold in told),
            empty="",
        )
    wrong = sum(bool(_flaws(case)) for case in every)
    if wrong:
        screen.line()
        screen.line(f"{wrong} of {wordings.count(len(every), 'answer')} differ from the label in something:")
    for name, each in found.items():
        for case in each.scored:
            if _flaws(case):
                screen.line()
                _show_wrong(screen, case.name if len(found) == 1 else f"{name}/{case.name}", case)
        for broken in each.unreadable:
            screen.line(f"{broken.name} cannot be read: {broken.why}", "bad")


def _every(found: Mapping[str, Evaluation]) -> tuple[CaseScore, ...]:
    return tuple(case for each in found.values() for case in each.scored)


def _fold(fold: Fold) -> dict[str, float]:
    return {
        "fold": fold.number,
        "cases": fold.cases,
        "decision": fold.decision,
        "domain": fold.domain,
        "right": fold.right,
        "expected": fold.expected,
    }


_ROWS: tuple[tuple[str, str], ...] = (
    ("cases", "cases"),
    ("decision", "decision"),
    ("domain", "domain"),
    ("suspect_recall", "suspects found"),
    ("suspect_precision", "suspects right"),
    ("first_evidence", "first evidence"),
    ("acted_on_healthy", "acted on healthy"),
    ("false_stops", "false stops"),
    ("hopeless_restarts", "hopeless restarts"),
)


def _table(scores: Sequence[Scores]) -> list[tuple[str, ...]]:
    return [(title, *(_shown(getattr(each, name)) for each in scores)) for name, title in _ROWS]


def _calibration(cases: Sequence[CaseScore]) -> list[Data]:
    """Each stated confidence, with how many answers had it and how many of those were right."""
    stated: dict[tuple[float, str], list[bool]] = {}
    for case in cases:
        stated.setdefault((case.answer.confidence, case.answer.level), []).append(case.right)
    return [
        {"confidence": confidence, "level": level, "cases": len(right), "right": sum(right)}
        for (confidence, level), right in sorted(stated.items())
    ]


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _flaws(case: CaseScore) -> list[str]:
    """In what an answer is wrong, in the words of the report."""
    label, named = case.label, case.answer.suspects
    wrong = {
        "decision": not case.decision_right,
        "domain": not case.domain_right,
        "suspects": not label.suspects <= named <= label.suspects | label.also_suspects,
        "first_evidence": case.evidence_right is False,
        "acted_on_healthy": case.acted_on_healthy,
        "false_stop": case.false_stop,
        "hopeless_restart": case.hopeless_restart,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def _wrong(case: CaseScore) -> Data:
    answer, label = case.answer, case.label
    return {
        "case": case.name,
        "wrong": _flaws(case),
        "expected": {
            "domain": label.domain,
            "decision": label.decision,
            "suspects": sorted(label.suspects),
            "first_evidence": None if label.file is None else {"file": label.file, "line": label.line},
            "also": {
                "domains": sorted(label.also_domains),
                "decisions": sorted(label.also_decisions),
                "suspects": sorted(label.also_suspects),
            },
        },
        "answered": {
            "domain": answer.domain,
            "decision": answer.decision,
            "cause": answer.cause,
            "suspects": sorted(answer.suspects),
            "first_evidence": None if answer.file is None else {"file": answer.file, "line": answer.line},
            "confidence": answer.confidence,
        },
    }


def _show_wrong(screen: Screen, name: str, case: CaseScore) -> None:
    """One wrong answer: what it says in each wrong thing, and what was expected."""
    answer, label, flaws = case.answer, case.label, _flaws(case)
    cost = next((flaw for flaw in flaws if flaw in ("acted_on_healthy", "false_stop", "hopeless_restart")), "")
    head = f"{name}: {wordings.name(answer.cause)}, said with {answer.confidence:.2f}"
    screen.line(f"{head}; {wordings.name(cost)}" if cost else head, "bad" if cost else "warn")
    pairs = {
        "decision": (answer.decision, _with_also(label.decision, label.also_decisions)),
        "domain": (answer.domain, _with_also(label.domain, label.also_domains)),
        "suspects": (_names(answer.suspects), _with_also(_names(label.suspects), label.also_suspects)),
        "first_evidence": (_place(answer.file, answer.line), _place(label.file, label.line)),
    }
    for flaw in flaws:
        if flaw in pairs:
            said, expected = pairs[flaw]
            screen.line(f"  {wordings.name(flaw)}: {said}; expected {expected}")


def _with_also(word: str, also: frozenset[str]) -> str:
    return " or ".join((word, *sorted(also)))


def _names(nodes: frozenset[str]) -> str:
    return ", ".join(sorted(nodes)) or "none"


def _place(file: str | None, line: int | None) -> str:
    return "none" if file is None else f"{file}:{line}"
