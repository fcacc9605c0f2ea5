"""Logging in and out, and who a request is from."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relance.console.rendering import render
from relance.serving.identities import SESSION_COOKIE, Identity, Right
from relance.serving.parts import ServerParts
from relance.serving.problems import FOREIGN_ORIGIN, NOT_ALLOWED, ProblemError

_TOKEN_CHARS = 200


class LoginNeededError(Exception):
    """Nobody is logged in."""


def parts_of(request: Request) -> ServerParts:
    """The parts that the console was created with."""
    parts: ServerParts = request.app.state.parts
    return parts


async def person(request: Request, right: Right = Right.READ) -> Identity:
    """Who asks. Raises LoginNeededError, or ProblemError where the role does not allow it."""
    cookie = request.cookies.get(SESSION_COOKIE, "")
    who = await parts_of(request).identities().of_session(cookie) if cookie else None
    if who is None:
        raise LoginNeededError
    if not who.may(right):
        raise ProblemError(NOT_ALLOWED)
    return who


async def person_with_form(request: Request, right: Right) -> tuple[Identity, dict[str, str]]:
    """Who sent a form, and its fields. Raises ProblemError also for a form that was not made for this session."""
    who = await person(request, right)
    form = await request.form()
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if not parts_of(request).identities().form_is_ours(who, fields.get("form_mark", "")):
        raise ProblemError(FOREIGN_ORIGIN)
    return who, fields


async def ask_to_log_in(request: Request, _: Exception) -> Response:
    """The login page in place of the one asked for; it leads back there.

    A link from a mail or chat comes without our strict cookie. Then the browser is first sent to the same page from a
    page of ours, with which the cookie goes along.
    """
    cross = request.headers.get("sec-fetch-site") == "cross-site"
    if cross and request.method == "GET":
        return render("onward.html", here=_local(request.url.path))
    if request.url.path.startswith("/parts/"):
        return Response("log in again", status_code=401, media_type="text/plain")
    here = _local(request.url.path) if request.method == "GET" else "/"
    return _login_page(here, failed=False, status_code=401)


async def login_page(_: Request) -> HTMLResponse:
    """The login page itself."""
    return _login_page("/", failed=False)


async def log_in(request: Request) -> Response:
    """Take a token and begin a session."""
    form = await request.form()
    secret, here = form.get("token"), form.get("next")
    begun = None
    if isinstance(secret, str) and len(secret) <= _TOKEN_CHARS:
        begun = await parts_of(request).identities().begin_session(secret.strip())
    target = _local(here) if isinstance(here, str) else "/"
    if begun is None or not begun[1].may(Right.READ):
        return _login_page(target, failed=True, status_code=401)
    web = parts_of(request).web
    response = RedirectResponse(target, status_code=303)
    response.set_cookie(
        SESSION_COOKIE,
        begun[0],
        max_age=int(web.session_s),
        httponly=True,
        samesite="strict",
        secure=web.secure_cookies or request.url.scheme == "https",
    )
    return response


async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    await person_with_form(request, Right.READ)
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return response


def _login_page(here: str, *, failed: bool, status_code: int = 200) -> HTMLResponse:
    return render("login.html", status_code, here=here, failed=failed)


def _local(path: str) -> str:
    """A path of this server; anything that a browser could take for another site becomes the first page."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if plain and not path.startswith("/login") else "/"
