"""Showing who asks without a token: a munge credential on each request, made for that request alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Mapping

import httpx2

from relance.client.errors import ClientError
from relance.slurm.munge import SCHEME, SOCKET_VARIABLE, Asked, Munge, MungeError, credential


class MungeProof(httpx2.Auth):
    """Signs each request of the HTTP client with the uid of this process."""

    requires_request_body = True

    def __init__(self, munge: Munge) -> None:
        """Make credentials as `munge` says."""
        self._munge = munge

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """The request with its credential. Raises ClientError where munge cannot be asked."""
        asked = Asked(
            method=request.method,
            target=request.url.raw_path.decode("ascii"),
            host=request.headers["Host"],
            body=request.content,
        )
        try:
            request.headers["Authorization"] = f"{SCHEME} {credential(asked, self._munge)}"
        except MungeError as error:
            where = f"{request.url.scheme}://{request.headers['Host']}"
            raise ClientError(f"there is no token for {where}, and {error}", error.remedy) from error
        yield request


def munge_here(environ: Mapping[str, str]) -> Munge | None:
    """How munge is asked on this machine; None where it is not installed."""
    if shutil.which("munge", path=environ.get("PATH", os.defpath)) is None:
        return None
    return Munge(socket=environ.get(SOCKET_VARIABLE, ""))
