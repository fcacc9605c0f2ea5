"""Several runs in one output: the fault that keeps coming back is judged, not the last one alone.

The same fault three times is no accident; one that moves from node to node goes with the job, one that stays goes with
the node (signatures.md 20.9, Q009 to Q011). Between such runs nobody changed the nodes, so a fresh suspect is excluded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from relance.attribution.clues import CAUSES
from relance.attribution.judgements import attribute
from relance.attribution.places import node_of, node_of_named_rank, rank_named
from relance.attribution.symptoms import MAY_BE_THE_NODES, words
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.progress import Progress
from relance.domain.verdicts import CaseFile, EarlierAttempt, Strength, Suspect, Verdict
from relance.domain.views import JobState

_EXCEPTION = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Interrupt|Exit))\b")
_OFTEN = 3
"""So many runs with one fault outweigh a later run that goes on: it may not have come as far yet."""
_GOES_ON = 2
"""So many steps of a run show that it works."""
_GOING_ON = frozenset({"healthy", "recovered", "nothing_recognised"})
"""What is said of a run that did not fail, and of which it is not known that it reached its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    case: CaseFile
    verdict: Verdict

    @property
    def failed(self) -> bool:
        return self.verdict.domain is not FaultDomain.NONE

    @property
    def mark(self) -> tuple[str, str, str]:
        """What tells faults of runs apart; not the text, which a launcher may tell once and the program next time."""
        first = self.verdict.evidence[0] if self.verdict.evidence else None
        exception = ""
        if first is not None and self.verdict.cause == "python_exception":
            named = _EXCEPTION.findall(first.excerpt)
            exception = named[-1] if named else ""
        return self.verdict.domain.value, self.verdict.cause, exception


def judge_runs(cases: Sequence[CaseFile], *, by_hand: bool = False) -> Verdict:
    """The verdict on an output whose runs gave these cases, in order; there is at least one.

    `by_hand` says that somebody started the program again: then the question is what had failed, though it goes on now.
    """
    runs = [_Run(case=case, verdict=attribute(case)) for case in (*cases[:-1], _of_now(cases))]
    judged = _of_most_weight(runs, by_hand=by_hand)
    if len(runs) == 1 or not judged:
        return runs[-1].verdict
    before = [run for run in takewhile(lambda run: run is not judged[-1], runs) if run.failed]
    last = judged[-1]
    earlier = tuple(_as_earlier(run, before[:at], last) for at, run in enumerate(before))
    case = last.case
    verdict = attribute(replace(case, earlier=(*case.earlier, *earlier)))
    first = judged[0].verdict
    whole = replace(verdict, evidence=first.evidence or verdict.evidence, suspects=_all_suspects(judged, verdict))
    nodes = frozenset(node for run in runs for node in run.case.nodes)
    return _staying(_following(_wandering(whole, judged, nodes), last, before), judged)


def _of_now(cases: Sequence[CaseFile]) -> CaseFile:
    """The last run without what other logs said before an earlier run had ended, if it makes steps and shows no harm.

    What lies beside an output of several runs is known to all of them; a fault that one run ended of is not the next's.
    """
    last = cases[-1]
    shared = frozenset.intersection(*(frozenset(finding.id for finding in case.findings) for case in cases))
    own = [finding for finding in last.findings if finding.id not in shared]
    stepped = last.progress is not None and last.progress.steps_seen >= _GOES_ON
    failed = last.job is not None and last.job.state.is_failure
    ended = [
        hit.at
        for case in cases[:-1]
        for finding in case.findings
        if finding.id not in shared
        for hit in finding.hits
        if hit.at is not None
    ]
    if own or failed or not stepped or not ended:
        return last
    faults = [hit for finding in last.findings for hit in finding.hits if hit.role in CAUSES]
    past = all(hit.at is not None and hit.at <= max(ended) for hit in faults)
    return replace(last, findings=()) if past else last


def _of_most_weight(runs: Sequence[_Run], *, by_hand: bool) -> list[_Run]:
    """The runs with the fault that counts: the last run's, else one that came often, else the last of all."""
    groups: dict[tuple[str, str, str], list[_Run]] = {}
    for run in runs:
        if run.failed:
            groups.setdefault(run.mark, []).append(run)
    if runs[-1].failed and runs[-1].verdict.domain not in (FaultDomain.USER, FaultDomain.SCHEDULER):
        return groups[runs[-1].mark]
    most = max(groups.values(), key=len, default=[])
    if len(most) >= _OFTEN:
        return most
    faults = [run for run in runs if run.failed and run.verdict.domain not in (FaultDomain.USER, FaultDomain.SCHEDULER)]
    job = runs[-1].case.job
    done = job is not None and job.state is JobState.COMPLETED
    open_end = by_hand and not done and runs[-1].verdict.cause in _GOING_ON
    return groups[faults[-1].mark] if open_end and faults else []


