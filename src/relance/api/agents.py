"""The agents' side of the one seam: each method of the port `Backend` as a route. Bodies are encoded domain values."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from relance.api.access import Parts, Reporter
from relance.api.answering import answer
from relance.api.schemas import OrdersQuestion
from relance.domain.advice import Claim, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.encoding import EncodingError, decode
from relance.domain.keys import AttemptKey
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestReport
from relance.domain.views import ClusterReport

router = APIRouter(prefix="/agents", tags=["agents"])

_INLINE_BYTES = 65536
"""A larger body is decoded in a thread, so that a big report does not hold up everybody else."""

Value = TypeVar("Value")


@router.get("/assignments")
async def assignments(_: Reporter, parts: Parts, cluster: str) -> JSONResponse:
    """The attempts that the cluster's watcher should follow."""
    return answer(await parts.backend.assignments(cluster))


@router.get("/checkpoint")
async def checkpoint(_: Reporter, parts: Parts, attempt: str) -> JSONResponse:
    """The watcher's last checkpoint of an attempt."""
    try:
        key = AttemptKey.parse(attempt)
    except ValueError as error:
        raise EncodingError(f"not an attempt key: {attempt!r}") from error
    return answer({"checkpoint": await parts.backend.checkpoint(key)})


@router.post("/submit")
async def submit(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """Findings, progress, coverage and checkpoint of one attempt (WatcherBatch)."""
    await parts.backend.submit(await _value(request, WatcherBatch))
    return answer({})


@router.post("/see")
async def see(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """How a watcher's sources stand (SightReport)."""
    await parts.backend.see(await _value(request, SightReport))
    return answer({})


@router.post("/report")
async def report(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """A whole look at a cluster (ClusterReport)."""
    await parts.backend.report(await _value(request, ClusterReport))
    return answer({})


@router.post("/orders")
async def orders(_: Reporter, parts: Parts, body: OrdersQuestion) -> JSONResponse:
    """Take or renew the lease and get the advice in force (Orders)."""
    return answer(await parts.backend.orders(body.cluster, body.holder))


@router.post("/claim")
async def claim(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """Begin to carry out an advice (Claim, answered with ClaimReply)."""
    return answer(await parts.backend.claim(await _value(request, Claim)))


@router.post("/record")
async def record(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """A step of a preparation or transaction (StepRecord)."""
    await parts.backend.record(await _value(request, StepRecord))
    return answer({})


@router.post("/evidence/claim")
async def claim_evidence(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """Begin to collect evidence of a suspected hang (EvidenceClaim, answered with ClaimReply)."""
    return answer(await parts.backend.claim_evidence(await _value(request, EvidenceClaim)))


@router.post("/evidence")
async def record_evidence(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """What would be run for evidence, or what came of it (EvidenceReport)."""
    await parts.backend.record_evidence(await _value(request, EvidenceReport))
    return answer({})


@router.post("/deed")
async def record_deed(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """What the watchdog did or would have done (WatchdogDeed)."""
    await parts.backend.record_deed(await _value(request, WatchdogDeed))
    return answer({})


@router.post("/requests/claim")
async def claim_request(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """Begin to carry out what a person asked for (RequestClaim, answered with ClaimReply)."""
    return answer(await parts.backend.claim_request(await _value(request, RequestClaim)))


@router.post("/requests")
async def record_request(_: Reporter, parts: Parts, request: Request) -> JSONResponse:
    """What came of what a person asked for (RequestReport)."""
    await parts.backend.record_request(await _value(request, RequestReport))
    return answer({})


@router.get("/wait")
async def wait(
    _: Reporter,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=2**63 - 1)],
    timeout_s: Annotated[float, Query(ge=0, le=600)],
) -> JSONResponse:
    """The history's head as soon as it is beyond a position, or after the time-out, which the server may shorten."""
    head = await parts.backend.wait(after, min(timeout_s, parts.web.longest_wait_s))
    return answer({"position": head})


async def _value(request: Request, kind: type[Value]) -> Value:
    """The value in a body. Raises EncodingError."""
    body = await request.body()
    if len(body) <= _INLINE_BYTES:
        return _decoded(body, kind)
    return await asyncio.to_thread(_decoded, body, kind)


def _decoded(body: bytes, kind: type[Value]) -> Value:
    try:
        data: Any = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise EncodingError("the body is not JSON") from error
    value: Value = decode(kind, data)
    return value


def _no_number(text: str) -> float:
    """NaN and Infinity are Python's own idea of JSON; in the history they would compare with nothing."""
    raise EncodingError(f"{text} is not a number")
