"""Labelled cases: how often `relance diagnose` is right. Of held-out cases only figures are shown, never which."""

from __future__ import annotations

import os
from pathlib import Path

from bench.measures import Limit, Result
from relance.attribution.scores import Scores, scores_of
from relance.cli.diagnosing import Means, means_of
from relance.cli.evaluating import Evaluation, evaluation_of, found_below
from relance.ports.clocks import SystemClock

_CASES = Path(__file__).resolve().parents[2] / "cases"
_GIVEN = "RELANCE_BENCH_CASES"
"""The folder of one more set, whose cases are not of this repository."""
_TUNED = ("given", "open")
"""The sets that rules are made with; the others only measure."""
_LEAST_OPEN = {
    "decision": 0.97,
    "domain": 0.95,
    "suspect_recall": 0.95,
    "suspect_precision": 0.95,
    "first_evidence": 0.85,
}
"""The share that has to be right where everybody may look."""
_LEAST_HELD_OUT = {"decision": 0.93, "domain": 0.90}
"""The same on cases that nobody tunes for."""
_NEVER = ("acted_on_healthy", "false_stops")
_WORDS = {"suspect_recall": "suspects found", "suspect_precision": "suspects right", "first_evidence": "first evidence"}
_QUICK = 10


def measure(*, quick: bool) -> Result:
    """Diagnose all cases of the repository and hold the answers against their labels."""
    means = means_of(None)
    found = {name: _evaluated(folder, means, quick=quick) for name, folder in _sets().items()}
    scores = {name: scores_of(each.scored) for name, each in found.items()}
    return Result(
        name="evaluate_cases",
        measure="labelled cases: how often `relance diagnose` is right",
        limits=tuple(limit for name, each in scores.items() for limit in _limits(name, each)),
        figures={name: each.figures for name, each in scores.items()},
        wrong=tuple(
            f"{name}: {broken.name} cannot be read: {broken.why}"
            for name, each in found.items()
            for broken in each.unreadable
        ),
        conditions=(
            "the cases of the folder cases/ with the shipped rules and no settings, and as `given` those of "
            "$RELANCE_BENCH_CASES; an answer is right if it is the label's or one that the label allows, too; the bars "
            "of sets other than open and given are for cases that no rule or weight was made for: what each of them "
            "had when first scored is in cases/README.md"
        ),
    )


def _sets() -> dict[str, Path]:
    """The sets of cases that there are by their names, those that tune first."""
    own = {folder.name: folder for folder in _CASES.iterdir() if folder.is_dir()}
    given = os.environ.get(_GIVEN)
    every = {**own, **({"given": Path(given)} if given else {})}
    return dict(sorted(every.items(), key=lambda item: (item[0] not in _TUNED, item[0])))


def _evaluated(folder: Path, means: Means, *, quick: bool) -> Evaluation:
    cases = found_below([folder])[folder]
    return evaluation_of(folder, cases[:_QUICK] if quick else cases, means, SystemClock().now())


def _limits(name: str, scores: Scores) -> list[Limit]:
    least = _LEAST_OPEN if name in _TUNED else _LEAST_HELD_OUT
    limits = [
        Limit(name=f"{name}: {_WORDS.get(part, part)}", value=getattr(scores, part), most=share, unit="", is_least=True)
        for part, share in least.items()
    ]
    return limits + [
        Limit(name=f"{name}: {part.replace('_', ' ')}", value=getattr(scores, part), most=0, unit="cases")
        for part in _NEVER
    ]
