"""A gate before a server on loopback: while it is shut, whoever connects is sent away."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Gate:
    """Passes connections on to a port. Open and close it in the test's own loop."""

    def __init__(self, port: int) -> None:
        self.is_shut = False
        self.port = 0
        self._to = port
        self._server: asyncio.Server | None = None
        self._lanes: set[asyncio.StreamWriter] = set()
        self._inside: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen on a port of its own, which is `port` from then on."""
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Send everybody away, also those who are inside."""
        self.is_shut = True
        for lane in list(self._lanes):
            lane.transport.abort()

    async def close(self) -> None:
        """Listen no more."""
        self.shut()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._inside, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_shut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._inside.add(task)
            task.add_done_callback(self._inside.discard)
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._lanes |= {writer, back_writer}
        try:
            await asyncio.gather(_copy(reader, back_writer), _copy(back_reader, writer))
        finally:
            self._lanes -= {writer, back_writer}
            for each in (writer, back_writer):
                each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.close()
