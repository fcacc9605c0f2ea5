"""Figure (e): how often advice and what people did were the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.faults import Remedy
from relance.domain.views import JobState
from relance.recovery.proving.hands import Case, Hand, requeued_by_scheduler
from relance.recovery.proving.values import MOST_LISTED, Agreement, AgreementRow, subject_of

LEFT_AFTER = timedelta(hours=24)
"""Work that nobody has restarted for so long was left."""
_TOLD = (Remedy.RESTART, Remedy.RESTART_EXCLUDING, Remedy.STOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    case: Case
    advised: Remedy
    hand: Hand | None

    @property
    def went_on(self) -> bool:
        """Whether the attempt by hand made a step beyond the highest before."""
        if self.hand is None or self.hand.attempt is None:
            return False
        after = self.hand.attempt
        steps = [after.highest_step, after.measure.last_step if after.measure else None]
        before, last = self.case.attempt.highest_step, max((step for step in steps if step is not None), default=None)
        same_job = after.attempt.job == self.case.record.job
        return (same_job and self.case.incident.beyond) or (before is not None and last is not None and last > before)


def agreement(cases: Iterable[Case], hands: Mapping[str, Hand], now: datetime) -> Agreement:
    """Our last word in each incident beside what people did.

    Only incidents count in which we said restart or stop, did not act, and the scheduler did not requeue by itself; nor
    one whose attempt completed all the same: there was nothing to decide.
    People agree with a restart when they make it, by requeue or copy, and with a stop when nobody has restarted the
    work a day after its end. A restart that follows a change of the code cannot be told from another.
    """
    pairs, not_yet = _pairs(cases, hands, now)
    rows = tuple(_row(remedy, [pair for pair in pairs if pair.advised is remedy]) for remedy in _TOLD)
    placed = [pair for pair in pairs if pair.case.incident.advised.exclude and pair.hand and pair.hand.attempt]
    again = [pair for pair in placed if _nodes_again(pair)]
    disproved = [pair for pair in pairs if pair.advised is Remedy.STOP and pair.went_on]
    return Agreement(
        rows=rows,
        compared=len(pairs),
        agreed=sum((pair.hand is not None) is pair.advised.restarts for pair in pairs),
        not_yet=not_yet,
        nodes_kept_out=sum(bool(pair.hand and pair.hand.attempt and pair.hand.attempt.nodes) for pair in placed)
        - len(again),
        nodes_used_again=len(again),
        nodes_failed_again=sum(_failed_again(pair) for pair in again),
        disproved_stops=tuple(
            subject_of(pair.case.record, pair.case.attempt.attempt) for pair in disproved[:MOST_LISTED]
        ),
    )


def _pairs(cases: Iterable[Case], hands: Mapping[str, Hand], now: datetime) -> tuple[list[_Pair], int]:
    pairs: list[_Pair] = []
    not_yet = 0
    for case in {case.attempt.attempt: case for case in cases}.values():
        advised = case.incident.advised.last
        if advised is None or case.incident.restarted_by_us or requeued_by_scheduler(case):
            continue
        if case.attempt.outcome is JobState.COMPLETED:
            continue
        hand = hands.get(case.incident.id)
        if hand is not None:
            pairs.append(_Pair(case=case, advised=advised, hand=hand))
        elif case.ended_at is not None and now - case.ended_at >= LEFT_AFTER:
            pairs.append(_Pair(case=case, advised=advised, hand=None))
        else:
            not_yet += 1
    return pairs, not_yet


def _row(advised: Remedy, pairs: list[_Pair]) -> AgreementRow:
    return AgreementRow(
        advised=advised,
        restarted=sum(pair.hand is not None for pair in pairs),
        left=sum(pair.hand is None for pair in pairs),
        went_on=sum(pair.went_on for pair in pairs),
    )


def _nodes_again(pair: _Pair) -> bool:
    used = pair.hand.attempt.nodes if pair.hand and pair.hand.attempt else ()
    return not set(used).isdisjoint(pair.case.incident.advised.exclude)


def _failed_again(pair: _Pair) -> bool:
    outcome = pair.hand.attempt.outcome if pair.hand and pair.hand.attempt else None
    return outcome is not None and outcome.is_failure
