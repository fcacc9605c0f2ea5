"""Owners of jobs: people without a token, who prove their uid by munge and see and switch their own jobs only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request

from relance.serving.problems import Problem, ProblemError
from relance.slurm.munge import SCHEME, Asked, CredentialError, Munge, MungeError, uid_of

_AT_ONCE = 4
"""Credentials that are decoded at a time; each is a process of some milliseconds."""
_WAITING = 64
"""Credentials that may wait for their turn; more are refused, so that a flood stays outside."""
_NOT_TAKEN = Problem(
    status=HTTPStatus.UNAUTHORIZED,
    code="munge_is_off",
    message="this server does not take munge credentials",
    remedy="ask its operators to set server.munge.enabled, or show a token (--token-file)",
)
_BUSY = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="busy",
    message="too many credentials wait to be read",
    remedy="try again",
)
NOT_FOR_OWNERS = Problem(
    status=HTTPStatus.FORBIDDEN,
    code="not_for_owners",
    message="this needs a token: without one you may ask for your own jobs only",
    remedy="use why, check, off or wrong with a job of yours, or ask the operators for a token",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Somebody whose uid is proven; uid 0 is an owner like any other.

    `clusters` are those whose users have this uid; None: all. On another cluster the same number may be somebody else.
    """

    uid: int
    clusters: frozenset[str] | None = None


class Owners:
    """Tells which owner sent a request. `munge` None: the site has not switched it on."""

    def __init__(self, munge: Munge | None = None, clusters: frozenset[str] | None = None) -> None:
        """Decode as `munge` says; a credential proves a uid of these clusters (None: of all that are served)."""
        self._munge = munge
        self._clusters = clusters
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def of_request(self, request: Request) -> Owner | None:
        """The owner who sent it; None where it carries no munge credential.

        Raises ProblemError for a credential that does not prove who sent exactly this request.
        """
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME.lower():
            return None
        if self._munge is None:
            raise ProblemError(_NOT_TAKEN)
        asked = Asked(
            method=request.method,
            target=_target(request),
            host=request.headers.get("host", ""),
            body=await request.body(),
        )
        return Owner(uid=await self._uid_of(text.strip(), asked, self._munge), clusters=self._clusters)

    async def _uid_of(self, text: str, asked: Asked, munge: Munge) -> int:
        if self._waiting >= _WAITING:
            raise ProblemError(_BUSY)
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(uid_of, text, asked, munge)
        except CredentialError as error:
            raise ProblemError(_not_proven(error)) from error
        except MungeError as error:
            raise ProblemError(_away(error)) from error
        finally:
            self._waiting -= 1


def _target(request: Request) -> str:
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    return (path + (b"?" + query if query else b"")).decode("latin-1")


def _not_proven(error: CredentialError) -> Problem:
    return Problem(
        status=HTTPStatus.UNAUTHORIZED,
        code="not_proven",
        message=str(error),
        remedy="ask again from a login node of this cluster, or show a token (--token-file)",
    )


def _away(error: MungeError) -> Problem:
    return Problem(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        code="munge_away",
        message=f"the server cannot read munge credentials now: {error}",
        remedy="its operators must see to munged on the server's machine; a token works meanwhile",
    )
