"""The console's application: its addresses, and errors as pages."""

from __future__ import annotations

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from relance.console import assets, doors, forms, requests, views
from relance.console.rendering import render
from relance.serving.parts import ServerParts
from relance.serving.problems import KNOWN_ERRORS, Problem, ProblemError, problem_of, problem_of_status

_log = structlog.get_logger("relance.console")


def create_console(server: ServerParts) -> Starlette:
    """The console of these parts; mounted behind the API's checks, which every request passes first."""
    app = Starlette(
        routes=[
            Route("/", views.overview),
            Route("/login", doors.login_page),
            Route("/login", doors.log_in, methods=["POST"]),
            Route("/logout", doors.log_out, methods=["POST"]),
            Route("/incidents", views.incidents),
            Route("/incidents/{incident}", views.incident),
            Route("/storms/{storm}", views.storm),
            Route("/jobs", views.jobs),
            Route("/jobs/{job:path}/disagree", forms.disagree, methods=["POST"]),
            Route("/jobs/{job:path}/switch", forms.switch, methods=["POST"]),
            Route("/jobs/{job:path}/requests", requests.ask_of_job, methods=["POST"]),
            Route("/jobs/{job:path}", views.job),
            Route("/nodes/{cluster}/{node}", requests.node),
            Route("/nodes/{cluster}/{node}/requests", requests.ask_of_node, methods=["POST"]),
            Route("/advice/{advice}/approve", forms.approve, methods=["POST"]),
            Route("/advice/{advice}/deny", forms.deny, methods=["POST"]),
            Route("/clusters/{cluster}/observe", forms.observe, methods=["POST"]),
            Route("/clusters/{cluster}/storm/clear", forms.clear_storm, methods=["POST"]),
            Route("/parts/overview", views.overview_part),
            Route("/parts/incidents/{incident}/summary", views.incident_summary),
            Route("/parts/incidents/{incident}/decision", views.incident_decision),
            Route("/parts/incidents/{incident}/story", views.incident_story),
            Route("/parts/jobs/{job:path}", views.job_part),
            Route("/static/{mark}/{name}", assets.serve_asset),
        ],
        exception_handlers={
            doors.LoginNeededError: doors.ask_to_log_in,
            HTTPException: _plain,
            Exception: _unknown,
            **dict.fromkeys((ProblemError, *KNOWN_ERRORS), _known),
        },
    )
    app.state.parts = server
    return app


async def _known(_: Request, error: Exception) -> Response:
    return _page(problem_of(error))


async def _plain(_: Request, error: Exception) -> Response:
    return _page(problem_of_status(getattr(error, "status_code", 500), ""))


async def _unknown(request: Request, error: Exception) -> Response:
    _log.error("page_failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return _page(problem_of(error))


def _page(problem: Problem) -> Response:
    return render("error.html", problem.status, problem=problem)
