"""Which nodes to go without: suspects that count, cut to the caps, each cut a sentence (design 8, operators.md 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from relance.domain.advice import Answer
from relance.domain.verdicts import Strength, Suspect
from relance.policy.fits import fit, in_force, nodes_needed, partition_nodes
from relance.policy.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The nodes to exclude, and a sentence for each thing that was added or left out."""

    nodes: tuple[str, ...]
    reasons: tuple[str, ...]


def exclusions(question: Question) -> Choice:
    """The nodes that the next attempt goes without."""
    reasons: list[str] = []
    suspects = _known(_that_count(question, reasons), question, reasons)
    if suspects and _storm_may_last(question):
        reasons.append("no node is excluded in a storm, or before its canary has made a step")
        suspects = ()
    room = min(_room(question))
    if len(suspects) > room:
        left = ", ".join(suspect.node for suspect in suspects[room:])
        reasons.append(f"{left} not excluded: the limits leave room for {room}")
        suspects = suspects[:room]
    suspects = _that_fit(suspects, question, reasons)
    said = [f"{suspect.node} is left out: {suspect.reason}" for suspect in suspects]
    return Choice(nodes=tuple(suspect.node for suspect in suspects), reasons=(*said, *reasons))


def caps(question: Question) -> tuple[int, int, int]:
    """How many nodes may be out: by one decision, for one job, of one partition."""
    limits = question.limits.exclusions
    job = max(limits.per_job_nodes, math.floor(limits.per_job_share * nodes_needed(question)))
    partition = max(1, math.floor(limits.per_partition_share * len(partition_nodes(question))))
    return limits.per_decision, job, partition


def _that_count(question: Question, reasons: list[str]) -> tuple[Suspect, ...]:
    """Hard suspects first; weak ones only at the second time within the window."""
    window = timedelta(seconds=question.limits.exclusions.weak_window_s)
    hard = [suspect for suspect in question.verdict.suspects if suspect.strength is Strength.HARD]
    weak = [suspect for suspect in question.verdict.suspects if suspect.strength is Strength.WEAK]
    again = [suspect for suspect in weak if any(question.now - at <= window for at in suspect.before)]
    reasons += [
        f"{suspect.node} not excluded: the evidence is weak, and this is its first time"
        for suspect in weak
        if suspect not in again
    ]
    return (*hard, *again)


def _known(suspects: tuple[Suspect, ...], question: Question, reasons: list[str]) -> tuple[Suspect, ...]:
    """Only nodes that the scheduler knows enter a command (design 12)."""
    if not question.fleet.nodes:
        return suspects
    names = {node.name for node in question.fleet.nodes}
    reasons += [
        f"{suspect.node} not excluded: the scheduler does not know a node of that name"
        for suspect in suspects
        if suspect.node not in names
    ]
    return tuple(suspect for suspect in suspects if suspect.node in names)


def _storm_may_last(question: Question) -> bool:
    """Whether the shared cause is open, or what was let go first has not shown yet that it is gone."""
    storm = question.fleet.storm
    if storm is None or storm.canary_stepped:
        return False
    return storm.cleared_at is None or storm.canary is not None


def _room(question: Question) -> tuple[int, int, int]:
    """What is left of each cap after the exclusions in force."""
    decision, job, partition = caps(question)
    mine = str(question.incident.attempt.job)
    active = [item for item in question.fleet.exclusions if in_force(item.until, question.now)]
    for_job = {item.node for item in active if item.job == mine}
    in_partition = {item.node for item in active} & {node.name for node in partition_nodes(question)}
    return decision, max(0, job - len(for_job)), max(0, partition - len(in_partition))


def _that_fit(suspects: tuple[Suspect, ...], question: Question, reasons: list[str]) -> tuple[Suspect, ...]:
    """Without weak suspects where there are too few nodes left; hard evidence stays, and a person is asked."""
    kept = suspects
    while kept and fit(question, tuple(item.node for item in kept)).answer is Answer.NO:
        weak = next((item for item in reversed(kept) if item.strength is Strength.WEAK), None)
        if weak is None:
            break
        reasons.append(f"{weak.node} not excluded: too few nodes would remain, and the evidence is weak")
        kept = tuple(item for item in kept if item is not weak)
    return kept
