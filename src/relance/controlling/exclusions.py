"""The one list of nodes that a job is kept off: the user's own, and ours. Pure.

The scheduler replaces the whole list at a write, refuses all of it for one unknown name, and accepts without a word a
list that leaves too few nodes (slurm.md 2). So the merge, the names and the number are checked here, before the write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.advice import Answer
from relance.domain.fits import Grounds, room
from relance.domain.views import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionList:
    """What would be written: the user's nodes first and always, then `ours`. `notes` says what was left out and why."""

    nodes: tuple[str, ...]
    ours: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def merged(job: JobView, ours: Iterable[str], grounds: Grounds | None) -> ExclusionList:
    """The job's own list with our nodes added, as far as they are known and enough nodes remain.

    `grounds` is None where they could not be read: then nothing is checked, and the scheduler refuses what it must.
    """
    own = job.excluded
    wanted = tuple(dict.fromkeys(name for name in ours if name not in own))
    if grounds is None:
        return ExclusionList(nodes=(*own, *wanted), ours=wanted)
    known = {node.name for node in grounds.nodes}
    notes = tuple(f"the scheduler does not know {name}: left out" for name in wanted if name not in known)
    added = tuple(name for name in wanted if name in known)
    left = room(job, grounds, {*own, *added}, says=added) if added else None
    if left is not None and left.answer is Answer.NO:
        return ExclusionList(nodes=own, notes=(*notes, f"{left.reason}: not written"))
    return ExclusionList(nodes=(*own, *added), ours=added, notes=notes)


def in_the_way(job: JobView, ours: Iterable[str], grounds: Grounds) -> bool:
    """Whether the job has no room because of our nodes, and would have without them; others' work is not in the way."""
    own = set(job.excluded)
    with_ours, without = room(job, grounds, own), room(job, grounds, own - set(ours))
    return with_ours.answer is Answer.NO and without.answer is not Answer.NO
