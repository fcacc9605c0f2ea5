"""The server role: history, loop, backend, API and console, wired together."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
import uvicorn
from starlette.types import ASGIApp

from relance.api.apps import create_app
from relance.api.first_tokens import write_admin_token, write_token
from relance.bootstrap.providers import open_desks
from relance.bootstrap.sites import site_of
from relance.bootstrap.states import StateFolder, database_url, open_state, say_where, session_key
from relance.bootstrap.watchers import site_pack
from relance.config import SettingError, Settings
from relance.config.settings import MungeSettings
from relance.console.apps import create_console
from relance.ports.clocks import Clock
from relance.ports.tokens import Token, TokenRole
from relance.recovery.asking import Asker
from relance.recovery.backends import LocalBackend
from relance.recovery.desks import Desk
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.queries import Queries
from relance.recovery.rounds import Round
from relance.serving.owners import Owners
from relance.serving.parts import ServerParts, WebSettings
from relance.slurm.munge import Munge
from relance.storage.histories import SqlHistory

_LOG = structlog.get_logger(__name__)
_BACKLOG = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is wired and not yet running."""

    folder: StateFolder
    history: SqlHistory
    loop: Loop
    asker: Asker
    desks: tuple[Desk, ...]
    backend: LocalBackend
    queries: Queries
    app: ASGIApp
    socket: socket.socket
    url: str

    async def serve(self) -> None:
        """Answer HTTP until cancelled."""
        config = uvicorn.Config(
            self.app, http="httptools", loop="none", log_config=None, access_log=False, server_header=False,
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        server = _QuietServer(config)
        serving = asyncio.create_task(server.serve(sockets=[self.socket]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True  # lets open answers finish, within the grace time above
            await asyncio.wait({serving})
            raise

    async def close(self) -> None:
        """Give the database and the providers back, and forget where we listened."""
        for desk in self.desks:
            await desk.close()
        self.socket.close()
        self.folder.server_file.unlink(missing_ok=True)
        await self.history.close()


class _QuietServer(uvicorn.Server):
    """Signals are the program's matter, not the HTTP server's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def open_server(settings: Settings, clock: Clock) -> Server:
    """Open the database, take it for this process alone, and bind the port.

    Raises SettingError for a folder or port that cannot be used, StorageUnusableError for a database that cannot.
    """
    folder = open_state(settings)
    listening = _bind(settings.server.host, settings.server.port)
    try:
        history = await SqlHistory.open(database_url(settings, folder), clock=clock)
    except BaseException:
        listening.close()
        raise
    try:
        holder = f"{socket.gethostname()} pid {os.getpid()} since {clock.now().isoformat(timespec='seconds')}"
        await history.lock_exclusively(holder)
        return await _wire(settings, folder, history, listening, clock)
    except OSError as error:
        listening.close()
        await history.close()
        message = f"cannot write in the state folder {folder.path}: {error.strerror or error}"
        raise SettingError(message) from error
    except BaseException:
        listening.close()
        await history.close()
        raise


async def _wire(
    settings: Settings, folder: StateFolder, history: SqlHistory, listening: socket.socket, clock: Clock
) -> Server:
    live, site = Live(), site_of(settings)
    live.desks = open_desks(settings, clock)
    loop = Loop(history, live, site, clock)
    asker = Asker(history, lambda snapshot, record: loop.gather(snapshot, record, Round()), live.desks, clock)
    # Read when there is something to read by them: most clusters collect nothing.
    backend = LocalBackend(history, live, loop, site, clock, functools.cache(lambda: site_pack(settings).derived))
    parts = ServerParts(
        backend=backend,
        history=history,
        tokens=history.token_store,
        clock=clock,
        site=site,
        live=live,
        web=WebSettings(allowed_hosts=frozenset(settings.server.allowed_hosts)),
        session_key=session_key(folder),
        owners=_owners(settings.server.munge),
    )
    await write_admin_token(folder.admin_token, history.token_store, clock)
    agent = Token(name="agent", role=TokenRole.AGENT, digest="", created_at=clock.now())
    await write_token(folder.agent_token, agent, history.token_store)
    url = _url(settings.server.host, listening)
    say_where(folder, url)
    _LOG.info("listening", url=url, clusters=[cluster.name for cluster in settings.clusters])
    return Server(
        folder=folder,
        history=history,
        loop=loop,
        asker=asker,
        desks=live.desks,
        backend=backend,
        queries=parts.queries(),
        app=create_app(parts, create_console(parts)),
        socket=listening,
        url=url,
    )


def _owners(wanted: MungeSettings) -> Owners:
    munge = Munge(decode=wanted.command, socket=wanted.socket) if wanted.enabled else None
    return Owners(munge, frozenset(wanted.clusters) or None)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        message = f"cannot listen on {host}:{port}: {error.strerror}; set server.port to a free one, or 0 for any"
        raise SettingError(message) from error
    bound.setblocking(False)  # noqa: FBT003 - the standard library's own shape
    return bound


def _url(host: str, bound: socket.socket) -> str:
    port = bound.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - compared, not bound
    return f"http://{shown}:{port}"
