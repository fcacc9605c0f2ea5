"""A world behind a real HTTP server on a loopback port, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn

from tests.served.worlds import World

Result = TypeVar("Result")
_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that runs, and the world behind it."""

    url: str
    world: World
    loop: asyncio.AbstractEventLoop

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something on the server's own event loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_START_S)


class _Quiet(uvicorn.Server):
    """Signals are the test's matter; `up` is set when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    return bound


def _config(made: World) -> uvicorn.Config:
    return uvicorn.Config(made.app(), log_config=None, access_log=False, timeout_graceful_shutdown=1)


@contextlib.contextmanager
def served(make: Callable[[], Coroutine[Any, Any, World]]) -> Iterator[Served]:
    """Serve the world that `make` gives, for tests that are no coroutines."""
    started: list[Served] = []
    ready, servers = threading.Event(), list[uvicorn.Server]()

    async def run() -> None:
        made = await make()
        bound = _listening()
        server = _Quiet(_config(made))
        servers.append(server)
        task = asyncio.create_task(server.serve(sockets=[bound]))
        await server.up.wait()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        started.append(Served(url=url, world=made, loop=asyncio.get_running_loop()))
        ready.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="served")
    thread.start()
    try:
        assert ready.wait(_START_S), "the server did not start"
        yield started[0]
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(_START_S)
        assert not thread.is_alive()


@contextlib.asynccontextmanager
async def serving(made: World) -> AsyncIterator[str]:
    """Serve a world on this very event loop; gives the URL."""
    bound = _listening()
    server = _Quiet(_config(made))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        async with asyncio.timeout(_START_S):
            await server.up.wait()
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
