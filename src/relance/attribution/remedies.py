"""From a cause to a remedy: the pack's restart column, and what repeats make of it (design 7, signatures.md 20.9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relance.attribution.explanations import Explanation, Trust
from relance.domain.faults import FaultDomain, Remedy, RestartHint
from relance.domain.verdicts import CaseFile, EarlierAttempt, Strength, Suspect

ONCE = 1
"""One try to confirm; stop on the second time without progress."""
UNKNOWN = 2
"""Stop on the third time without progress."""
_TIMES = 3
"""The same fingerprint so many times without progress: stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescription:
    """A remedy, why, and how many restarts without progress it allows (None: the site's limit)."""

    remedy: Remedy
    reason: str
    limit: int | None = None
    confirmable: bool = False


def prescribe(explanation: Explanation, fingerprint: str, case: CaseFile) -> Prescription:
    """What would help."""
    first = _of_shaken_fabric(explanation, case) or _by_hint(explanation)
    if first.confirmable:
        return _confirmed(first, _times_before(fingerprint, case.earlier, explanation), fingerprint, case)
    if first.remedy not in (Remedy.RESTART, Remedy.RESTART_EXCLUDING):
        return first
    times = _times_before(fingerprint, case.earlier, explanation)
    known_again = any(suspect.node in _kept_out_before(case) for suspect in explanation.suspects)
    fresh_node = first.remedy is Remedy.RESTART_EXCLUDING and not known_again
    if times + 1 >= _TIMES and not fresh_node:
        reason = f"the same fault for the {_ordinal(times + 1)} time without progress"
        return Prescription(remedy=Remedy.STOP, reason=reason)
    if first.limit == ONCE and times >= ONCE and _none_progressed(fingerprint, case.earlier):
        return Prescription(remedy=Remedy.STOP, reason="the try to confirm it ended the same way, without progress")
    return first


def _of_shaken_fabric(item: Explanation, case: CaseFile) -> Prescription | None:
    """A switch that shook all nodes of one job alike is back when the next attempt begins, as a rule.

    Where other owners' jobs have it too it is not over.
    """
    others = any(sign.domain is FaultDomain.INTERCONNECT for sign in case.fleet)
    if not item.shared or others or item.domain is not FaultDomain.INTERCONNECT or item.hint is not RestartHint.EXCLUDE:
        return None
    return Prescription(remedy=Remedy.RESTART, reason="the network failed all nodes alike, so that none is to blame")


def _confirmed(first: Prescription, times: int, fingerprint: str, case: CaseFile) -> Prescription:
    """The stop as it is, or beyond doubt when the same fault has come again."""
    again = times >= ONCE and _none_progressed(fingerprint, case.earlier)
    if times + 1 < _TIMES and not again:
        return first
    reason = f"the same fault for the {_ordinal(times + 1)} time without progress"
    return replace(first, confirmable=False, limit=None, reason=reason)


def counts_now(suspect: Suspect) -> bool:
    """Whether a suspicion is enough to exclude: hard evidence, or weak evidence at its second time."""
    return suspect.strength is Strength.HARD or bool(suspect.before)


def _by_hint(item: Explanation) -> Prescription:
    if item.trust is Trust.INTENT:
        return _of_intent(item)
    if item.shared and item.hint in (RestartHint.EXCLUDE, RestartHint.WAIT):
        return Prescription(remedy=Remedy.WAIT, reason="a shared service has to come back first")
    excluding = any(counts_now(suspect) for suspect in item.suspects)
    match item.hint:
        case RestartHint.NO:
            reason = "it fails again until somebody changes something"
            limit = ONCE if item.confirmable else None
            return Prescription(remedy=Remedy.STOP, reason=reason, limit=limit, confirmable=item.confirmable)
        case RestartHint.WAIT:
            return Prescription(remedy=Remedy.WAIT, reason="it helps only once the condition has cleared")
        case RestartHint.SCHEDULER:
            return Prescription(remedy=Remedy.NONE, reason="the scheduler or a person has decided")
        case RestartHint.NOTHING:
            reason = "the cause is not known; one more try does little harm"
            return Prescription(remedy=_restart(excluding=excluding), reason=reason, limit=UNKNOWN)
        case RestartHint.ONCE:
            reason = "one try tells a passing fault from a lasting one"
            return Prescription(remedy=_restart(excluding=excluding), reason=reason, limit=ONCE)
        case RestartHint.EXCLUDE | RestartHint.OK:
            return _of_nodes(item, excluding=excluding)


def _of_nodes(item: Explanation, *, excluding: bool) -> Prescription:
    limit = UNKNOWN if item.domain is FaultDomain.UNKNOWN else None
    if excluding:
        names = ", ".join(suspect.node for suspect in item.suspects if counts_now(suspect))
        return Prescription(remedy=Remedy.RESTART_EXCLUDING, reason=f"it runs on without {names}", limit=limit)
    if item.suspects:
        names = ", ".join(suspect.node for suspect in item.suspects)
        reason = f"the evidence against {names} is weak: excluded only at the second time"
        return Prescription(remedy=Remedy.RESTART, reason=reason, limit=limit)
    if item.hint is RestartHint.EXCLUDE:
        return Prescription(remedy=Remedy.RESTART, reason="no node could be named to go without", limit=limit)
    return Prescription(remedy=Remedy.RESTART, reason="such faults pass with a restart", limit=limit)


def _of_intent(item: Explanation) -> Prescription:
    if item.domain is FaultDomain.NONE:
        return Prescription(remedy=Remedy.NONE, reason="nothing is wrong")
    return Prescription(remedy=Remedy.NONE, reason="the scheduler or a person has decided")


def _restart(*, excluding: bool) -> Remedy:
    return Remedy.RESTART_EXCLUDING if excluding else Remedy.RESTART


def _times_before(fingerprint: str, earlier: tuple[EarlierAttempt, ...], item: Explanation) -> int:
    """How often this fault ended the latest attempts, back to the last one that made progress.

    Unknown progress is not "no progress"; only a fault of the job's own code counts all the same, because the same
    line of the same program gives little hope.
    """
    times = 0
    for attempt in reversed(earlier):
        if attempt.made_progress:
            break
        counts = attempt.made_progress is False or item.is_own
        times += counts and attempt.fingerprint == fingerprint
    return times


def _none_progressed(fingerprint: str, earlier: tuple[EarlierAttempt, ...]) -> bool:
    last = next((item for item in reversed(earlier) if item.fingerprint == fingerprint), None)
    return last is not None and last.made_progress is False


def _kept_out_before(case: CaseFile) -> frozenset[str]:
    """The nodes that were suspects of attempts after which we started the job again, so without them."""
    return frozenset(suspect.node for item in case.earlier if item.restarted_by_us for suspect in item.suspects)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
