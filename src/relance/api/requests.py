"""What people may ask Relance to do to a job or a node. The controller carries it out, or says why not."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse

from relance.api.access import Decider, Parts, Reader
from relance.api.answering import answer
from relance.api.schemas import JobRequest, NodeRequest
from relance.domain.requests import Request, RequestRecord, RequestVerb
from relance.recovery.requesting import Wanted

router = APIRouter(tags=["asking"])


@router.post("/jobs/{job:path}/requests", response_model=Request)
async def ask_of_job(who: Decider, parts: Parts, job: str, body: JobRequest) -> JSONResponse:
    """Ask for a job to be cancelled, held or released; the answer is what was asked, not what came of it."""
    wanted = Wanted(
        verb=RequestVerb(body.verb), reason=body.reason, by=who.name, restart_count=body.restart_count
    )  # fmt: skip
    return answer(await parts.requesting().of_job(job, wanted))


@router.get("/jobs/{job:path}/requests", response_model=list[RequestRecord])
async def requests_of_job(_: Reader, parts: Parts, job: str) -> JSONResponse:
    """What was asked about a job and what came of it, oldest first."""
    return answer(await parts.requesting().of_jobs_record(job))


@router.post("/clusters/{cluster}/nodes/{node}/requests", response_model=Request)
async def ask_of_node(who: Decider, parts: Parts, cluster: str, node: str, body: NodeRequest) -> JSONResponse:
    """Ask for a node to be quarantined or drained for a while, or returned."""
    wanted = Wanted(verb=RequestVerb(body.verb), reason=body.reason, by=who.name, for_s=body.for_s)
    return answer(await parts.requesting().of_node(cluster, node, wanted))


@router.get("/clusters/{cluster}/nodes/{node}/requests", response_model=list[RequestRecord])
async def requests_of_node(_: Reader, parts: Parts, cluster: str, node: str) -> JSONResponse:
    """What was asked about a node and what came of it, oldest first."""
    return answer(await parts.requesting().of_nodes_record(cluster, node))
