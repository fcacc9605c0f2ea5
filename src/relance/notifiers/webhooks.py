"""Telling people by a web hook, which gets each notice as a JSON POST."""

from __future__ import annotations

import ssl

import httpx2

from relance.notifiers.payloads import payload
from relance.ports.clocks import Clock
from relance.ports.notifiers import Notice, NotifierError

_PAUSES_S = (1.0, 5.0, 20.0)
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429, 500, 502, 503, 504})


class WebhookNotifier:
    """Implements `relance.ports.notifiers.Notifier` by HTTP POST.

    A notice is sent again after 1, 5 and 20 s when the hook does not answer or says that it is busy; it may so arrive
    twice. Its id is in the header `Idempotency-Key`. A redirect is not followed: the token is for this address alone.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        token: str = "",
        time_limit_s: float = 10.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Send to `url`, with a bearer token if there is one; `transport` replaces the network."""
        headers = {"Content-Type": "application/json", "User-Agent": "relance"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=time_limit_s,
            verify=ssl.create_default_context() if url.startswith("https:") else False,
            transport=transport,
        )
        self._url = url
        self._clock = clock

    async def notify(self, notice: Notice) -> None:
        headers = {"Idempotency-Key": notice.id}
        body = payload(notice)
        failure = ""
        for pause_s in (*_PAUSES_S, None):
            try:
                response = await self._client.post(self._url, content=body, headers=headers)
            except httpx2.TransportError as error:
                failure = str(error) or type(error).__name__
            else:
                if response.is_success:
                    return
                failure = f"HTTP {response.status_code}"
                if response.status_code not in _WORTH_ANOTHER_TRY:
                    break
            if pause_s is not None:
                await self._clock.sleep(pause_s)
        host = httpx2.URL(self._url).host  # the path of a hook is often its secret
        raise NotifierError(f"the web hook at {host} did not take the notice: {failure}")

    async def close(self) -> None:
        await self._client.aclose()
