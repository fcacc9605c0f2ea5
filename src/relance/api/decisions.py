"""What people may order. Each becomes an event with the name that the token carries."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import JSONResponse

from relance.api.access import Decider, DeciderOrOwner, Ordering, Parts
from relance.api.answering import answer
from relance.api.owned import check_switch, ordered
from relance.api.schemas import Approval, Denial, Disagreement, StageOrder, StormEnd, SwitchOrder
from relance.domain.events import AdviceApproved, AdviceDenied, StormCleared
from relance.domain.records import ClusterRecord
from relance.domain.stages import StageSetting
from relance.domain.streams import Stream
from relance.recovery.commands import Choice, raises_stage
from relance.recovery.rows import JobStage
from relance.recovery.subjects import NotKnownError
from relance.serving.identities import Right
from relance.serving.parts import ServerParts
from relance.serving.problems import NOT_ALLOWED, ProblemError

router = APIRouter(tags=["deciding"])


@router.put("/stages", response_model=list[StageSetting])
async def set_stages(who: Decider, parts: Parts, order: Ordering, body: StageOrder) -> JSONResponse:
    """Set a stage. Whoever may decide may lower one; raising it, or consenting to more, takes an admin.

    A stage that would have us act is refused on a cluster that is not fit for it: then none is set.
    """
    clusters = await _clusters(parts, body.cluster)
    if body.partition is not None:
        await _check_partition(parts, clusters, body.partition)
    raised = [record for record in clusters if raises_stage(record, body.partition, body.stage, body.end_running)]
    if raised and not who.may(Right.GOVERN):
        raise ProblemError(NOT_ALLOWED)
    for record in raised:
        await order.check_fit(record.cluster, body.stage)
    settings = [
        await order.set_stage(record.cluster, body.partition, body.stage, body.end_running, who.name)
        for record in clusters
    ]
    return answer(settings)


@router.post("/jobs/{job:path}/switch", response_model=JobStage)
async def switch_job(who: DeciderOrOwner, parts: Parts, order: Ordering, job: str, body: SwitchOrder) -> JSONResponse:
    """Set or lift the ceiling of one job; gives the stage that it has then. An owner may only lower an own job's."""
    key, by = await ordered(who, parts, job)
    await check_switch(who, parts, key, body.stage)
    until = parts.clock.now() + timedelta(seconds=body.for_s) if body.for_s is not None else None
    record = await order.switch_job(key, body.stage, by, until, body.reason)
    return answer(await parts.queries().job_stage(str(record.job)))


@router.post("/jobs/{job:path}/disagree", response_model=JobStage)
async def disagree(who: DeciderOrOwner, parts: Parts, order: Ordering, job: str, body: Disagreement) -> JSONResponse:
    """Say that the verdict is wrong; gives the stage that the job has then."""
    key, by = await ordered(who, parts, job)
    record = await order.disagree(key, by, body.text)
    return answer(await parts.queries().job_stage(str(record.job)))


@router.post("/advice/{advice}/approve", response_model=AdviceApproved)
async def approve(who: Decider, parts: Parts, order: Ordering, advice: str, body: Approval) -> JSONResponse:
    """Say yes to one generation of advice and to the effect shown."""
    until = parts.clock.now() + timedelta(seconds=body.for_s) if body.for_s is not None else None
    choice = Choice(advice_id=advice, generation=body.generation, effect_digest=body.effect_digest)
    return answer(await order.approve(choice, who.name, until))


@router.post("/advice/{advice}/deny", response_model=AdviceDenied)
async def deny(who: Decider, order: Ordering, advice: str, body: Denial) -> JSONResponse:
    """Say no to one generation of advice."""
    return answer(await order.deny(Choice(advice_id=advice, generation=body.generation), who.name, body.reason))


@router.post("/clusters/{cluster}/storm/clear", response_model=StormCleared)
async def clear_storm(who: Decider, order: Ordering, cluster: str, body: StormEnd) -> JSONResponse:
    """Let restarts come back after a storm."""
    return answer(await order.open_storm_bucket(cluster, who.name, body.reason, body.storm_id))


async def _clusters(parts: ServerParts, cluster: str | None) -> list[ClusterRecord]:
    """The clusters that are meant: a stage for a name that nobody serves would be a stage for nothing."""
    known = {record.cluster: record for record in await parts.history.clusters()}
    if cluster is None and known:
        return list(known.values())
    if cluster is not None and cluster in known:
        return [known[cluster]]
    if cluster is not None and await parts.history.report(cluster) is not None:
        record = (await parts.history.load(Stream.of_cluster(cluster))).record
        return [record] if isinstance(record, ClusterRecord) else []
    names = ", ".join(sorted(known)) or "none yet: a controller has to report first"
    raise NotKnownError(f"no such cluster: {cluster!r}; known: {names}")


async def _check_partition(parts: ServerParts, clusters: list[ClusterRecord], partition: str) -> None:
    """A misspelt partition would be taken for stopped while the one that was meant goes on. Raises NotKnownError.

    One that had a stage before may be gone by now; where the nodes do not tell their partitions, any name is taken.
    """
    known: set[str] = set()
    for record in clusters:
        newest = parts.live.reports.get(record.cluster) if parts.live else None
        report = newest or await parts.history.report(record.cluster)
        named = {name for node in (report.nodes if report else ()) for name in node.partitions}
        if not named or partition in named or partition in record.partitions:
            return
        known |= named
    raise NotKnownError(f"no such partition: {partition!r}; known: {', '.join(sorted(known))}")
