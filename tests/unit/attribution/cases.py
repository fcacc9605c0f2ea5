"""Builders for the attribution tests: lines that rules matched, and cases made of them, in few words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Coverage, Finding, FindingKind, RuleHit, Sight, Sign
from relance.domain.keys import AttemptKey, JobKey, stable_id
from relance.domain.progress import Phase, Progress
from relance.domain.verdicts import CaseFile, EarlierAttempt
from relance.domain.views import JobState, JobView, NodeState, NodeView

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
FIRST = AttemptKey(job=JOB, restart_count=0)
NODES = ("n1", "n2", "n3", "n4")
RANKS = {rank: NODES[rank // 2] for rank in range(8)}
FAILED = JobView(
    raw_id="17",
    first_submitted_at=AT,
    submitted_at=AT,
    restart_count=0,
    name="train",
    user="ada",
    owner_uid=1000,
    partition="gpu",
    state=JobState.FAILED,
    nodes=NODES,
    node_count=4,
    started_at=AT,
    ended_at=AT + timedelta(seconds=200),
    exit_code=1,
    exit_signal=0,
    steps=(),
)
RUNNING = replace(FAILED, state=JobState.RUNNING, ended_at=None, exit_code=None, exit_signal=None)


def at(seconds: float) -> datetime:
    """A time that many seconds after the attempt began."""
    return AT + timedelta(seconds=seconds)


def hit(symptom: str, when: float, **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A root line of the job's own output; read a second after it was written."""
    first = RuleHit(
        rule=symptom.replace("_", "-"),
        symptom=symptom,
        domain=FaultDomain.APPLICATION,
        role=Role.ROOT,
        suspect=SuspectKind.NONE,
        restart=RestartHint.ONCE,
        weight=0.9,
        scope=Scope.APPLICATION,
        seen_at=at(when + 1),
        at=at(when),
        file="job.log",
        offset=int(when * 100),
        excerpt=f"{symptom} happened",
    )
    return replace(first, **changes)


def key_error(when: float, rank: int = 3, **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A traceback of the job's own code."""
    fields = {
        "rank": rank,
        "excerpt": f"[rank{rank}]:     row = table[key]\n[rank{rank}]: KeyError: 'tokens_{rank}'",
        "captures": {"exception": "KeyError", "frame": "/home/ada/train.py:41 in read"},
    }
    return replace(hit("python_exception", when), **{**fields, **changes})


def xid79(when: float, node: str = "n2", **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A GPU that has fallen off the bus, in a node's kernel log."""
    fields = {
        "domain": FaultDomain.HARDWARE,
        "suspect": SuspectKind.SELF,
        "restart": RestartHint.EXCLUDE,
        "scope": Scope.KERNEL,
        "node": node,
        "device": "0000:5e:00",
        "file": f"{node}/kern.log",
        "excerpt": f"{node} kernel: NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.",
    }
    return replace(hit("gpu_fell_off_bus", when), **{**fields, **changes})


def xid31(when: float, node: str = "n2", device: str = "0000:18:00") -> RuleHit:
    """A page fault on a GPU: the application's, unless the same GPU repeats."""
    return hit(
        "gpu_page_fault", when, scope=Scope.KERNEL, node=node, device=device, file=f"{node}/kern.log",
        suspect=SuspectKind.SELF,
    )  # fmt: skip


def killed(when: float, rank: int = 3, node: str = "n2") -> RuleHit:
    """A rank that was killed, as srun tells it."""
    return hit(
        "task_killed", when, domain=FaultDomain.UNKNOWN, role=Role.MAYBE, suspect=SuspectKind.PEER,
        restart=RestartHint.NOTHING, rank=rank, captures={"node": node, "task": str(rank), "signal": "Killed"},
        excerpt=f"srun: error: {node}: task {rank}: Killed", weight=0.5,
    )  # fmt: skip


def launch_failure(when: float, rank: int = 3) -> RuleHit:
    """A CUDA error that does not say why."""
    return hit(
        "launch_failure", when, domain=FaultDomain.UNKNOWN, role=Role.MAYBE, suspect=SuspectKind.RANK,
        restart=RestartHint.OK, rank=rank, excerpt=f"[rank{rank}]: CUDA error: unspecified launch failure", weight=0.6,
    )  # fmt: skip


def teardown(when: float, symptom: str = "step_teardown") -> RuleHit:
    """A mark that the shut-down has begun."""
    return hit(symptom, when, domain=FaultDomain.UNKNOWN, role=Role.TEARDOWN, restart=RestartHint.NOTHING)


def timeout(when: float, rank: int) -> RuleHit:
    """A collective that ran into its time-out: a consequence, whoever logs it."""
    return hit(
        "collective_timeout", when, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, restart=RestartHint.OK, rank=rank
    )


def finding(*hits: RuleHit, kind: FindingKind = FindingKind.CRASH, **changes: Any) -> Finding:  # noqa: ANN401 - any field
    """A finding of these hits."""
    first = Finding(
        id=stable_id("fnd", kind, *(item.offset for item in hits)),
        attempt=FIRST,
        detector="crash",
        kind=kind,
        certainty=Certainty.CONFIRMED,
        symptom=hits[0].symptom if hits else kind.value,
        summary="seen in the tests",
        first_evidence_at=hits[0].when if hits else at(100),
        symptom_at=at(100),
        hits=hits,
        signs=frozenset({Sign.PROCESS_DEATH}) if any(item.symptom == "task_killed" for item in hits) else frozenset(),
    )
    return replace(first, **changes)


def case(*hits: RuleHit, job: JobView | None = FAILED, **changes: Any) -> CaseFile:  # noqa: ANN401 - any field
    """A case of a failed job on four nodes, two ranks each, with these hits in one finding."""
    first = CaseFile(
        incident_id="inc-1",
        attempt=FIRST,
        as_of=at(300),
        nodes=NODES,
        rank_to_node=RANKS,
        job=job,
        findings=(finding(*hits),) if hits else (),
        coverage=(Coverage(source="job.log", sight=Sight.SEEN, up_to=at(300)),),
    )
    return replace(first, **changes)


def trained_until(when: float, median_s: float = 1.0) -> Progress:
    """Progress whose last step was at that time."""
    return Progress(
        as_of=at(300), phase=Phase.TRAINING, first_step=1, first_step_at=at(10), step=100, step_at=at(when),
        highest_step=100, steps_seen=100, median_step_s=median_s, checkpoint_begun=50, checkpoint_durable=50,
    )  # fmt: skip


def earlier(fingerprint: str, count: int = 0, *, progress: bool | None = False, **changes: Any) -> EarlierAttempt:  # noqa: ANN401 - any field
    """An earlier attempt that we restarted."""
    first = EarlierAttempt(
        attempt=AttemptKey(job=JOB, restart_count=count),
        nodes=NODES,
        ended_at=at(-1000 + count),
        fingerprint=fingerprint,
        made_progress=progress,
        restarted_by_us=True,
    )
    return replace(first, **changes)


def down(node: str, reason: str = "Not responding", **changes: Any) -> NodeView:  # noqa: ANN401 - any field
    """A node that the scheduler lost."""
    return replace(NodeView(name=node, state=NodeState.DOWN, reason=reason, since=at(150)), **changes)
