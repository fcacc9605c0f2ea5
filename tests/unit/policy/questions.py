"""Builders for the policy tests: one question with everything in order, to be changed by `with_`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relance.domain.advice import Advice, Answer, Exclusion, Guard
from relance.domain.clocks import Milestones
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.fleet import FleetView
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import Limits
from relance.domain.progress import Phase, Progress
from relance.domain.records import AttemptRecord, JobRecord
from relance.domain.verdicts import EarlierAttempt, Strength, Suspect, Verdict
from relance.domain.views import JobState, JobView, NodeState, NodeView, SchedulerFacts
from relance.policy import Question

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
FIRST = AttemptKey(job=JOB, restart_count=0)
NODES = tuple(f"n{number}" for number in range(1, 41))


def at(seconds: float) -> datetime:
    """A time that many seconds after the tests' beginning."""
    return AT + timedelta(seconds=seconds)


NOW = at(3700)
ENDED = at(3600)
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
    nodes=("n1", "n2", "n3", "n4"),
    node_count=4,
    started_at=at(10),
    ended_at=ENDED,
    exit_code=1,
    exit_signal=0,
    work_dir="/home/ada/run",
    script_id="s1",
    steps=(),
)
RUNNING = replace(FAILED, state=JobState.RUNNING, ended_at=None, exit_code=None, exit_signal=None)
REQUEUED = replace(RUNNING, state=JobState.PENDING, restart_count=1, submitted_at=at(3605), started_at=None, nodes=())
COPY = replace(RUNNING, raw_id="18", first_submitted_at=at(3650), submitted_at=at(3650), started_at=at(3660))
SUSPECT = Suspect(node="n2", strength=Strength.HARD, reason="gpu fell off bus")
WEAK = Suspect(node="n3", strength=Strength.WEAK, reason="pcie nonfatal")
STEPPING = Progress(
    as_of=at(3690), phase=Phase.TRAINING, first_step=1, first_step_at=at(60), step=900, step_at=at(3598),
    highest_step=900, steps_seen=900, median_step_s=4.0, checkpoint_begun=500, checkpoint_durable=500,
)  # fmt: skip
NO_PROGRESS = replace(STEPPING, first_step_at=at(3300), checkpoint_durable=None)


def question() -> Question:
    """A failed job of four nodes in a partition of forty, with a hard suspect, and nothing against a restart."""
    verdict = Verdict(
        domain=FaultDomain.HARDWARE,
        cause="gpu_fell_off_bus",
        summary="gpu fell off bus on n2",
        remedy=Remedy.RESTART_EXCLUDING,
        remedy_reason="it runs on without n2",
        confidence=0.9,
        fingerprint="fp-1",
        suspects=(SUSPECT,),
        proven_death=True,
        last_root_at=at(3601),
    )
    return Question(
        incident=Incident(
            id="inc-1", attempt=FIRST, state=IncidentState.JUDGED, opened_at=at(3601), times=Milestones(),
            findings=("fnd-1",), verdict=verdict,
        ),
        record=JobRecord(
            job=JOB, name="train", user="ada", owner_uid=1000, partition="gpu", node_count=4,
            attempts=(AttemptRecord(attempt=FIRST, nodes=FAILED.nodes, started_at=at(10), ended_at=ENDED,
                                    outcome=JobState.FAILED),),
        ),
        verdict=verdict,
        progress=STEPPING,
        fleet=FleetView(
            as_of=at(3698),
            facts=SchedulerFacts(release="22.05.8", booted_at=at(-9000), may_act=True),
            job=FAILED,
            nodes=tuple(NodeView(name=name, state=NodeState.IDLE, partitions=("gpu",)) for name in NODES),
        ),
        limits=Limits(),
        earlier=(),
        now=NOW,
        generation=1,
    )  # fmt: skip


def with_(asked: Question, **changes: Any) -> Question:  # noqa: ANN401 - any field of the values in a question
    """The question with fields of its parts changed: `job__state=…`, `verdict__remedy=…`, `limits__settle_s=…`."""
    parts: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for name, value in changes.items():
        part, _, field = name.partition("__")
        if field:
            parts.setdefault(part, {})[field] = value
        else:
            own[part] = value
    if "job" in own:
        asked = replace(asked, fleet=replace(asked.fleet, job=own.pop("job")))
    if "job" in parts:
        assert asked.fleet.job is not None
        asked = replace(asked, fleet=replace(asked.fleet, job=replace(asked.fleet.job, **parts.pop("job"))))
    for part, fields in parts.items():
        asked = replace(asked, **{part: replace(getattr(asked, part), **fields)})
    return replace(asked, **own)


def running(asked: Question) -> Question:
    """The same while the attempt still runs."""
    going = AttemptRecord(attempt=FIRST, nodes=FAILED.nodes, started_at=at(10))
    return with_(asked, job=RUNNING, record__attempts=(going,))


def restarted(
    count: int,
    *,
    progress: bool | None = False,
    fingerprint: str = "fp-1",
    **changes: Any,  # noqa: ANN401 - any field of an earlier attempt
) -> EarlierAttempt:
    """An earlier attempt after which we started the job again."""
    first = EarlierAttempt(
        attempt=AttemptKey(job=JOB, restart_count=count),
        nodes=FAILED.nodes,
        ended_at=at(3000 + count),
        cause="gpu_fell_off_bus",
        fingerprint=fingerprint,
        made_progress=progress,
        restarted_by_us=True,
    )
    return replace(first, **changes)


def kept_out(node: str, job: str | None = str(JOB), until: datetime | None = None) -> Exclusion:
    """A node that is kept out already."""
    return Exclusion(cluster="alpha", node=node, reason="before", owner="relance", since=at(0), until=until, job=job)


def guard(advice: Advice, name: str) -> Guard:
    """One guard of an advice."""
    return next(item for item in advice.guards if item.name == name)


def answers(advice: Advice) -> dict[str, Answer]:
    """The answers of all guards by name."""
    return {item.name: item.answer for item in advice.guards}
