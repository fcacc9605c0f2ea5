"""What an exchange with the server may come to, and how a connection to it is made."""

from __future__ import annotations

import ssl
from typing import Any, TypedDict

import httpx2

from relance.client.errors import ServerRefusedError, ServerUnreachableError
from relance.domain.encoding import EncodingError, decode

PREFIX = "/api/v1"
CONNECT_S = 5.0
ANSWER_S = 20.0


class _Options(TypedDict):
    base_url: str
    headers: dict[str, str]
    timeout: httpx2.Timeout
    verify: ssl.SSLContext | bool
    trust_env: bool


def connection(url: str, token: str) -> _Options:
    """How to connect: with the token if there is one, time limits, and no proxy from the environment.

    A proxy would be given the token, and on a cluster one is often set for everything that is not the Internet's
    business. TLS trusts what OpenSSL trusts here, so `SSL_CERT_FILE` counts.
    """
    proof = {"Authorization": f"Bearer {token}"} if token else {}
    return _Options(
        base_url=url.rstrip("/"),
        headers={"User-Agent": "relance", **proof},
        timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
        verify=ssl.create_default_context() if url.startswith("https:") else False,
        trust_env=False,
    )


def unreachable(url: object, error: Exception) -> ServerUnreachableError:
    """The error for a server that does not answer."""
    reason = str(error) or type(error).__name__
    return ServerUnreachableError(
        f"no Relance server answers at {url} ({reason})", "start one with `relance up`, or name it with --server"
    )


def data_of(response: httpx2.Response) -> Any:  # noqa: ANN401 - JSON data
    """The JSON in an answer. Raises ServerRefusedError for an error of the server, else ServerUnreachableError."""
    try:
        data = response.json()
    except ValueError as error:
        raise ServerUnreachableError(
            f"{response.url.host} answered with something that is not from Relance (HTTP {response.status_code})"
        ) from error
    if response.is_success:
        return data
    fault = data.get("error", {}) if isinstance(data, dict) else {}
    raise ServerRefusedError(
        response.status_code,
        str(fault.get("code", "")),
        str(fault.get("message", f"HTTP {response.status_code}")),
        str(fault.get("remedy", "")),
    )


def bytes_of(response: httpx2.Response) -> bytes:
    """The bytes in an answer. Raises what `data_of` raises."""
    if not response.is_success:
        data_of(response)
    return response.content


def value_of(kind: Any, response: httpx2.Response) -> Any:  # noqa: ANN401 - a type, its value
    """The value of a type in an answer. Raises what `data_of` raises."""
    data = data_of(response)
    try:
        return decode(kind, data)
    except EncodingError as error:
        raise ServerUnreachableError(
            f"the server's answer could not be read: {error}", "client and server may be of different versions"
        ) from error
