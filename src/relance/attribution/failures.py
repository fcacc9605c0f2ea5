"""Explanations by what the job's own output shows: roots, pointers, ends of processes, silence, consequences, exits."""

from __future__ import annotations

from collections.abc import Iterable

from relance.attribution.accusations import accusation_explanations, oddity_explanations
from relance.attribution.clues import Clue
from relance.attribution.collectives import collective_explanations
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.intents import is_wish
from relance.attribution.oddities import odd_ones
from relance.attribution.silences import silence_explanations
from relance.attribution.slowness import divergence_of, slowness_explanations, standstill_explanations
from relance.attribution.spreads import Spread, spread_of
from relance.attribution.suspicions import alike, is_shared, suspects_of
from relance.attribution.symptoms import CLASSLESS_KILLS, SAME_DEVICE_ONLY, TERM_SIGNALS, WAITED_FOR_OTHERS, words
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.verdicts import CaseFile
from relance.domain.views import JobState, JobView

_POINTERS = (SuspectKind.RANK, SuspectKind.PEER)
_SIGKILL, _KILLED_EXIT = 9, 137
_LASTING = 3
"""Mixed precision skips a step or two with such numbers and goes on; three in a row at the end do not come back."""
_OF_NODES = (FaultDomain.HARDWARE, FaultDomain.SYSTEM, FaultDomain.INTERCONNECT, FaultDomain.STORAGE)
_OWN_DOMAINS = (FaultDomain.APPLICATION, FaultDomain.USER)


def failure_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> tuple[Explanation, ...]:
    """Every explanation that the job's own side offers, the most trusted first, each kind by its first line."""
    own = [clue for clue in clues if _is_own_side(clue)]
    standing = [clue for clue in own if clue.may_be_cause and not _is_decision(clue)]
    found = [_of_clue(clue, case, clues) for clue in _firsts(standing)]
    found += collective_explanations(case, clues)
    found += silence_explanations(case, clues)
    found += accusation_explanations(case, clues)
    found += oddity_explanations(case, clues) if any(_is_harm(clue) for clue in own) else []
    found += _of_waiting(case, clues)
    found += _of_divergence(case.findings)
    found += _of_lost_numbers(case)
    found += _of_memory(case.job, found)
    found += _of_hang(case) or standstill_explanations(case, clues)
    found += slowness_explanations(case, clues)
    found += _of_consequences(clues)
    found += _of_exit(case.job)
    return tuple(sorted(found, key=lambda item: item.trust))


def second_thoughts(clues: tuple[Clue, ...]) -> Explanation | None:
    """The first root line of those that came after the shut-down had begun, where there is nothing better.

    Output is buffered, so a root can be printed late. It is worth one try, never a stop.
    """
    late = [clue for clue in clues if clue.in_teardown and clue.hit.role is Role.ROOT and not clue.outlived]
    if not late:
        return None
    first = late[0]
    return Explanation(
        trust=Trust.MAYBE,
        domain=_domain(first.hit.domain),
        cause=first.hit.symptom,
        hint=RestartHint.ONCE if first.hit.restart is RestartHint.NO else first.hit.restart,
        confidence=0.35,
        because=f"{words(first.hit.symptom)} is the only sign, though it came after the shut-down had begun",
        at=first.at,
        clues=(first,),
    )


def _is_harm(clue: Clue) -> bool:
    return not clue.outlived and clue.role in (Role.ROOT, Role.MAYBE, Role.CASCADE)


def _is_decision(clue: Clue) -> bool:
    return is_wish(clue) or clue.hit.symptom in TERM_SIGNALS


def _is_own_side(clue: Clue) -> bool:
    """Whether a line is about the job's own processes: its output, their ends, and what a host did to them."""
    if clue.of_host:
        return clue.hit.domain in _OWN_DOMAINS
    return not (clue.of_scheduler and clue.role is Role.ROOT and clue.hit.domain in _OF_NODES)


