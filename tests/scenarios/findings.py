"""Findings for scenarios, with the hits that decide what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, OddNode, RuleHit, Sign
from relance.domain.keys import AttemptKey, stable_id


def fell_off_the_bus(attempt: AttemptKey, node: str, at: datetime) -> Finding:
    """The kernel of a node says that a GPU is gone."""
    hit = _hit("xid.79", "gpu_fell_off_bus", FaultDomain.HARDWARE, RestartHint.EXCLUDE, at, attempt)
    kernel = RuleHit(
        rule=hit.rule,
        symptom=hit.symptom,
        domain=hit.domain,
        role=Role.ROOT,
        suspect=SuspectKind.SELF,
        restart=hit.restart,
        weight=1.0,
        scope=Scope.KERNEL,
        seen_at=at,
        at=at,
        node=node,
        device="GPU 3",
        file=f"/var/log/{node}/kern.log",
        offset=attempt.restart_count * 1000,
        excerpt="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    )
    return _finding(attempt, FindingKind.CRASH, "gpu_fell_off_bus", at, (kernel,), frozenset({Sign.KERNEL}))


def cuda_error(attempt: AttemptKey, node: str, rank: int, at: datetime) -> Finding:
    """A rank says that CUDA failed: it may be the node or the program."""
    hit = _hit("cuda.error", "cuda_launch_failure", FaultDomain.HARDWARE, RestartHint.EXCLUDE, at, attempt,
               role=Role.MAYBE, suspect=SuspectKind.SELF, rank=rank, node=node)  # fmt: skip
    return _finding(attempt, FindingKind.CRASH, hit.symptom, at, (hit,))


def own_bug(attempt: AttemptKey, at: datetime, hint: RestartHint = RestartHint.ONCE) -> Finding:
    """The program's own code raises."""
    hit = _hit("python.traceback", "python_exception", FaultDomain.APPLICATION, hint, at, attempt, rank=0)
    return _finding(attempt, FindingKind.CRASH, hit.symptom, at, (hit,))


def killed_rank(attempt: AttemptKey, at: datetime) -> Finding:
    """The launcher says that a rank was killed."""
    hit = _hit("srun.killed", "task_killed", FaultDomain.UNKNOWN, RestartHint.NOTHING, at, attempt, rank=3,
               scope=Scope.SCHEDULER)  # fmt: skip
    return _finding(attempt, FindingKind.CRASH, hit.symptom, at, (hit,), frozenset({Sign.PROCESS_DEATH}))


def silence(
    attempt: AttemptKey, at: datetime, certainty: Certainty = Certainty.SUSPECTED, *signs: Sign, since: datetime
) -> Finding:
    """No step since a time."""
    return Finding(
        id=stable_id("fnd", attempt, "hang", certainty.value, since),
        attempt=attempt,
        detector="hang",
        kind=FindingKind.HANG,
        certainty=certainty,
        symptom="hang" if certainty is Certainty.CONFIRMED else "hang_suspected",
        summary="no step",
        first_evidence_at=at,
        symptom_at=since,
        signs=frozenset(signs),
    )


def failing_node(attempt: AttemptKey, node: str, at: datetime) -> Finding:
    """Rows of a GPU's memory wait for a reset, by its metric, while training goes on."""
    hit = _hit("metric-remap-pending", "row_remap_pending", FaultDomain.HARDWARE, RestartHint.NOTHING, at, attempt,
               role=Role.CONTEXT, suspect=SuspectKind.SELF, scope=Scope.METRICS, node=node)  # fmt: skip
    found = _finding(attempt, FindingKind.NODE_HEALTH, hit.symptom, at, (hit,))
    return replace(found, certainty=Certainty.SUSPECTED, isolate=(node,))


def standstill_of(attempt: AttemptKey, at: datetime, *signs: Sign, node: str, since: datetime) -> Finding:
    """A confirmed hang in which a node stands out by these signs."""
    found = silence(attempt, at, Certainty.CONFIRMED, *signs, since=since)
    return replace(found, odd=(OddNode(node=node, by=frozenset(signs)),))


def slow(attempt: AttemptKey, at: datetime) -> Finding:
    """Steps take longer, lastingly."""
    return _finding(attempt, FindingKind.SLOWDOWN, "slowdown", at, ())


def diverging(attempt: AttemptKey, at: datetime) -> Finding:
    """The loss ran away."""
    return _finding(attempt, FindingKind.DIVERGENCE, "loss_nan", at, ())


def did_not_resume(attempt: AttemptKey, at: datetime) -> Finding:
    """The attempt began below the last durable checkpoint."""
    return _finding(attempt, FindingKind.DID_NOT_RESUME, "did_not_resume", at, ())


def storage_away(attempt: AttemptKey, at: datetime) -> Finding:
    """The file system does not answer."""
    hit = _hit("nfs.stall", "nfs_stall", FaultDomain.STORAGE, RestartHint.WAIT, at, attempt, suspect=SuspectKind.ALL)
    return _finding(attempt, FindingKind.CRASH, hit.symptom, at, (hit,))


def _hit(
    rule: str,
    symptom: str,
    domain: FaultDomain,
    hint: RestartHint,
    at: datetime,
    attempt: AttemptKey,
    *,
    role: Role = Role.ROOT,
    suspect: SuspectKind = SuspectKind.NONE,
    scope: Scope = Scope.APPLICATION,
    rank: int | None = None,
    node: str | None = None,
) -> RuleHit:  # fmt: skip
    return RuleHit(
        rule=rule,
        symptom=symptom,
        domain=domain,
        role=role,
        suspect=suspect,
        restart=hint,
        weight=1.0,
        scope=scope,
        seen_at=at,
        at=at,
        rank=rank,
        node=node,
        file="/home/ada/train.log",
        offset=attempt.restart_count * 1000,
        excerpt=symptom,
    )


def _finding(
    attempt: AttemptKey,
    kind: FindingKind,
    symptom: str,
    at: datetime,
    hits: tuple[RuleHit, ...],
    signs: frozenset[Sign] = frozenset(),
) -> Finding:
    return Finding(
        id=stable_id("fnd", attempt, kind.value, symptom, at),
        attempt=attempt,
        detector=kind.value,
        kind=kind,
        certainty=Certainty.CONFIRMED,
        symptom=symptom,
        summary=symptom,
        first_evidence_at=at,
        symptom_at=at,
        hits=hits,
        counts={hit.rule: 1 for hit in hits},
        signs=signs,
    )
