"""Ranks that joined the same collective with something else: another operation, other sizes, another type of data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from relance.traces.collectives import Group, Job
from relance.traces.dumps import Work

_SAME_SIZE = frozenset({
    "all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_allgather_base", "all_gather_into_tensor",
    "_reduce_scatter_base", "reduce_scatter_tensor", "barrier",
})  # fmt: skip
"""Operations in which every rank must give equally much; in others, such as all_to_all, ranks differ by design."""
_MOST_LOOKED_AT = 64
"""Collectives of a group that are compared: the first that differs is the one that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One collective that ranks joined differently. `odd` are the ranks in the minority, none if there is no majority.

    `what` is `operation`, `size` or `type of data`; `usual` and `other` are two of the values.
    """

    group: str
    seq: int
    op: str
    what: str
    odd: tuple[int, ...]
    usual: str
    other: str
    began_ns: int | None


def mismatches_of(job: Job) -> tuple[Mismatch, ...]:
    """The first mismatch of each group, among collectives that are not complete on every rank."""
    found = (_first(group) for _, group in sorted(job.groups.items()))
    return tuple(each for each in found if each is not None)


def _first(group: Group) -> Mismatch | None:
    joined: dict[int, dict[int, tuple[Work, ...]]] = defaultdict(dict)
    for rank, position in group.positions.items():
        for seq, works in position.works.items():
            # the oldest that a full buffer still holds may have lost a part of a coalesced operation
            if seq > min(position.works) or len(works) == 1:
                joined[seq][rank] = works
    open_ones = sorted(
        seq
        for seq, by_rank in joined.items()
        if len(by_rank) > 1 and not all(work.is_done for works in by_rank.values() for work in works)
    )
    for seq in open_ones[:_MOST_LOOKED_AT]:
        found = _compared(group.key, seq, joined[seq])
        if found is not None:
            return found
    return None


def _compared(group: str, seq: int, joined: Mapping[int, tuple[Work, ...]]) -> Mismatch | None:
    ways: tuple[tuple[str, Callable[[tuple[Work, ...]], str]], ...] = (
        ("operation", _ops),
        ("size", _size),
        ("type of data", _dtypes),
    )
    for what, told in ways:
        values = {rank: value for rank, works in joined.items() if (value := told(works))}
        counts = Counter(values.values()).most_common()
        if len(counts) < 2:  # noqa: PLR2004 - one value is agreement
            continue
        clear = counts[0][1] > counts[1][1]
        odd = tuple(sorted(rank for rank, value in values.items() if clear and value != counts[0][0]))
        first = min(joined)
        return Mismatch(
            group=group,
            seq=seq,
            op=joined[first][0].op,
            what=what,
            odd=odd,
            usual=counts[0][0],
            other=counts[1][0],
            began_ns=min(
                (work.created_ns for works in joined.values() for work in works if work.created_ns), default=None
            ),
        )
    return None


def _ops(works: tuple[Work, ...]) -> str:
    return " + ".join(dict.fromkeys(work.op for work in works))


def _size(works: tuple[Work, ...]) -> str:
    """What goes in, in elements; nothing where ranks may differ or the dump does not tell."""
    if any(work.op not in _SAME_SIZE or not work.shape or not work.shape[0] for work in works):
        return ""
    return f"{sum(prod(tensor) for work in works for tensor in work.shape[0])} elements"


def _dtypes(works: tuple[Work, ...]) -> str:
    return ", ".join(sorted({dtype for work in works for dtype in work.dtypes}))