def _firsts(clues: Iterable[Clue]) -> tuple[Clue, ...]:
    """The first line of each rank and node, by role, and of those one for each symptom: first beats loudest (20.3).

    What training went on after comes last: it hides nothing that came later.
    """
    by_place: dict[tuple[Role, object, object], Clue] = {}
    for clue in sorted(clues, key=lambda item: item.outlived):
        by_place.setdefault((clue.role, clue.node, clue.rank), clue)
    by_symptom: dict[tuple[Role, str], Clue] = {}
    for clue in by_place.values():
        by_symptom.setdefault((clue.role, clue.hit.symptom), clue)
    return tuple(by_symptom.values())


def _of_clue(clue: Clue, case: CaseFile, clues: tuple[Clue, ...]) -> Explanation:
    hit = clue.hit
    group = alike(clue, clues)
    spread = spread_of(group, case, clues)
    shared = is_shared(group, case) and not spread.suspects
    no_class = hit.symptom in CLASSLESS_KILLS
    nobody = spread.wide or shared or no_class or _is_no_nodes_fault(clue)
    trust, confidence = _standing(clue)
    return Explanation(
        trust=trust,
        domain=FaultDomain.UNKNOWN if no_class else _domain(spread.domain),
        cause=hit.symptom,
        hint=RestartHint.NOTHING if no_class else spread.hint,
        confidence=confidence * (0.6 + 0.4 * min(1.0, max(0.0, hit.weight))) + (0.05 if spread.wide else 0.0),
        because=_because(clue, group, spread),
        at=clue.at,
        clues=group,
        suspects=spread.suspects or (() if nobody else suspects_of(group, case, clues)),
        shared=shared,
        confirmable=spread.confirmable,
    )


def _domain(told: FaultDomain) -> FaultDomain:
    """A person's mistake in a setting or a path is the job's own: the domain `user` is for a person's wish."""
    return FaultDomain.APPLICATION if told is FaultDomain.USER else told


def _is_no_nodes_fault(clue: Clue) -> bool:
    """Whether a row is about the program wherever it runs, even if it names where that was."""
    own = clue.hit.domain in _OWN_DOMAINS and clue.hit.symptom not in SAME_DEVICE_ONLY
    return clue.hit.restart is RestartHint.NO or (own and clue.hit.restart is not RestartHint.EXCLUDE)


def _standing(clue: Clue) -> tuple[Trust, float]:
    if clue.role is Role.MAYBE:
        return Trust.MAYBE, 0.55
    if clue.hit.domain is FaultDomain.UNKNOWN and clue.hit.suspect in _POINTERS:
        return Trust.POINTER, 0.6
    return Trust.ROOT, 0.9


def _because(clue: Clue, group: tuple[Clue, ...], spread: Spread) -> str:
    what = words(clue.hit.symptom)
    ranks = len({item.rank for item in group if item.rank is not None})
    if spread.wide and ranks > 1:
        return f"{ranks} ranks show {what} at once"
    if spread.suspects:
        return spread.suspects[0].reason
    where = f"rank {clue.rank}" if clue.rank is not None else (f"node {clue.node}" if clue.node else "the output")
    return f"{where} shows {what} before anything else"


def _of_divergence(findings: tuple[Finding, ...]) -> list[Explanation]:
    return [
        Explanation(
            trust=Trust.MAYBE,
            domain=FaultDomain.APPLICATION,
            cause=finding.symptom,
            hint=RestartHint.ONCE,
            confidence=0.5,
            because=f"training had run away: {finding.summary}",
            at=finding.first_evidence_at,
        )
        for finding in filter(None, (divergence_of(findings),))
    ]


def _of_lost_numbers(case: CaseFile) -> list[Explanation]:
    """Losses that were no numbers to the end: the weights are gone, and each further step is waste (S001)."""
    if case.course.without_number < _LASTING:
        return []
    return [
        Explanation(
            trust=Trust.MAYBE,
            domain=FaultDomain.APPLICATION,
            cause="loss_nan",
            hint=RestartHint.NO,
            confidence=0.75,
            because=f"the loss or the gradient of its last {case.course.without_number} steps was no number",
        )
    ]


