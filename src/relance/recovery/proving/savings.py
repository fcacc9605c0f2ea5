"""Figure (b): time saved against later restarts by hand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from relance.recovery.figures import Spread, spread
from relance.recovery.proving.hands import Case, Hand
from relance.recovery.proving.values import MOST_LISTED, Saving, Savings, subject_of

ENOUGH_HANDS = 5
"""From this many restarts by hand on, their median is taken for what a person would have needed."""
_HOUR_S = 3600.0


def savings(cases: Iterable[Case], hands: Mapping[str, Hand]) -> Savings:
    """What our restarts would have saved, and what those that we carried out may have.

    In observe, for each incident in which an advice asked for a restart and a person made it:

        saved = max(0, time of the person's requeue or resubmission - time of our first such advice that might begin)

    node-hours = saved x nodes of the job; GPU-hours = saved x its GPUs, where they are known. It is time by which the
    work would have gone on sooner, not time in which nodes stood idle: others may have used them.

    In act nobody's hand is there to compare with. The estimate is, over our restarts,

        max(0, median of (person's restart - end of the attempt) - median of (acceptance of ours - end)) x their number

    with the hands of the same report; None with fewer than 5 hands or without a restart of ours.
    """
    every = tuple(cases)
    made = [item for case in every if (item := _saving(case, hands.get(case.incident.id))) is not None]
    waits = [_seconds(case.ended_at, hands[case.incident.id].at) for case in every if case.incident.id in hands]
    acts = [
        _seconds(case.ended_at, case.incident.times.act.at)
        for case in every
        if case.incident.restarted_by_us and case.incident.times.act is not None
    ]
    by_hand, by_us = spread(waits), spread(acts)
    made.sort(key=lambda item: item.saved_s * item.node_count, reverse=True)
    return Savings(
        restarts_by_hand=len(made),
        person_first=sum(item.hand_at <= item.advised_at for item in made),
        saved=spread(item.saved_s for item in made),
        hours=sum(item.saved_s for item in made) / _HOUR_S,
        node_hours=sum(item.saved_s * item.node_count for item in made) / _HOUR_S,
        gpu_hours=sum(item.saved_s * (item.gpu_count or 0) for item in made) / _HOUR_S,
        gpus_not_known=sum(item.gpu_count is None for item in made),
        hands=by_hand,
        ours=by_us,
        estimate_hours=_estimate(by_hand, by_us),
        listed=tuple(made[:MOST_LISTED]),
    )


def _saving(case: Case, hand: Hand | None) -> Saving | None:
    advised_at = case.incident.advised.restart_at
    if hand is None or advised_at is None or case.incident.restarted_by_us:
        return None
    return Saving(
        subject=subject_of(case.record, case.attempt.attempt),
        incident_id=case.incident.id,
        advised_at=advised_at,
        hand_at=hand.at,
        how=hand.how,
        saved_s=max(0.0, (hand.at - advised_at).total_seconds()),
        node_count=len(case.attempt.nodes) or case.record.node_count,
        gpu_count=case.attempt.gpu_count,
    )


def _seconds(earlier: datetime | None, later: datetime) -> float | None:
    return None if earlier is None else max(0.0, (later - earlier).total_seconds())


def _estimate(by_hand: Spread, by_us: Spread) -> float | None:
    if by_hand.median_s is None or by_us.median_s is None or by_hand.count < ENOUGH_HANDS:
        return None
    return max(0.0, by_hand.median_s - by_us.median_s) * by_us.count / _HOUR_S
