"""Placing: from the hits of a case to clues in order of time, each with the role that is left to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from relance.attribution.clues import CAUSES, HOST_SCOPES, Clue, lead_s
from relance.attribution.companions import beside_others
from relance.attribution.places import node_named, node_of, rank_of
from relance.attribution.residues import without_own_memory
from relance.attribution.symptoms import (
    ANNOUNCED,
    FLAPPING,
    NEVER_A_FAULT,
    NOT_FAULTS,
    PROCESS_DEATHS,
    PROCESS_EXITS,
    WRAPPERS,
    cancels,
)
from relance.domain.faults import FaultDomain, Role, Scope
from relance.domain.findings import RuleHit
from relance.domain.progress import Progress
from relance.domain.verdicts import CaseFile

_ONE_READ_S = 1.0
"""Lines of one file seen within this time were read together."""
_MARK_SLACK_S = 2.0
"""How much later than a teardown mark in another file a line may be timed and still precede it."""
_GOT_TERM = "task_terminated"
_DEATH_SLACK_S = 30.0
"""A process that ends this long after the program began to shut down was ended by that."""
_STALE_S = 600.0
"""A host's row from before the attempt counts this long: a GPU that is gone is not told again."""
_RECOVERY_WINDOW_S = 3600.0
_ANNOUNCED_S = 900.0
"""So long before the end it may be announced: Azure's Scheduled Events tell a reboot 15 minutes ahead."""
_HARM = (*CAUSES, Role.CASCADE, Role.TEARDOWN)
_STEPS_AFTER = 5.0
_STEPS_AFTER_MIN_S = 10.0
"""A step this long after a fault is no step that was under way: training went on (20, row Q015)."""


def clues_of(case: CaseFile) -> tuple[Clue, ...]:
    """All hits of a case in order of time, each with the role that is left to it."""
    reported = [hit for finding in case.findings for hit in finding.hits]
    placed = _placed(_distinct([*reported, *case.signs]), case)
    came = _came_to_harm(placed, case)
    outlived = tuple(_outlived(clue, case.progress, came=came) for clue in placed)
    return _after_teardown(
        without_own_memory(beside_others(_unwrapped(_without_recovered(_placed_by_exits(outlived)))))
    )


def _distinct(hits: Iterable[RuleHit]) -> tuple[RuleHit, ...]:
    found: dict[tuple[object, ...], RuleHit] = {}
    for hit in hits:
        where = (hit.file, hit.offset) if hit.file else (hit.excerpt, hit.when)
        found.setdefault((hit.rule, hit.node, hit.rank, *where), hit)
    return tuple(found.values())


def _placed(hits: tuple[RuleHit, ...], case: CaseFile) -> tuple[Clue, ...]:
    ahead = _clocks_ahead(hits)
    clues: list[Clue] = []
    before: dict[str, RuleHit] = {}
    for hit in sorted(hits, key=lambda item: (item.file, item.offset, item.rule)):
        at, timed = hit.seen_at, False
        last = before.get(hit.file)
        if hit.at is not None:
            at, timed = hit.at - ahead.get(hit.node, timedelta()), True
            before[hit.file] = hit
        elif last is not None and last.at is not None and _read_together(last, hit):
            at, timed = last.at - ahead.get(last.node, timedelta()), True
        nothing = hit.symptom in NOT_FAULTS | NEVER_A_FAULT or (hit.domain is FaultDomain.NONE and hit.role in CAUSES)
        foreign = _is_foreign(hit, at, case, timed=timed)
        role = Role.CONTEXT if nothing or foreign else hit.role
        node, rank = node_of(hit, case), rank_of(hit)
        clues.append(Clue(hit=hit, at=at, timed=timed, node=node, rank=rank, role=role, foreign=foreign))
    return tuple(sorted(clues, key=_order))


def _order(clue: Clue) -> tuple[datetime, str, int, str, str, int]:
    """In time, then by place: the order in which findings came has no say."""
    rank = -1 if clue.rank is None else clue.rank
    return clue.at, clue.hit.file, clue.hit.offset, clue.hit.rule, clue.node or "", rank


def _is_foreign(hit: RuleHit, at: datetime, case: CaseFile, *, timed: bool) -> bool:
    """Whether a host's row is of another node, or so old that it is of another attempt: both are read again (20.15)."""
    if hit.scope not in HOST_SCOPES:
        return False
    elsewhere = bool(case.nodes) and hit.node is not None and node_named(hit.node, case.nodes) is None
    started = case.job.started_at if case.job else None
    return elsewhere or (timed and started is not None and (started - at).total_seconds() > _STALE_S)