def _as_earlier(run: _Run, before: Sequence[_Run], last: _Run) -> EarlierAttempt:
    return EarlierAttempt(
        attempt=run.case.attempt,
        nodes=run.case.nodes,
        ended_at=run.case.as_of,
        cause=run.verdict.cause,
        fingerprint=(last if run.mark == last.mark else run).verdict.fingerprint,
        suspects=run.verdict.suspects,
        made_progress=_progressed(run.case.progress, [other.case.progress for other in before]),
    )


def _progressed(own: Progress | None, before: Sequence[Progress | None]) -> bool | None:
    """Whether a run came further than those before it; None where that is not known. One without a step did not."""
    if own is None or not own.steps_seen:
        return False
    if own.highest_step is None:
        return None
    others = [each.highest_step for each in before if each is not None and each.highest_step is not None]
    return own.highest_step > max(others) if others else None


def _all_suspects(judged: Sequence[_Run], verdict: Verdict) -> tuple[Suspect, ...]:
    """The suspects of all runs with the fault: each of these nodes has it."""
    found = {suspect.node: suspect for suspect in verdict.suspects}
    if verdict.remedy is Remedy.RESTART_EXCLUDING:
        for run in judged:
            for suspect in run.verdict.suspects:
                found.setdefault(suspect.node, suspect)
    return tuple(found.values())


def _wandering(verdict: Verdict, judged: Sequence[_Run], nodes: frozenset[str]) -> Verdict:
    """A doubtful fault that was on another node each time goes with the job, as one does that all nodes have (Q010)."""
    if len(nodes) > 1 and len(judged) > 1 and {suspect.node for suspect in verdict.suspects} >= nodes:
        reason = "all nodes of the job have it: it fails again until somebody changes something"
        return _stopped(verdict, reason)
    places = [frozenset(suspect.node for suspect in run.verdict.suspects) for run in judged]
    moved = len(judged) >= _OFTEN and all(places) and not frozenset.intersection(*places)
    if not moved or verdict.remedy is Remedy.RESTART_EXCLUDING:
        return verdict
    reason = f"it came on another node each of {len(judged)} times: it goes with the job"
    return replace(_stopped(verdict, reason), domain=FaultDomain.APPLICATION)


def _stopped(verdict: Verdict, reason: str) -> Verdict:
    """A stop beyond doubt: no further try confirms it, so none is left."""
    return replace(
        verdict,
        remedy=Remedy.STOP,
        remedy_reason=reason,
        suspects=(),
        confirmable=False,
        restart_limit_without_progress=None,
    )


def _following(verdict: Verdict, last: _Run, before: Sequence[_Run]) -> Verdict:
    """A fault that may be the program's, on a node that was suspect in an earlier run as well, is the node's (Q011)."""
    if verdict.cause not in MAY_BE_THE_NODES or not last.verdict.evidence or verdict.suspects:
        return verdict
    node = node_of_named_rank(last.verdict.evidence[0], last.case) or node_of(last.verdict.evidence[0], last.case)
    again = [run for run in before if any(suspect.node == node for suspect in run.verdict.suspects)]
    if node is None or not again or set(last.case.nodes) == {node}:
        return verdict
    reason = f"{words(verdict.cause)} on it, which was suspect in an earlier run"
    return replace(
        verdict,
        domain=FaultDomain.HARDWARE,
        remedy=Remedy.RESTART_EXCLUDING,
        remedy_reason=f"it runs on without {node}",
        suspects=(Suspect(node=node, strength=Strength.HARD, reason=reason),),
        confirmable=False,
    )


def _staying(verdict: Verdict, judged: Sequence[_Run]) -> Verdict:
    """A fault that may be the program's, and that came to one node under different ranks, is the node's (Q011).

    The rank's share of the data and of the model went elsewhere in between; what stayed is the device.
    """
    if verdict.cause not in MAY_BE_THE_NODES:
        return verdict
    places = [_places(run) for run in judged]
    ranks = {rank for place in places for rank, _ in place}
    nodes = {node for place in places for _, node in place}
    if len(judged) < 2 or not all(places) or len(ranks) < 2 or len(nodes) > 1:  # noqa: PLR2004 - again is twice
        return verdict
    node = nodes.pop()
    reason = f"{words(verdict.cause)} on it in {len(judged)} runs, each time as another rank"
    return replace(
        verdict,
        domain=FaultDomain.HARDWARE,
        remedy=Remedy.RESTART_EXCLUDING,
        remedy_reason=f"it runs on without {node}",
        suspects=(Suspect(node=node, strength=Strength.HARD, reason=reason),),
        confirmable=False,
    )


def _places(run: _Run) -> frozenset[tuple[int, str]]:
    """Which ranks showed a fault that a device may have, and the nodes of these ranks."""
    case = run.case
    hits = [hit for finding in case.findings for hit in finding.hits if hit.symptom in MAY_BE_THE_NODES]
    found = [(rank_named(hit), node_of_named_rank(hit, case)) for hit in hits]
    return frozenset((rank, node) for rank, node in found if rank is not None and node is not None)
