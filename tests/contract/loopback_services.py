"""A service on loopback that answers well, badly, in drips, or never, as each test tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

Manner = Callable[["Request", asyncio.StreamWriter], Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What came in."""

    line: str
    head: str
    body: bytes

    @property
    def data(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.body)


class Service:
    """Serves every request in the manner that is set; closes each connection after one answer."""

    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self.requests: list[Request] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/s3cret"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        request = Request(head.splitlines()[0], head, body)
        self.requests.append(request)
        await self.manner(request, writer)
        await writer.drain()


def answers(status: str, body: bytes = b"", headers: str = "") -> Manner:
    """One whole answer."""

    async def manner(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, headers, len(body)) + body)

    return manner


def says(data: object) -> Manner:
    """A good answer with this JSON."""
    return answers("200 OK", json.dumps(data).encode())


async def hangs(_: Request, writer: asyncio.StreamWriter) -> None:
    """Never an answer."""
    await asyncio.Event().wait()


async def drips(_: Request, writer: asyncio.StreamWriter) -> None:
    """A good answer, one byte every so often: no single read ever takes long."""
    writer.write(_head("200 OK", "", 100_000))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def breaks_off(_: Request, writer: asyncio.StreamWriter) -> None:
    """A beginning of an answer, and then nothing more."""
    writer.write(_head("200 OK", "", 1000) + b'{"domain": ')


async def talks_nonsense(_: Request, writer: asyncio.StreamWriter) -> None:
    """Something that is no HTTP."""
    writer.write(b"\x00\xff\x15\x03\x01 hello\r\n\r\n")


async def floods(_: Request, writer: asyncio.StreamWriter) -> None:
    """An answer without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b"[" * 65536)
        await writer.drain()


def _head(status: str, headers: str, length: int) -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode()
