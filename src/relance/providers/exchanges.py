"""HTTP with a service that may be slow, broken or hostile: bounded in time and size, and quiet about secrets."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from relance.ports.providers import ProviderError

ANSWER_BYTES = 256 * 1024
"""Most of an answer that is read; a longer one is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back, whatever its status."""

    status: int
    body: bytes


class Exchange:
    """One service. A redirect is not followed: the header is for this address alone."""

    def __init__(self, url: str, timeout_s: float = 5.0, header: tuple[str, str] | None = None) -> None:
        """Talk to `url` with a secret `header` (name and value); a whole exchange takes `timeout_s` at most."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "relance"}
        if header is not None:
            headers[header[0]] = header[1]
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=timeout_s,
            verify=ssl.create_default_context() if url.startswith("https:") else False,
        )
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._host = httpx2.URL(url).host  # the path of a service may be secret, too

    async def post(self, data: Mapping[str, object], path: str = "") -> Reply:
        """Send a JSON object. Raises ProviderError when no whole answer comes."""
        body = json.dumps(data, ensure_ascii=False).encode(errors="replace")
        request = self._client.build_request(
            "POST", self._url + path, content=body, headers={"Content-Type": "application/json"}
        )
        return await self._send(request)

    async def get(self, path: str, params: Mapping[str, str]) -> Reply:
        """Ask for something. Raises ProviderError when no whole answer comes."""
        return await self._send(self._client.build_request("GET", self._url + path, params=dict(params)))

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.aclose()

    async def _send(self, request: httpx2.Request) -> Reply:
        try:
            async with asyncio.timeout(self._timeout_s):  # the client's own limit is for each piece alone
                return await self._read(request)
        except TimeoutError as error:
            raise ProviderError(f"{self._host} gave no whole answer within {self._timeout_s:g} s") from error
        except httpx2.HTTPError as error:
            raise ProviderError(f"{self._host} cannot be asked: {type(error).__name__}") from error

    async def _read(self, request: httpx2.Request) -> Reply:
        response = await self._client.send(request, stream=True)
        try:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise ProviderError(f"{self._host} answered packed, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise ProviderError(f"{self._host} answered with more than {ANSWER_BYTES} bytes")
            return Reply(status=response.status_code, body=bytes(body))
        finally:
            await response.aclose()
