"""Node health: a node of the attempt shows a sign of failing while training goes on. Told, never acted on.

Some signs call for a node to be left out once the attempt has ended, though none of them justifies ending it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from relance.detectors.evidence import position_of, said, time_of
from relance.detectors.oddities import is_few
from relance.detectors.watched import Watched
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit, Sign
from relance.domain.keys import stable_id
from relance.domain.observations import Observation
from relance.domain.progress import Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "node"
STEPS_AFTER: Final = 2
"""So many new steps after a sign show that training goes on."""
FINDINGS_AT_MOST: Final = 16
OF_A_SYMPTOM: Final = 4
"""So many nodes are told of with one symptom: what more of them show is nobody's in particular."""
SEEN_AT_MOST: Final = 512
_OF_A_NODE: Final = (SuspectKind.SELF, SuspectKind.BOTH)
_DOMAINS: Final = (FaultDomain.HARDWARE, FaultDomain.INTERCONNECT, FaultDomain.SYSTEM, FaultDomain.STORAGE)
_ROLES: Final = (Role.ROOT, Role.MAYBE, Role.CONTEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """Signs that wait for the steps that follow them; `told` are nodes and symptoms of which it was told.

    `seen` are all nodes and symptoms, up to `SEEN_AT_MOST`: what many nodes show is nobody's in particular.
    """

    version: int = 1
    waiting: tuple[RuleHit, ...] = ()
    highest_step: int | None = None
    steps: int = 0
    told: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()


def step(
    state: NodeState, observation: Observation, watched: Watched, progress: Progress
) -> tuple[NodeState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it; time has no part in it."""
    if isinstance(observation, RuleHit):
        return _after_hit(state, observation, watched), ()
    if not isinstance(observation, StepSeen):
        return state, ()
    if state.highest_step is not None and observation.step <= state.highest_step:
        return state, ()
    state = replace(state, highest_step=observation.step, steps=state.steps + 1)
    if not state.waiting or state.steps < STEPS_AFTER:
        return state, ()
    findings = tuple(_finding(hit, watched, progress, few=_is_few(state, hit, watched)) for hit in state.waiting)
    told = state.told | {_key(hit) for hit in state.waiting}
    return replace(state, waiting=(), told=told), findings


def calls_for_isolation(hit: RuleHit, watched: Watched) -> bool:
    """Whether the next attempt is better off without the node, by its rule."""
    excludes = hit.restart is RestartHint.EXCLUDE and hit.role in (Role.ROOT, Role.MAYBE)
    return excludes or hit.rule in watched.isolating


def _after_hit(state: NodeState, hit: RuleHit, watched: Watched) -> NodeState:
    if not _is_wanted(hit, watched) or hit.node not in watched.nodes:
        return state
    if len(state.seen) < SEEN_AT_MOST and _key(hit) not in state.seen:
        state = replace(state, seen=state.seen | {_key(hit)})
    if _key(hit) in state.told:
        return state
    if any(_key(each) == _key(hit) for each in state.waiting):
        return state
    known = [*state.told, *(_key(each) for each in state.waiting)]
    if len(known) >= FINDINGS_AT_MOST or sum(key.endswith(f" {hit.symptom}") for key in known) >= OF_A_SYMPTOM:
        return state
    return replace(state, waiting=(*state.waiting, hit), steps=0)


def _is_wanted(hit: RuleHit, watched: Watched) -> bool:
    if hit.scope is Scope.KERNEL:
        return hit.role is Role.ROOT
    if hit.scope is not Scope.METRICS or hit.suspect not in _OF_A_NODE or hit.role not in _ROLES:
        return False
    return hit.domain in _DOMAINS or Sign.NODE_SILENT in watched.signs_of(hit)


def _key(hit: RuleHit) -> str:
    return f"{hit.node} {hit.symptom}"


def _is_few(state: NodeState, hit: RuleHit, watched: Watched) -> bool:
    """Whether few nodes of the attempt show what this one shows: a state of all of them is how the site is made."""
    return is_few(sum(key.endswith(f" {hit.symptom}") for key in state.seen), watched)


def _finding(hit: RuleHit, watched: Watched, progress: Progress, *, few: bool) -> Finding:
    isolate = (str(hit.node),) if few and calls_for_isolation(hit, watched) else ()
    later = "; it is left out of the next attempt if this one ends badly" if isolate else ""
    return Finding(
        id=stable_id("f", watched.attempt, NAME, _key(hit), position_of(hit)),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.NODE_HEALTH,
        certainty=Certainty.SUSPECTED,
        symptom=hit.symptom,
        summary=f"{said(hit)}; training goes on{later}",
        first_evidence_at=time_of(hit),
        symptom_at=time_of(hit),
        hits=(hit,),
        counts={hit.rule: 1},
        signs=watched.signs_of(hit),
        progress=progress,
        isolate=isolate,
    )