def _placed_by_exits(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """Give a line without a place the node whose process the scheduler reports as ended right after it.

    In an output without labels the first process to end badly is the pointer to who wrote the line (L010).
    """
    exits = [clue for clue in clues if clue.hit.symptom in PROCESS_EXITS | PROCESS_DEATHS and clue.node is not None]

    def placed(clue: Clue) -> Clue:
        if clue.node is not None or clue.rank is not None or clue.of_host or clue.of_scheduler:
            return clue
        after = [item for item in exits if item.hit.file == clue.hit.file and item.hit.offset > clue.hit.offset]
        first = min(after, key=lambda item: item.hit.offset, default=None)
        return clue if first is None else replace(clue, node=first.node)

    return tuple(placed(clue) for clue in clues)


def _unwrapped(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """What a watchdog repeats of an error that a rank had is no root line of its own (P010, C029)."""
    wrapped = {(clue.hit.file, clue.hit.offset) for clue in clues if clue.hit.symptom in WRAPPERS}
    return tuple(
        replace(clue, role=Role.MAYBE)
        if clue.role is Role.ROOT and (clue.hit.file, clue.hit.offset) in wrapped
        else clue
        for clue in clues
    )


def _clocks_ahead(hits: tuple[RuleHit, ...]) -> Mapping[str | None, timedelta]:
    """How far each node's clock is ahead: a line cannot have been read before it was written."""
    found: dict[str | None, timedelta] = {}
    for hit in hits:
        if hit.at is not None and hit.at > hit.seen_at:
            found[hit.node] = max(found.get(hit.node, timedelta()), hit.at - hit.seen_at)
    return found


def _read_together(one: RuleHit, other: RuleHit) -> bool:
    return abs((one.seen_at - other.seen_at).total_seconds()) <= _ONE_READ_S


def _came_to_harm(clues: Iterable[Clue], case: CaseFile) -> bool:
    """Whether the attempt is over, or anything went wrong after its last step: what was announced may have come."""
    last = case.progress.step_at if case.progress is not None else None
    over = case.job is not None and case.job.state.is_over
    return over or any(
        clue.role in _HARM and clue.hit.symptom not in ANNOUNCED and (last is None or clue.at > last) for clue in clues
    )


def _outlived(clue: Clue, progress: Progress | None, *, came: bool) -> Clue:
    """Mark what training went on after: it was caught, or it was not what ended the attempt.

    `came` says that what is announced may have come.
    """
    if progress is None or progress.step_at is None:
        return clue
    slack_s = max(_STEPS_AFTER_MIN_S, _STEPS_AFTER * (progress.median_step_s or 0.0))
    if came and clue.hit.symptom in ANNOUNCED:
        slack_s = max(slack_s, _ANNOUNCED_S)
    gone_on_s = (progress.step_at - clue.at).total_seconds()
    return replace(clue, outlived=True) if gone_on_s > slack_s else clue


def _without_recovered(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """Without what came back; a link that came back twice may go again (N011).

    A call of the program that failed is not undone by what its host says later.
    """
    recoveries = [clue for clue in clues if clue.role is Role.RECOVERY]

    def taken_back(clue: Clue) -> bool:
        return any(
            cancels(other.hit.symptom, clue.hit.symptom)
            and (clue.hit.scope is not Scope.APPLICATION or other.hit.scope is Scope.APPLICATION)
            and (other.node == clue.node or other.node is None or clue.node is None)
            and 0.0 <= lead_s(clue, other) <= _RECOVERY_WINDOW_S
            and not _stands_before(other, clue)
            for other in recoveries
        )

    flapped = Counter(clue.node for clue in clues if clue.hit.symptom in FLAPPING and taken_back(clue))

    def left(clue: Clue) -> Clue:
        if not taken_back(clue):
            return clue
        again = clue.hit.symptom in FLAPPING and flapped[clue.node] > 1
        return replace(clue, role=Role.MAYBE if again else Role.CONTEXT)

    return tuple(left(clue) for clue in clues)


def _stands_before(one: Clue, other: Clue) -> bool:
    """Whether one line precedes another in the same log, where their times cannot tell."""
    return one.hit.file == other.hit.file and one.hit.offset < other.hit.offset and not (one.timed and other.timed)


def _after_teardown(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """After the first mark an application's rows are consequences (20.5).

    Exempt are what the host says, whose time counts for itself, and the scheduler's own statements. The end of a
    process is told when the shut-down has begun already; it counts for a while after the program's own mark, but not
    after the scheduler has taken the step down, when it kills what is left. A process that was killed before any other
    got TERM is why the step was taken down, though slurmstepd may say so before srun tells of that end (seen: 22.05).
    """
    terminated: dict[str, int] = {}
    for clue in clues:
        if clue.hit.symptom == _GOT_TERM:
            terminated[clue.hit.file] = min(clue.hit.offset, terminated.get(clue.hit.file, clue.hit.offset))
    marks = [clue for clue in clues if clue.role is Role.TEARDOWN and not clue.of_host and not clue.outlived]
    return tuple(
        replace(clue, role=Role.CASCADE, in_teardown=True)
        if clue.may_be_cause and any(_is_after(clue, mark, terminated) for mark in marks)
        else clue
        for clue in clues
    )


def _is_after(clue: Clue, mark: Clue, terminated: Mapping[str, int]) -> bool:
    if clue.is_death and not mark.of_scheduler:
        return lead_s(mark, clue) > _DEATH_SLACK_S
    if clue.is_death and clue.hit.offset < terminated.get(clue.hit.file, 0):
        return False
    if clue.of_host or (clue.of_scheduler and not clue.is_death):
        return False
    if mark.hit.file == clue.hit.file:
        return mark.hit.offset < clue.hit.offset
    return lead_s(mark, clue) > _MARK_SLACK_S
