"""The programs: everything in one process, or each role in its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from relance.bootstrap.announcers import open_announcers
from relance.bootstrap.controllers import open_controller
from relance.bootstrap.running import Role, run, run_roles
from relance.bootstrap.servers import Server, open_server
from relance.bootstrap.sites import served
from relance.bootstrap.states import open_state, server_url
from relance.bootstrap.watchers import open_watcher, site_pack
from relance.client.backends import HttpBackend
from relance.config import Settings, read_secret
from relance.ports.clocks import Clock, SystemClock
from relance.ports.histories import HistoryError
from relance.storage.histories import SqlHistory

_LOG = structlog.get_logger(__name__)
_UPKEEP_S = 3600.0

Closing = Callable[[], Awaitable[None]]


def run_up(settings: Settings) -> None:
    """Run server, watcher and controller in one process until a signal. Raises SettingError, StorageUnusableError."""
    run(lambda: _up(settings))


def run_server(settings: Settings) -> None:
    """Run the server alone until a signal. Raises SettingError, StorageUnusableError."""
    run(lambda: _server(settings))


def run_watcher(settings: Settings) -> None:
    """Run the watchers of the clusters in the settings until a signal. Raises SettingError."""
    run(lambda: _apart(settings, watchers=True))


def run_controller(settings: Settings) -> None:
    """Run the controllers of the clusters in the settings until a signal. Raises SettingError."""
    run(lambda: _apart(settings, controllers=True))


async def _up(settings: Settings) -> None:
    clock = SystemClock()
    pack_checked = site_pack(settings)  # a broken rule file is said before anything is opened
    server = await open_server(settings, clock)
    roles: dict[str, Role] = {}
    closing: list[Closing] = []
    try:
        roles |= _server_roles(server, settings, clock, closing)
        for cluster in settings.clusters:
            watcher = open_watcher(cluster, pack_checked, server.backend, clock)
            closing.append(watcher.close)
            roles[f"watcher of {cluster.name}"] = watcher.watcher.run()
            if cluster.scheduler is not None:
                controller = open_controller(cluster, server.folder, server.backend, clock)
                closing.append(controller.close)
                roles[f"controller of {cluster.name}"] = controller.controller.run()
    except BaseException:
        await _undo(roles, (*closing, server.close))
        raise
    await run_roles(roles, (*closing, server.close))


async def _server(settings: Settings) -> None:
    clock = SystemClock()
    server = await open_server(settings, clock)
    closing: list[Closing] = []
    roles = _server_roles(server, settings, clock, closing)
    await run_roles(roles, (*closing, server.close))


def _server_roles(server: Server, settings: Settings, clock: Clock, closing: list[Closing]) -> dict[str, Role]:
    roles: dict[str, Role] = {
        "http server": server.serve(),
        "recovery loop": server.loop.run(),
        "upkeep": upkeep(server.history, clock),
    }
    if server.desks:
        roles["outside attribution"] = server.asker.run()
    for way in open_announcers(settings, server.folder, server.history, clock, server.queries):
        closing.append(way.close)
        roles[f"telling by {way.name}"] = way.tell()
        roles[f"place of {way.name}"] = way.keep_place()
    return roles


async def upkeep(history: SqlHistory, clock: Clock) -> None:
    """Drop what is older than it is kept for, once an hour; when the database is away, the next time."""
    while True:
        try:
            await history.prune(clock.now())
        except HistoryError as error:
            _LOG.warning("nothing old was dropped", error=str(error))
        await clock.sleep(_UPKEEP_S)


async def _apart(settings: Settings, *, watchers: bool = False, controllers: bool = False) -> None:
    clock = SystemClock()
    clusters = served(settings, ())
    pack = site_pack(settings) if watchers else None
    folder = open_state(settings)
    token = read_secret(settings.agent.token_file or folder.agent_token)
    backend = HttpBackend(server_url(settings, folder), token, clock)
    roles: dict[str, Role] = {}
    closing: list[Closing] = []
    try:
        for cluster in clusters:
            if pack is not None:
                watcher = open_watcher(cluster, pack, backend, clock)
                closing.append(watcher.close)
                roles[f"watcher of {cluster.name}"] = watcher.watcher.run()
            if controllers:
                controller = open_controller(cluster, folder, backend, clock)
                closing.append(controller.close)
                roles[f"controller of {cluster.name}"] = controller.controller.run()
    except BaseException:
        await _undo(roles, (*closing, backend.close))
        raise
    await run_roles(roles, (*closing, backend.close))


async def _undo(roles: dict[str, Role], close: tuple[Closing, ...]) -> None:
    """Give back what was opened for roles that do not run, because a later one could not be opened."""
    for role in roles.values():
        role.close()
    for step in close:
        await step()
