"""Labelled cases on disk, diagnosed one after another with one scanner, and held against their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from relance.attribution.scores import Answer, CaseScore, Label, LabelError, label_of
from relance.cli.corpora import EXPECTED, cases_below
from relance.cli.diagnosing import Diagnosis, Means, NothingToReadError, diagnosis_of
from relance.cli.evidence_files import YamlFileError, context_beside, files_of, read_yaml
from relance.cli.failures import FailureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A case that could not be scored, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The cases of one folder, in the order of their names."""

    scored: tuple[CaseScore, ...]
    unreadable: tuple[Unreadable, ...] = ()


def found_below(folders: Iterable[Path]) -> Mapping[Path, tuple[Path, ...]]:
    """The cases of each folder; one that is in several counts in the first."""
    seen: set[Path] = set()
    found: dict[Path, tuple[Path, ...]] = {}
    for folder in folders:
        cases = tuple(case for case in cases_below(folder) if case.resolve() not in seen)
        seen |= {case.resolve() for case in cases}
        found[folder] = (*found.get(folder, ()), *cases)
    return found


def evaluation_of(
    folder: Path, cases: Iterable[Path], means: Means, now: datetime, told: Callable[[str], None] = lambda _: None
) -> Evaluation:
    """Diagnose the cases of a folder. `now` is as for a diagnosis; `told` hears of each case before it is read."""
    scored: list[CaseScore] = []
    unreadable: list[Unreadable] = []
    for case in cases:
        name = str(case.relative_to(folder)) if case != folder else case.resolve().name
        told(name)
        try:
            scored.append(CaseScore(name=name, label=_label(case), answer=_answer(_diagnosis(case, means, now))))
        except _BROKEN as error:
            unreadable.append(Unreadable(name=name, why=_why(error)))
    return Evaluation(scored=tuple(scored), unreadable=tuple(unreadable))


class _NoLabelError(ValueError):
    """A label cannot be used."""


_BROKEN = (_NoLabelError, FailureError, NothingToReadError, OSError)


def _label(case: Path) -> Label:
    try:
        return label_of(read_yaml(case / EXPECTED))
    except (YamlFileError, LabelError) as error:
        message = f"{EXPECTED}: {error}"
        raise _NoLabelError(message) from error


def _diagnosis(case: Path, means: Means, now: datetime) -> Diagnosis:
    given, _ = context_beside((case,))
    return diagnosis_of(files_of((case,), frozenset({case / EXPECTED})), given, means, now)


def _answer(found: Diagnosis) -> Answer:
    verdict = found.verdict
    first = verdict.evidence[0] if verdict.evidence else None
    return Answer(
        domain=verdict.domain.value,
        decision=verdict.remedy.value,
        cause=verdict.cause,
        confidence=verdict.confidence,
        suspects=frozenset(suspect.node for suspect in verdict.to_leave_out),
        file=first.file if first is not None else None,
        line=first.line if first is not None else None,
        level=verdict.basis.level if verdict.basis is not None else "",
    )


def _why(error: Exception) -> str:
    if isinstance(error, FailureError):
        return error.message
    if isinstance(error, OSError):
        return f"cannot read {error.filename}: {error.strerror}"
    return str(error) or "there is no log to read"
