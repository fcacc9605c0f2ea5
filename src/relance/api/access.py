"""What each route needs: the server's parts, and an identity with a right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from relance.recovery.commands import Commands
from relance.recovery.queries import Queries
from relance.serving.identities import SESSION_COOKIE, Identity, Right
from relance.serving.owners import NOT_FOR_OWNERS, Owner
from relance.serving.parts import ServerParts
from relance.serving.problems import FOREIGN_ORIGIN, NOT_ALLOWED, NOT_LOGGED_IN, ProblemError

FORM_MARK_HEADER = "X-Relance-Form"
"""A change that is asked for with a browser's session carries the session's form mark in this header."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_bearer = HTTPBearer(auto_error=False, description="a token from `relance token add`")
_cookie = APIKeyCookie(name=SESSION_COOKIE, auto_error=False, description="the console's session")


def parts_of(request: Request) -> ServerParts:
    """The parts that the application was created with."""
    parts: ServerParts = request.app.state.parts
    return parts


Parts = Annotated[ServerParts, Depends(parts_of)]


def queries_of(parts: Parts) -> Queries:
    """The read side."""
    return parts.queries()


def commands_of(parts: Parts) -> Commands:
    """The write side."""
    return parts.commands()


Asking = Annotated[Queries, Depends(queries_of)]
Ordering = Annotated[Commands, Depends(commands_of)]


async def asker(
    request: Request,
    parts: Parts,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    session: Annotated[str | None, Security(_cookie)],
) -> Identity | Owner:
    """Who asks, by munge credential, token or session. Raises ProblemError where nothing proves it."""
    owner = await parts.owners.of_request(request)
    if owner is not None:
        return owner
    identities = parts.identities()
    who = None
    if bearer is not None:
        who = await identities.of_bearer(bearer.credentials)
    elif session is not None:
        who = await identities.of_session(session)
    if who is None:
        raise ProblemError(NOT_LOGGED_IN)
    if who.by_session and request.method not in _SAFE_METHODS:
        mark = request.headers.get(FORM_MARK_HEADER, "")
        if not identities.form_is_ours(who, mark):
            raise ProblemError(FOREIGN_ORIGIN)
    return who


Asker = Annotated[Identity | Owner, Depends(asker)]


def needs(right: Right) -> Callable[..., Awaitable[Identity]]:
    """A dependency that gives the identity of who asks. Raises ProblemError without the right; owners have none."""

    async def identity(who: Asker) -> Identity:
        if isinstance(who, Owner):
            raise ProblemError(NOT_FOR_OWNERS)
        if not who.may(right):
            raise ProblemError(NOT_ALLOWED)
        return who

    return identity


def needs_or_owns(right: Right) -> Callable[..., Awaitable[Identity | Owner]]:
    """A dependency that also lets an owner in; the route then answers about that owner's jobs alone."""

    async def identity(who: Asker) -> Identity | Owner:
        if not isinstance(who, Owner) and not who.may(right):
            raise ProblemError(NOT_ALLOWED)
        return who

    return identity


Reader = Annotated[Identity, Depends(needs(Right.READ))]
Decider = Annotated[Identity, Depends(needs(Right.DECIDE))]
ReaderOrOwner = Annotated[Identity | Owner, Depends(needs_or_owns(Right.READ))]
DeciderOrOwner = Annotated[Identity | Owner, Depends(needs_or_owns(Right.DECIDE))]
Governor = Annotated[Identity, Depends(needs(Right.GOVERN))]
Reporter = Annotated[Identity, Depends(needs(Right.REPORT))]
