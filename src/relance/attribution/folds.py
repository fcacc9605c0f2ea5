"""Folds: whether a stated confidence keeps its word on cases that had no say in what it should mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relance.attribution.scores import CaseScore


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One part of the cases, held against the others.

    `expected` is the share of right answers that the other folds' record of the same stated confidences promises,
    `right` the share that there was. Both from 0 to 1; right means domain and decision.
    """

    number: int
    cases: int
    decision: float
    domain: float
    right: float
    expected: float


def folds_of(cases: Sequence[CaseScore], number: int) -> tuple[Fold, ...]:
    """Cases in so many folds, dealt out in the order of their names; none where there are fewer cases than folds."""
    ordered = sorted(cases, key=lambda case: case.name)
    if number < 2 or len(ordered) < number:  # noqa: PLR2004 - one fold has no others to be held against
        return ()
    return tuple(
        _fold(at + 1, ordered[at::number], [case for place, case in enumerate(ordered) if place % number != at])
        for at in range(number)
    )


def _fold(number: int, held_out: Sequence[CaseScore], others: Sequence[CaseScore]) -> Fold:
    return Fold(
        number=number,
        cases=len(held_out),
        decision=_share(case.decision_right for case in held_out),
        domain=_share(case.domain_right for case in held_out),
        right=_share(case.right for case in held_out),
        expected=round(sum(_promise(case, others) for case in held_out) / len(held_out), 4),
    )


def _promise(case: CaseScore, others: Sequence[CaseScore]) -> float:
    """How often the others were right at this case's confidence; at any, where none of them had it."""
    alike = [other.right for other in others if level_of(other) == level_of(case)]
    return _share(alike or [other.right for other in others])


def level_of(case: CaseScore) -> str:
    """The stated confidence, and the level that it stands for where it has a name."""
    return f"{case.answer.confidence:.2f} {case.answer.level}".rstrip()


def _share(answers: Iterable[bool]) -> float:
    given = list(answers)
    return round(sum(given) / len(given), 4)
