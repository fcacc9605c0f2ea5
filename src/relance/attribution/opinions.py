"""What the opinions of outside providers make of a verdict: more evidence, never another decision.

Whatever they say, the remedy stays the one that we found alone; only a node that our own weak evidence names, too, may
come to be left out. A stop is never made and never unmade, and a node that we do not suspect is never left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relance.attribution.levels import LEVELS, Level
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.verdicts import Opinion, RunnerUp, Strength, Suspect, Verdict

_POINTS_AT_MOST = 4
"""An opinion that names more nodes than this points at none of them."""
_SAID_CHARS = 300
"""So much of a provider's own words stands in the runner-up; the opinion has them all."""
_NO_FAULT_OF_A_NODE = frozenset({FaultDomain.APPLICATION, FaultDomain.USER, FaultDomain.SCHEDULER, FaultDomain.NONE})
"""Where a provider sees the fault there, the nodes that it names are where it showed."""
_AGREES, _DIFFERS = "agrees", "sees it otherwise"


def with_opinions(verdict: Verdict, opinions: Iterable[Opinion]) -> Verdict:
    """The verdict with opinions weighed and kept beside it; late ones are kept alone. Their order does not matter."""
    every = tuple(sorted(opinions, key=lambda item: (item.provider, item.at)))
    counted = tuple(item for item in every if not item.late)
    suspects = tuple(_seconded(suspect, counted) for suspect in verdict.suspects)
    remedy, reason = _remedy(verdict, suspects, counted)
    surer = _surer(verdict, counted)
    return replace(
        verdict,
        remedy=remedy,
        remedy_reason=reason,
        confidence=surer.stated if surer is not None else verdict.confidence,
        basis=surer.basis if surer is not None else verdict.basis,
        suspects=suspects,
        runner_up=_runner_up(verdict, counted),
        opinions=tuple(item if item.late else replace(item, effect=_effect(verdict, item)) for item in every),
    )


def contradicts(verdict: Verdict, opinion: Opinion) -> bool:
    """Whether an opinion gives another domain, or another answer to the question of another try."""
    if opinion.domain not in (FaultDomain.UNKNOWN, verdict.domain):
        return True
    return opinion.remedy is not None and not _go_together(verdict.remedy, opinion.remedy)


def agrees(verdict: Verdict, opinion: Opinion) -> bool:
    """Whether an opinion says the same of the domain, or where it names none, of another try."""
    if contradicts(verdict, opinion) or verdict.domain is FaultDomain.UNKNOWN:
        return False
    return opinion.domain is verdict.domain or _same_kind(verdict.remedy, opinion.remedy)


def _go_together(ours: Remedy, theirs: Remedy) -> bool:
    patient = {Remedy.WAIT, Remedy.RESTART, Remedy.RESTART_EXCLUDING}
    return _same_kind(ours, theirs) or {ours, theirs} <= patient


def _same_kind(ours: Remedy, theirs: Remedy | None) -> bool:
    return theirs is ours or (theirs is not None and theirs.restarts and ours.restarts)


def _effect(verdict: Verdict, opinion: Opinion) -> str:
    names = [item.node for item in verdict.suspects if _is_seconded(item, opinion)]
    said = [f"names {', '.join(names)} too" if names else ""]
    said.append(_DIFFERS if contradicts(verdict, opinion) else _AGREES if agrees(verdict, opinion) else "")
    return ", ".join(part for part in said if part)


def _is_seconded(suspect: Suspect, opinion: Opinion) -> bool:
    points = len(opinion.suspects) <= _POINTS_AT_MOST and opinion.domain not in _NO_FAULT_OF_A_NODE
    return points and suspect.strength is Strength.WEAK and suspect.node in opinion.suspects


def _seconded(suspect: Suspect, opinions: tuple[Opinion, ...]) -> Suspect:
    """A weak suspect with each opinion that names it as one more time that it was suspected."""
    by = [item for item in opinions if _is_seconded(suspect, item)]
    if not by:
        return suspect
    names = ", ".join(dict.fromkeys(item.provider for item in by))
    return replace(
        suspect,
        reason=f"{suspect.reason}; {names} names it too",
        before=tuple(sorted({*suspect.before, *(item.at for item in by)})),
    )


def _remedy(verdict: Verdict, suspects: tuple[Suspect, ...], opinions: tuple[Opinion, ...]) -> tuple[Remedy, str]:
    """Ours; a restart goes without those of our weak suspects that an opinion names, too."""
    named = [
        suspect.node
        for suspect in suspects
        if any(_is_seconded(suspect, item) for item in opinions)
    ]  # fmt: skip
    if verdict.remedy is not Remedy.RESTART or not named:
        return verdict.remedy, verdict.remedy_reason
    by = ", ".join(sorted({item.provider for item in opinions if set(item.suspects) & set(named)}))
    return Remedy.RESTART_EXCLUDING, f"it runs on without {', '.join(named)}, which {by} names as our own evidence does"


def _surer(verdict: Verdict, opinions: tuple[Opinion, ...]) -> Level | None:
    """The next higher level that agreement is worth, however many agree; None where there is none, or not only that."""
    if not any(agrees(verdict, item) for item in opinions) or any(contradicts(verdict, item) for item in opinions):
        return None
    return min(
        (level for level in LEVELS if level.stated > verdict.confidence), key=lambda level: level.stated, default=None
    )


def _runner_up(verdict: Verdict, opinions: tuple[Opinion, ...]) -> RunnerUp | None:
    """The first opinion that contradicts; what we had ourselves as the next best is told with it."""
    other = next((item for item in opinions if contradicts(verdict, item)), None)
    if other is None:
        return verdict.runner_up
    remedy = f" and would {_PHRASES[other.remedy]}" if other.remedy is not None else ""
    domain = "another cause" if other.domain is FaultDomain.UNKNOWN else other.domain.value
    said = f"{other.provider} sees {domain}{remedy}" + (f": {other.text[:_SAID_CHARS]}" if other.text else "")
    ours = f"; our own next best: {verdict.runner_up.reason}" if verdict.runner_up is not None else ""
    return RunnerUp(domain=other.domain, cause=other.cause or "outside_opinion", reason=f"{said}{ours}")


_PHRASES = {
    Remedy.RESTART: "restart",
    Remedy.RESTART_EXCLUDING: "restart without some nodes",
    Remedy.STOP: "stop",
    Remedy.WAIT: "wait",
    Remedy.NONE: "leave it alone",
}
