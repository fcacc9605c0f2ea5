"""Node health: a node of the attempt shows a hardware sign while training goes on. Told, never acted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from relance.detectors.evidence import position_of, said, time_of
from relance.detectors.watched import Watched
from relance.domain.faults import Role, Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit
from relance.domain.keys import stable_id
from relance.domain.observations import Observation
from relance.domain.progress import Progress, StepSeen

NAME: Final = "node"
STEPS_AFTER: Final = 2
"""So many new steps after a sign show that training goes on."""
FINDINGS_AT_MOST: Final = 8
_WAITING_AT_MOST: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """Signs that wait for the steps that follow them; `told` are nodes and symptoms of which it was told."""

    version: int = 1
    waiting: tuple[RuleHit, ...] = ()
    highest_step: int | None = None
    steps: int = 0
    told: frozenset[str] = frozenset()


def step(
    state: NodeState, observation: Observation, watched: Watched, progress: Progress
) -> tuple[NodeState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it; time has no part in it."""
    if isinstance(observation, RuleHit):
        wanted = observation.scope is Scope.KERNEL and observation.role is Role.ROOT
        if not wanted or observation.node not in watched.nodes or _key(observation) in state.told:
            return state, ()
        if len(state.waiting) >= _WAITING_AT_MOST or any(_key(hit) == _key(observation) for hit in state.waiting):
            return state, ()
        return replace(state, waiting=(*state.waiting, observation), steps=0), ()
    if not isinstance(observation, StepSeen):
        return state, ()
    if state.highest_step is not None and observation.step <= state.highest_step:
        return state, ()
    state = replace(state, highest_step=observation.step, steps=state.steps + 1)
    if not state.waiting or state.steps < STEPS_AFTER:
        return state, ()
    room = max(FINDINGS_AT_MOST - len(state.told), 0)
    findings = tuple(_finding(hit, watched, progress) for hit in state.waiting[:room])
    told = state.told | {_key(hit) for hit in state.waiting}
    return replace(state, waiting=(), told=told), findings


def _key(hit: RuleHit) -> str:
    return f"{hit.node} {hit.symptom}"


def _finding(hit: RuleHit, watched: Watched, progress: Progress) -> Finding:
    return Finding(
        id=stable_id("f", watched.attempt, NAME, _key(hit), position_of(hit)),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.NODE_HEALTH,
        certainty=Certainty.SUSPECTED,
        symptom=hit.symptom,
        summary=f"{said(hit)}; training goes on",
        first_evidence_at=time_of(hit),
        symptom_at=time_of(hit),
        hits=(hit,),
        counts={hit.rule: 1},
        signs=watched.signs_of(hit),
        progress=progress,
    )