def _of_memory(job: JobView | None, found: list[Explanation]) -> list[Explanation]:
    """The scheduler's word that memory ran out gives a kill its class, where no line of the kernel has done so."""
    told = any("oom" in item.cause and item.trust is Trust.ROOT for item in found)
    if told or job is None or job.state is not JobState.OUT_OF_MEMORY:
        return []
    return [
        Explanation(
            trust=Trust.ROOT,
            domain=FaultDomain.APPLICATION,
            cause="cgroup_oom",
            hint=RestartHint.ONCE,
            confidence=0.8,
            because="the scheduler says that it ran out of its memory",
            at=job.ended_at,
        )
    ]


def _of_hang(case: CaseFile) -> list[Explanation]:
    confirmed = [
        item for item in case.findings if item.kind is FindingKind.HANG and item.certainty is Certainty.CONFIRMED
    ]  # fmt: skip
    return [
        Explanation(
            trust=Trust.HANG,
            domain=FaultDomain.UNKNOWN,
            cause=finding.symptom or "hang",
            hint=RestartHint.NOTHING,
            confidence=0.5,
            because=f"it stopped making progress: {finding.summary}",
            at=finding.symptom_at,
            suspects=odd_ones(confirmed, case),
        )
        for finding in confirmed[:1]
    ]


def _of_waiting(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """What the scheduler still waits for: nothing was placed, and the program said nothing, after it said so.

    Rows K031 and L039; what was waited for before the last step is over.
    """
    waits = [
        clue
        for clue in clues
        if clue.of_scheduler and clue.hit.role is Role.CONTEXT and clue.hit.restart is RestartHint.WAIT
    ]
    began = [clue.at for clue in clues if clue.hit.symptom == "pod_scheduled" or (clue.timed and _is_of_program(clue))]
    began += [case.progress.step_at] if case.progress is not None and case.progress.step_at is not None else []
    waits = [clue for clue in waits if all(at < clue.at for at in began)]
    if not waits:
        return []
    first = waits[0]
    return [
        Explanation(
            trust=Trust.MAYBE,
            domain=FaultDomain.SCHEDULER,
            cause=first.hit.symptom,
            hint=RestartHint.WAIT,
            confidence=0.6,
            because=f"the scheduler still said {words(first.hit.symptom)} at the end",
            at=first.at,
            clues=(first,),
        )
    ]


def _is_of_program(clue: Clue) -> bool:
    """Whether the program itself speaks, unless it only says that others have not come."""
    own = clue.hit.scope is Scope.APPLICATION and not clue.of_scheduler
    return own and clue.hit.symptom not in WAITED_FOR_OTHERS


def _of_consequences(clues: tuple[Clue, ...]) -> list[Explanation]:
    first = next((clue for clue in clues if clue.role is Role.CASCADE and not clue.outlived), None)
    if first is None:
        return []
    because = f"only consequences were seen, the first of them {words(first.hit.symptom)}"
    return [
        Explanation(
            trust=Trust.CASCADE,
            domain=FaultDomain.UNKNOWN,
            cause=first.hit.symptom,
            hint=RestartHint.NOTHING,
            confidence=0.35,
            because=because,
            at=first.at,
            clues=(first,),
        )
    ]


def _of_exit(job: JobView | None) -> list[Explanation]:
    if job is None or not job.state.is_failure:
        return []
    killed = job.exit_signal == _SIGKILL or job.exit_code == _KILLED_EXIT
    if killed:
        cause = "exited_by_signal_9"
    elif job.exit_signal:
        cause = f"exited_by_signal_{job.exit_signal}"
    else:
        cause = "exited_nonzero" if job.exit_code else f"ended_{job.state.value}"
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}:{job.exit_signal or 0}"
    return [
        Explanation(
            trust=Trust.EXIT,
            domain=FaultDomain.UNKNOWN,
            cause=cause,
            hint=RestartHint.NOTHING,
            confidence=0.25,
            because=f"it ended{code}, and no line says why",
            at=job.ended_at,
        )
    ]
