"""The one list of nodes that a job is kept off: the user's own, and ours. Pure.

The scheduler replaces the whole list at a write, refuses all of it for one unknown name, and accepts without a word a
list that leaves too few nodes (slurm.md 2). So the merge, the names and the number are checked here, before the write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.views import JobView, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionList:
    """What would be written: the user's nodes first and always, then `ours`. `notes` says what was left out and why."""

    nodes: tuple[str, ...]
    ours: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def merged(job: JobView, ours: Iterable[str], nodes: Iterable[NodeView] | None) -> ExclusionList:
    """The job's own list with our nodes added, as far as they are known and enough nodes remain.

    `nodes` is None where they could not be read: then nothing is checked, and the scheduler refuses what it must.
    """
    own = job.excluded
    wanted = tuple(dict.fromkeys(name for name in ours if name not in own))
    if nodes is None:
        return ExclusionList(nodes=(*own, *wanted), ours=wanted)
    known = {node.name: node for node in nodes}
    unknown = tuple(name for name in wanted if name not in known)
    added = tuple(name for name in wanted if name in known)
    notes = tuple(f"the scheduler does not know {name}: left out" for name in unknown)
    problem = _problem(job, added, known.values()) if added else ""
    if problem:
        return ExclusionList(nodes=own, notes=(*notes, f"{problem}: not written"))
    return ExclusionList(nodes=(*own, *added), ours=added, notes=notes)


def _problem(job: JobView, added: tuple[str, ...], nodes: Iterable[NodeView]) -> str:
    """Why these nodes may not be added; empty when nothing speaks against it."""
    names = ", ".join(added)
    required = sorted(set(added) & set(job.required))
    if required:
        return f"the job itself asks for {', '.join(required)}"
    out = {*job.excluded, *added}
    wanted = set(job.features)
    served = [
        node
        for node in nodes
        if (not node.partitions or job.partition in node.partitions) and wanted <= set(node.features)
    ]
    left = [node for node in served if node.state.takes_work and node.name not in out]
    if len(left) < job.node_count:
        return f"without {names} {len(left)} nodes would be left for a job of {job.node_count}"
    return ""
