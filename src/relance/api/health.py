"""Is it alive, is it ready, and its own metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from relance.api.access import Parts, Reader
from relance.api.metrics import CONTENT_TYPE, Metrics
from relance.ports.histories import HistoryError

router = APIRouter(tags=["health"])

_READY_S = 5.0


@router.get("/healthz")
async def healthz() -> dict[str, bool]:
    """The process answers. Needs no token."""
    return {"ok": True}


@router.get("/readyz")
async def readyz(parts: Parts) -> JSONResponse:
    """The history can be read. Needs no token and says nothing else."""
    try:
        async with asyncio.timeout(_READY_S):
            await parts.history.head()
    except (HistoryError, TimeoutError):
        return JSONResponse({"ok": False}, status_code=503)
    return JSONResponse({"ok": True})


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, _: Reader) -> Response:
    """Our own metrics in the text format of Prometheus."""
    measured: Metrics = request.app.state.metrics
    return Response(await measured.scrape(), media_type=CONTENT_TYPE)
