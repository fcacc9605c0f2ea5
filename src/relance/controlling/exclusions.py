"""The one list of nodes that a job is kept off: the user's own, and ours. Pure.

Which of them are ours the ledger knows, as long as the list is the one that we wrote: ours are taken out once they are
not in force any more, the user's never. A list that somebody changed since, or that no ledger knows, is the user's.

The scheduler replaces the whole list at a write, refuses all of it for one unknown name, and accepts without a word a
list that leaves too few nodes (slurm.md 2). So the merge, the names and the number are checked here, before the write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.advice import Answer
from relance.domain.fits import Grounds, room
from relance.domain.ledgers import Excluded
from relance.domain.views import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A list that a job shows: the user's own nodes, and those that we put there. `note` says what is not known."""

    own: tuple[str, ...]
    ours: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionList:
    """What would be written: the user's nodes first and always, then `ours`. `notes` says what was left out and why."""

    nodes: tuple[str, ...]
    ours: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def parts_of(shown: tuple[str, ...], written: Iterable[Excluded]) -> Parts:
    """Which nodes of a job's list are ours, by what the ledger says that we wrote."""
    lists = tuple(written)
    for entry in reversed(lists):
        if entry.nodes == frozenset(shown):
            own = tuple(name for name in shown if name in entry.own)
            return Parts(own=own, ours=tuple(name for name in shown if name not in own))
    if shown and any(entry.ours for entry in lists):
        note = "its list of excluded nodes was changed by somebody else since: all of it is kept"
        return Parts(own=shown, note=note)
    return Parts(own=shown)


def merged(
    job: JobView, ours: Iterable[str], grounds: Grounds | None, written: Iterable[Excluded] = ()
) -> ExclusionList:
    """The user's own list with those of our nodes that are in force, as far as they are known and enough nodes remain.

    `grounds` is None where they could not be read: then nothing is checked, and the scheduler refuses what it must.
    """
    parts = parts_of(job.excluded, written)
    own = parts.own
    wanted = tuple(dict.fromkeys(name for name in ours if name not in own))
    gone = tuple(name for name in parts.ours if name not in wanted)
    told = (
        *((parts.note,) if parts.note else ()),
        *((f"{', '.join(gone)} allowed again: our exclusion is over",) if gone else ()),
    )
    if grounds is None:
        return ExclusionList(nodes=(*own, *wanted), ours=wanted, notes=told)
    known = {node.name for node in grounds.nodes}
    unknown = tuple(f"the scheduler does not know {name}: left out" for name in wanted if name not in known)
    notes = (*told, *unknown)
    added = tuple(name for name in wanted if name in known)
    left = room(job, grounds, {*own, *added}, says=added) if added else None
    if left is not None and left.answer is Answer.NO:
        return ExclusionList(nodes=own, notes=(*notes, f"{left.reason}: not written"))
    return ExclusionList(nodes=(*own, *added), ours=added, notes=notes)


def without_ours(job: JobView, added: Iterable[str], written: Iterable[Excluded]) -> tuple[str, ...]:
    """The user's own list: without what was added just now, and what is known to be ours from before."""
    not_own = {*added, *parts_of(job.excluded, written).ours}
    return tuple(name for name in job.excluded if name not in not_own)


def in_the_way(job: JobView, ours: Iterable[str], grounds: Grounds) -> bool:
    """Whether the job has no room because of our nodes, and would have without them; others' work is not in the way."""
    own = set(job.excluded)
    with_ours, without = room(job, grounds, own), room(job, grounds, own - set(ours))
    return with_ours.answer is Answer.NO and without.answer is not Answer.NO
