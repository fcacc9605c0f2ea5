"""A connection to the simulated scheduler: one JSON object a line, one answer a line, over a UNIX socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError

LINE_LIMIT_BYTES = 16 * 1024 * 1024
_GONE = ("Invalid job id specified", "Job is no longer known")
_BROKEN = "internal error"


class Connection:
    """Asks one request after another; connects when need be, and anew after anything that went wrong."""

    def __init__(self, path: Path) -> None:
        """Take the socket's path; nothing is opened yet."""
        self._path = path
        self._one_at_a_time = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, op: str, time_limit_s: float, **fields: object) -> dict[str, Any]:
        """The answer to a request.

        Raises SchedulerRefusedError, JobGoneError, and SchedulerSilentError when there was none that can be read: then
        it is not known whether the request was carried out.
        """
        try:
            async with asyncio.timeout(time_limit_s), self._one_at_a_time:
                line = await self._exchange(json.dumps({"op": op, **fields}).encode() + b"\n")
        except TimeoutError as error:
            raise SchedulerSilentError(f"{self._path} did not answer {op} within {time_limit_s:.1f} s") from error
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise SchedulerSilentError(f"{self._path} did not answer {op}: {error}") from error
        return _good(line, op)

    async def close(self) -> None:
        """Give the connection back; may be called twice."""
        if self._streams is None:
            return
        _, writer = self._streams
        self._streams = None
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _exchange(self, request: bytes) -> bytes:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_unix_connection(self._path, limit=LINE_LIMIT_BYTES)
            reader, writer = self._streams
            writer.write(request)
            await writer.drain()
            return await reader.readuntil(b"\n")
        except BaseException:
            # An answer that is still to come would be taken for that of the next request.
            if self._streams is not None:
                self._streams[1].close()
                self._streams = None
            raise


def _good(line: bytes, op: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
        is_good, text = bool(answer["ok"]), str(answer.get("error", ""))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchedulerSilentError(f"the answer to {op} cannot be read: {line[:80]!r}") from error
    if is_good:
        return dict(answer)
    if text.startswith(_GONE):
        raise JobGoneError(text)
    if text.startswith(_BROKEN):
        raise SchedulerSilentError(text)
    raise SchedulerRefusedError(text)
