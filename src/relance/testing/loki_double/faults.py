"""Faults that a test asks the double for: refusals, errors, answers that stop half-way, answers that take long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send


@dataclass(slots=True)
class Fault:
    """What happens to the next requests to a path, so many times. `half`: the answer stops in the middle."""

    path: str
    times: int
    status: int = 500
    body: str = ""
    delay_s: float = 0.0
    half: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class HalfResponse(Response):
    """An answer that promises more than it gives."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the beginning and drop the connection."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"100000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"status":"success","data":{"resu', "more_body": True})
        raise ConnectionAbortedError


class Faults:
    """The faults that are to come."""

    def __init__(self) -> None:
        self._coming: list[Fault] = []

    def set(self, faults: list[dict[str, Any]]) -> None:
        """Take these in place of what was to come."""
        self._coming = [Fault(**each) for each in faults]

    async def strike(self, path: str) -> Response | None:
        """What a request is answered with in place of an answer; None: nothing is wrong."""
        fault = next((each for each in self._coming if each.times > 0 and path.startswith(each.path)), None)
        if fault is None:
            return None
        fault.times -= 1
        await asyncio.sleep(fault.delay_s)
        if fault.half:
            return HalfResponse()
        if fault.status == 200 and not fault.body:
            return None
        return PlainTextResponse(fault.body, status_code=fault.status, headers=fault.headers)
