"""Who waits for whom: from the oldest outstanding operation of each rank to the ranks that hold it up.

A rank waits for members that have not joined its operation, and for members that joined but are held up by an older
operation of their own. Where this leads to a rank that waits for nobody, the chain ends: it is idle, has no dump, is
behind the others in an operation that they completed, or stands in an operation that all joined. A chain that leads
only in circles means that ranks called their operations in different orders. The graph has no first rank, so it makes
no difference which rank is the culprit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from relance.traces.collectives import Job
from relance.traces.dumps import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a rank waits in: an operation of a group, and for which ranks. No ranks: it is held up by nobody."""

    group: str
    seq: int
    op: str
    p2p: bool
    on: frozenset[int]
    pair: tuple[int, int] | None = None
    """The sender and the receiver, by global ranks."""
    began_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Who waits for whom."""

    by_rank: Mapping[int, Wait]

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """The ranks at which chains end, with the number of ranks that wait for them, directly or not."""
        behind: dict[int, set[int]] = defaultdict(set)
        for rank, wait in self.by_rank.items():
            for other in wait.on:
                behind[other].add(rank)
        stops = {rank for rank in (*behind, *self.by_rank) if not self._on(rank)}
        return {rank: len(self._reached(rank, behind)) for rank in sorted(stops)}

    @cached_property
    def circles(self) -> tuple[int, ...]:
        """Ranks from which no chain ends."""
        behind: dict[int, set[int]] = defaultdict(set)
        for rank, wait in self.by_rank.items():
            for other in wait.on:
                behind[other].add(rank)
        safe = set(self.ends)
        for rank in self.ends:
            safe |= self._reached(rank, behind)
        return tuple(sorted(rank for rank in self.by_rank if rank not in safe))

    def waiting_for(self, rank: int) -> tuple[Wait, ...]:
        """The operations in which others wait directly for this rank."""
        return tuple(wait for wait in self.by_rank.values() if rank in wait.on)

    def _on(self, rank: int) -> frozenset[int]:
        wait = self.by_rank.get(rank)
        return wait.on if wait is not None else frozenset()

    @staticmethod
    def _reached(rank: int, behind: Mapping[int, set[int]]) -> set[int]:
        seen: set[int] = set()
        todo = [rank]
        while todo:
            for other in behind.get(todo.pop(), ()):
                if other not in seen and other != rank:
                    seen.add(other)
                    todo.append(other)
        return seen


def waits_of(job: Job) -> Waits:
    """Who waits for whom in a job."""
    oldest = {rank: work for rank, dump in job.dumps.items() if (work := _oldest(dump.works)) is not None}
    posted = _posted(job)
    waits = {}
    for rank in job.dumps:
        work = oldest.get(rank)
        if work is None:
            wait = _by_counters(job, rank)
        elif work.p2p:
            wait = _in_pair(job, rank, work, posted, oldest)
        else:
            wait = _in_collective(job, rank, work, oldest)
        if wait is not None:
            waits[rank] = wait
    return Waits(by_rank=waits)


def _oldest(works: tuple[Work, ...]) -> Work | None:
    return min((work for work in works if not work.is_done), key=lambda work: work.order, default=None)


def _in_collective(job: Job, rank: int, work: Work, oldest: Mapping[int, Work]) -> Wait:
    key = job.key_of(rank, work)
    group = job.groups[key]
    on = set()
    for other in group.members:
        if other == rank:
            continue
        position = group.positions.get(other)
        if position is None:
            if other not in job.dumps:
                on.add(other)
        elif position.called < work.seq:
            on.add(other)
        elif position.completed < work.seq:
            theirs = oldest.get(other)
            same = theirs is not None and not theirs.p2p and job.key_of(other, theirs) == key
            if theirs is not None and not (same and theirs.seq == work.seq):
                on.add(other)
    return Wait(group=key, seq=work.seq, op=work.op, p2p=False, on=frozenset(on), began_ns=work.created_ns)


def _in_pair(
    job: Job,
    rank: int,
    work: Work,
    posted: Mapping[tuple[int, str, tuple[int, int]], int],
    oldest: Mapping[int, Work],
) -> Wait:
    key = job.key_of(rank, work)
    members = job.groups[key].members
    pair = work.peers
    on: frozenset[int] = frozenset()
    ends = None
    if pair is not None and max(pair) < len(members):
        ends = (members[pair[0]], members[pair[1]])
        other = ends[1] if work.sends else ends[0]
        theirs = oldest.get(other)
        together = theirs is not None and theirs.p2p and theirs.peers == pair and job.key_of(other, theirs) == key
        if other != rank and not (together and posted.get((other, key, pair))):
            on = frozenset({other})
    return Wait(group=key, seq=work.seq, op=work.op, p2p=True, on=on, pair=ends, began_ns=work.created_ns)


def _posted(job: Job) -> dict[tuple[int, str, tuple[int, int]], int]:
    """How many sends or receives of a pair each rank has outstanding."""
    found: dict[tuple[int, str, tuple[int, int]], int] = defaultdict(int)
    for rank, dump in job.dumps.items():
        for work in dump.works:
            if work.peers is not None and not work.is_done:
                found[rank, job.key_of(rank, work), work.peers] += 1
    return found


def _by_counters(job: Job, rank: int) -> Wait | None:
    """Where no operations are listed: the group with the fewest outstanding ones stands for what the rank waits in."""
    stuck = [
        group.stuck
        for group in job.groups.values()
        if group.stuck is not None and rank in group.stuck.waiting and not group.mixed
    ]
    if not stuck:
        return None
    first = min(stuck, key=lambda each: (not each.missing, each.group))
    on = frozenset(first.missing) | (frozenset(first.silent) if not first.missing else frozenset())
    return Wait(group=first.group, seq=first.seq, op=first.op, p2p=False, on=on, began_ns=first.began_ns)
