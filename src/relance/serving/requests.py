"""Checks on every request before anything else sees it, and the headers on every response.

Host and Origin keep other sites' pages and rebound names out; the limit on bodies keeps memory bounded; the
content-security policy lets a page load and send nothing but our own.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relance.serving.identities import SESSION_COOKIE
from relance.serving.parts import WebSettings
from relance.serving.problems import FOREIGN_HOST, FOREIGN_ORIGIN, TOO_LARGE, Problem

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # not `no-referrer`: with that a browser sends `Origin: null` with our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_AGENTS = "/api/v1/agents/"
_PROBES = frozenset({"/healthz", "/readyz"})
"""Asked by address, from machines that know no name of ours, and the same for everybody."""


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """The one JSON shape of every error."""
    content = {"error": {"code": problem.code, "message": problem.message, "remedy": problem.remedy}}
    return JSONResponse(content, status_code=problem.status, headers=headers)


class RequestChecks:
    """ASGI middleware with the checks and headers that every request and response gets."""

    def __init__(self, app: ASGIApp, web: WebSettings) -> None:
        """Stand before `app`."""
        self._app = app
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a bounded body and our headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = self._web.agent_body_bytes if scope["path"].startswith(_AGENTS) else self._web.body_bytes
        refusal = None if scope["path"] in _PROBES else self._refusal(scope["method"], headers, limit)
        if refusal is not None:
            await problem_response(refusal)(scope, receive, _with_headers(send))
            return
        await self._app(scope, _bounded(receive, limit), _with_headers(send))

    def _refusal(self, method: str, headers: Headers, limit: int) -> Problem | None:
        if not self._web.allows_host(headers.get("host", "")):
            return FOREIGN_HOST
        if method not in _SAFE_METHODS and not self._origin_is_ours(headers):
            return FOREIGN_ORIGIN
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limit:
            return TOO_LARGE
        return None

    def _origin_is_ours(self, headers: Headers) -> bool:
        """A program sends no Origin; a browser does, with everything that changes something."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if origin is None:
            return site in ("same-origin", "none") and SESSION_COOKIE not in headers.get("cookie", "")
        return site == "same-origin" and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _bounded(receive: Receive, limit: int) -> Receive:
    """Receive at most so many bytes, also from a client that does not say how many it sends."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(TOO_LARGE.status, TOO_LARGE.message)
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
