"""Which ranks are late: sums of how far each is behind its groups, as a ranking with a margin (attribution.md 3.3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from relance.traces.collectives import Group, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Ranks that are behind, the latest first, in completed collectives. `margin` is the gap to the next rank."""

    ranks: tuple[int, ...]
    most: int
    margin: int
    next_lag: int

    @property
    def share(self) -> float:
        """The margin as a part of the last suspect's own lag, from 0 to 1."""
        return self.margin / (self.margin + self.next_lag)


def lag_of(job: Job) -> Lag | None:
    """The ranks before the largest gap in the sums over groups of (group's most completed - own completed).

    None if nobody is behind, or if half of the ranks or more are: a crowd is not late.
    """
    sums: Counter[int] = Counter(dict.fromkeys(job.dumps, 0))
    for group in job.groups.values():
        if _compares(group):
            most = max(each.completed for each in group.positions.values())
            for rank, each in group.positions.items():
                sums[rank] += most - each.completed
    order = sorted(sums, key=lambda rank: (-sums[rank], rank))
    gaps = [(sums[first] - sums[second], -at) for at, (first, second) in enumerate(pairwise(order))]
    gap, at = max(gaps[: max(1, (len(order) - 1) // 2)], default=(0, 0))
    if gap <= 0:
        return None
    chosen = tuple(order[: 1 - at])
    return Lag(ranks=chosen, most=sums[chosen[0]], margin=gap, next_lag=sums[order[1 - at]])


def _compares(group: Group) -> bool:
    """Whether counters of a group can be compared.

    Nobody completes a collective that a member has not called. Where counters say so all the same, they count sends
    and receives, which differ from stage to stage of a pipeline.
    """
    if group.mixed or len(group.positions) < 2:  # noqa: PLR2004 - one rank has nobody to be compared with
        return False
    most = max(each.completed for each in group.positions.values())
    return all(most <= each.called for each in group.positions.values())
