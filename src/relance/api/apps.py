"""The application: routes, checks and the one error shape, over the parts that the wiring hands in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from relance.api import agents, decisions, health, reads, requests, tokens
from relance.api.access import Reader
from relance.api.metrics import Metrics
from relance.ports.histories import HistoryError
from relance.serving.feeds import Feeds
from relance.serving.parts import ServerParts
from relance.serving.problems import KNOWN_ERRORS, Problem, ProblemError, problem_of, problem_of_status
from relance.serving.requests import RequestChecks, problem_response

PREFIX = "/api/v1"

_log = structlog.get_logger("relance.api")


def create_app(server: ServerParts, pages: ASGIApp | None = None) -> FastAPI:
    """The HTTP server of these parts. `pages`, the console, answers everything that the API does not."""
    feeds = Feeds(server)
    metrics = Metrics(server, feeds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with suppress(HistoryError):  # then they begin to count at the first scrape
            await metrics.start()
        yield

    # no pages of documentation: they would load scripts from elsewhere
    app = FastAPI(
        title="Relance",
        version=version("relance"),
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts, app.state.feeds, app.state.metrics = server, feeds, metrics
    app.include_router(health.router)
    for router in (reads.router, decisions.router, requests.router, tokens.router, agents.router):
        app.include_router(router, prefix=PREFIX)
    app.add_api_route(f"{PREFIX}/openapi.json", _openapi, methods=["GET"], tags=["health"])
    app.mount("/api", _nothing_here)
    app.add_exception_handler(ProblemError, _known)
    for kind in KNOWN_ERRORS:
        app.add_exception_handler(kind, _known)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unknown)
    app.add_middleware(RequestChecks, web=server.web)
    if pages is not None:
        app.mount("/", pages)
    return app


async def _nothing_here(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """What is below /api and not above is nowhere; the console does not answer for it."""
    raise HTTPException(404, "no such address, or not with this method")


async def _openapi(request: Request, _: Reader) -> JSONResponse:
    """This API's description."""
    app: FastAPI = request.app
    return JSONResponse(app.openapi())


async def _known(_: Request, error: Exception) -> JSONResponse:
    problem = problem_of(error)
    return problem_response(problem, {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None)  # noqa: PLR2004 - HTTP


async def _plain(_: Request, error: Exception) -> JSONResponse:
    status_code = getattr(error, "status_code", 500)
    return problem_response(problem_of_status(status_code, str(getattr(error, "detail", ""))))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    message = "; ".join(f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in faults[:5])
    problem = problem_of_status(422, message)
    return problem_response(
        Problem(status=problem.status, code="bad_input", message=message, remedy=f"see {PREFIX}/openapi.json")
    )


async def _gone(_: Request, __: Exception) -> JSONResponse:
    """An agent that was killed while it sent something is no failure of ours; nobody reads the answer."""
    return problem_response(problem_of_status(400, "the request ended before its end"))


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    _log.error("request_failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return problem_response(problem_of(error))
