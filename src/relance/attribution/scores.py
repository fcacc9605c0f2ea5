"""Scores: how often answers on labelled cases are right, and how costly the wrong ones are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum

from relance.domain.faults import FaultDomain, Remedy

_LINES = 2
"""First evidence this many lines from the label's is the same place."""
_RESTARTS = ("restart", "restart_excluding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is known to be right about one case; the `also_` fields hold answers that are right, too."""

    domain: str
    decision: str
    suspects: frozenset[str] = frozenset()
    file: str | None = None
    line: int | None = None
    also_domains: frozenset[str] = frozenset()
    also_decisions: frozenset[str] = frozenset()
    also_suspects: frozenset[str] = frozenset()


class LabelError(ValueError):
    """A label cannot be used. Says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered on one case."""

    domain: str
    decision: str
    cause: str
    confidence: float
    suspects: frozenset[str] = frozenset()
    file: str | None = None
    line: int | None = None
    level: str = ""
    """The level of confidence by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseScore:
    """How one answer compares with its label."""

    name: str
    label: Label
    answer: Answer

    @property
    def domain_right(self) -> bool:
        """The label's domain, or one that is right, too."""
        return self.answer.domain in {self.label.domain, *self.label.also_domains}

    @property
    def decision_right(self) -> bool:
        """The label's decision, or one that is right, too."""
        return self.answer.decision in {self.label.decision, *self.label.also_decisions}

    @property
    def right(self) -> bool:
        """Domain and decision: what the confidence is about."""
        return self.domain_right and self.decision_right

    @property
    def evidence_right(self) -> bool | None:
        """Whether the first evidence is the label's; None where the label has none."""
        if self.label.file is None or self.label.line is None:
            return None
        near = self.answer.line is not None and abs(self.answer.line - self.label.line) <= _LINES
        return self.answer.file == self.label.file and near

    @property
    def acted_on_healthy(self) -> bool:
        """A restart or a stop of what was sound: the costliest mistake."""
        return self.label.domain == "none" and self.answer.decision in (*_RESTARTS, "stop") and not self.decision_right

    @property
    def false_stop(self) -> bool:
        """A stop where another try would have helped."""
        return self.answer.decision == "stop" and not self.decision_right and not self.acted_on_healthy

    @property
    def hopeless_restart(self) -> bool:
        """A restart where another try was no use."""
        return self.answer.decision in _RESTARTS and self.label.decision == "stop" and not self.decision_right


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Shares from 0 to 1 over cases; None where no case bears on it. Counts are numbers of cases."""

    cases: int
    decision: float | None
    domain: float | None
    suspect_recall: float | None
    suspect_precision: float | None
    first_evidence: float | None
    acted_on_healthy: int
    false_stops: int
    hopeless_restarts: int
    calibration: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For each stated confidence the number of answers, and how many of them were right in domain and decision."""

    @property
    def figures(self) -> dict[str, float | int | None]:
        """All but the calibration, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "calibration"}


def label_of(data: object) -> Label:
    """The label that an `expected.yaml` holds. Raises LabelError."""
    if not isinstance(data, Mapping):
        message = "a mapping with domain and decision is wanted"
        raise LabelError(message)
    evidence = data.get("first_evidence") or {}
    also = data.get("also") or {}
    if not isinstance(evidence, Mapping) or not isinstance(also, Mapping):
        message = "first_evidence and also have to be mappings"
        raise LabelError(message)
    file, line = evidence.get("file"), evidence.get("line")
    return Label(
        domain=_one_of(FaultDomain, _word(data, "domain"), "domain"),
        decision=_one_of(Remedy, _word(data, "decision"), "decision"),
        suspects=_names(data.get("suspects"), "suspects"),
        file=str(file) if file is not None else None,
        line=line if isinstance(line, int) else None,
        also_domains=_names(also.get("domains"), "also.domains"),
        also_decisions=_names(also.get("decisions"), "also.decisions"),
        also_suspects=_names(also.get("suspects"), "also.suspects"),
    )


def _one_of(words: type[Enum], word: str, name: str) -> str:
    """A word that an answer can be, too: one that is misspelt would make every answer a wrong one."""
    known = [each.value for each in words]
    if word not in known:
        message = f"{name}: {word!r} is none of {', '.join(known)}"
        raise LabelError(message)
    return word


def scores_of(cases: Sequence[CaseScore]) -> Scores:
    """The scores over cases."""
    evidence = [found for case in cases if (found := case.evidence_right) is not None]
    named = [(case, node) for case in cases for node in case.answer.suspects]
    wanted = [(case, node) for case in cases for node in case.label.suspects]
    calibration: dict[str, tuple[int, int]] = {}
    for case in cases:
        key = f"{case.answer.confidence:.2f}"
        count, right = calibration.get(key, (0, 0))
        calibration[key] = (count + 1, right + case.right)
    return Scores(
        cases=len(cases),
        decision=_share(case.decision_right for case in cases),
        domain=_share(case.domain_right for case in cases),
        suspect_recall=_share(node in case.answer.suspects for case, node in wanted),
        suspect_precision=_share(node in case.label.suspects | case.label.also_suspects for case, node in named),
        first_evidence=_share(evidence),
        acted_on_healthy=sum(case.acted_on_healthy for case in cases),
        false_stops=sum(case.false_stop for case in cases),
        hopeless_restarts=sum(case.hopeless_restart for case in cases),
        calibration=dict(sorted(calibration.items())),
    )


def _share(answers: Iterable[bool]) -> float | None:
    given = list(answers)
    return round(sum(given) / len(given), 4) if given else None


def _word(data: Mapping[object, object], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        message = f"{key}: a word is wanted"
        raise LabelError(message)
    return value


def _names(value: object, key: str) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(name, str | int) for name in value):
        message = f"{key}: a list of words is wanted"
        raise LabelError(message)
    return frozenset(str(name) for name in value)
