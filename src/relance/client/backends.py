"""`HttpBackend`: the one seam between agents and server, over HTTP."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import httpx2

from relance.client.errors import ServerRefusedError, ServerUnreachableError
from relance.client.exchanges import (
    ANSWER_S,
    CONNECT_S,
    PREFIX,
    connection,
    data_of,
    unreachable,
    value_of,
)
from relance.domain.advice import Claim, ClaimReply, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.encoding import to_json
from relance.domain.keys import AttemptKey
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestReport
from relance.domain.views import ClusterReport
from relance.ports.backends import Assignments, BackendRefusedError, BackendUnavailableError, Orders
from relance.ports.clocks import Clock

_AGENTS = f"{PREFIX}/agents"
_PAUSES_S = (0.2, 1.0)
"""Pauses before the second and third try of a call that may be repeated."""
_AWAY = frozenset({429, 502, 503, 504})
_WAIT_S = 25.0
"""Longest single wait: short enough for proxies that cut silent connections after 30 s."""


class HttpBackend:
    """Implements `relance.ports.backends.Backend` over HTTP.

    Every call has a time limit. Calls are repeated where the port calls them idempotent; a claim is sent once, because
    its lost answer has to be settled by looking.
    """

    def __init__(self, url: str, token: str, clock: Clock, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """Talk to the server at `url`; `transport` replaces the network."""
        self._client = httpx2.AsyncClient(**connection(url, token), transport=transport)
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._client.aclose()

    async def assignments(self, cluster: str) -> Assignments:
        found: Assignments = await self._value(Assignments, await self._get("/assignments", {"cluster": cluster}))
        return found

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        data = await self._data(await self._get("/checkpoint", {"attempt": str(attempt)}))
        text = data.get("checkpoint") if isinstance(data, dict) else None
        return text if isinstance(text, str) else None

    async def submit(self, batch: WatcherBatch) -> None:
        await self._data(await self._post("/submit", batch))

    async def see(self, report: SightReport) -> None:
        await self._data(await self._post("/see", report))

    async def report(self, report: ClusterReport) -> None:
        await self._data(await self._post("/report", report))

    async def orders(self, cluster: str, holder: str) -> Orders:
        response = await self._post("/orders", {"cluster": cluster, "holder": holder})
        found: Orders = await self._value(Orders, response)
        return found

    async def claim(self, claim: Claim) -> ClaimReply:
        reply: ClaimReply = await self._value(ClaimReply, await self._post("/claim", claim, tries=1))
        return reply

    async def record(self, step: StepRecord) -> None:
        await self._data(await self._post("/record", step))

    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        reply: ClaimReply = await self._value(ClaimReply, await self._post("/evidence/claim", claim, tries=1))
        return reply

    async def record_evidence(self, report: EvidenceReport) -> None:
        await self._data(await self._post("/evidence", report))

    async def record_deed(self, deed: WatchdogDeed) -> None:
        await self._data(await self._post("/deed", deed))

    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        reply: ClaimReply = await self._value(ClaimReply, await self._post("/requests/claim", claim, tries=1))
        return reply

    async def record_request(self, report: RequestReport) -> None:
        await self._data(await self._post("/requests", report))

    async def wait(self, after: int, timeout_s: float) -> int:
        ends = self._clock.monotonic() + timeout_s
        while True:
            left_s = max(0.0, ends - self._clock.monotonic())
            part_s = min(left_s, _WAIT_S)
            params = {"after": str(after), "timeout_s": str(part_s)}
            limit = httpx2.Timeout(part_s + ANSWER_S, connect=CONNECT_S)
            data = await self._data(await self._get("/wait", params, limit))
            head = data.get("position") if isinstance(data, dict) else None
            if not isinstance(head, int):
                raise BackendUnavailableError("the server did not say where its history is")
            if head > after or left_s <= part_s:
                return head

    async def _get(self, path: str, params: dict[str, str], timeout: httpx2.Timeout | None = None) -> httpx2.Response:  # noqa: ASYNC109 - the HTTP client's own
        request = self._client.build_request(
            "GET", _AGENTS + path, params=params, timeout=timeout or httpx2.USE_CLIENT_DEFAULT
        )
        return await self._send(request, tries=1 + len(_PAUSES_S))

    async def _post(self, path: str, body: object, tries: int = 1 + len(_PAUSES_S)) -> httpx2.Response:
        content = await asyncio.to_thread(_json, body)
        headers = {"Content-Type": "application/json"}
        return await self._send(
            self._client.build_request("POST", _AGENTS + path, content=content, headers=headers), tries
        )

    async def _send(self, request: httpx2.Request, tries: int) -> httpx2.Response:
        pauses = list(_PAUSES_S[: tries - 1])
        while True:
            error: BackendUnavailableError
            try:
                response = await self._client.send(request)
            except httpx2.TransportError as cause:
                error = BackendUnavailableError(str(unreachable(self._client.base_url, cause)))
                error.__cause__ = cause
            else:
                if response.status_code not in _AWAY:
                    return response
                error = BackendUnavailableError(f"the server is not able to answer now (HTTP {response.status_code})")
            if not pauses:
                raise error
            await self._clock.sleep(pauses.pop(0))

    async def _value(self, kind: type, response: httpx2.Response) -> Any:  # noqa: ANN401 - a value of that kind
        return await asyncio.to_thread(_translated, value_of, kind, response)

    async def _data(self, response: httpx2.Response) -> Any:  # noqa: ANN401 - JSON data
        return _translated(data_of, response)


def _json(body: object) -> bytes:

    return to_json(body).encode()


def _translated(read: Any, *arguments: object) -> Any:  # noqa: ANN401 - passes through what it reads
    """What reading an answer gives, with the client's errors as those of the port."""
    try:
        return read(*arguments)
    except ServerRefusedError as error:
        if error.status >= 500 or error.code == "conflict":  # noqa: PLR2004 - HTTP: the server's own fault
            raise BackendUnavailableError(str(error)) from error
        remedy = f" ({error.remedy})" if error.remedy else ""
        raise BackendRefusedError(f"{error}{remedy}") from error
    except ServerUnreachableError as error:
        raise BackendUnavailableError(str(error)) from error
