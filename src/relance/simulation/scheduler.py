"""The simulated scheduler as a process of its own: `python -m relance.simulation.scheduler --state-dir DIR`.

It prints one line, "ready SOCKET", when it answers. SIGTERM or SIGINT end it, and all ranks before it. What it
understands: `relance.simulation.protocols`; how the cluster is made: `relance.simulation.records.Settings`, as JSON in
`--config`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from relance.ports.clocks import SystemClock
from relance.simulation.engines import Engine
from relance.simulation.operations import Operations
from relance.simulation.protocols import LINE_LIMIT_BYTES, SOCKET_NAME
from relance.simulation.reapers import start_reaper
from relance.simulation.records import Settings, from_json

_PEER_CREDENTIALS = struct.Struct("3i")
_LONGEST_SOCKET_PATH = 107
_LOCK_NAME = "scheduler.lock"
_LOCK_TRIES = 10
_LOCK_PAUSE_S = 0.1


class Scheduler:
    """The daemon: an engine, its socket, and the beat of its passes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._operations = Operations(engine)
        self._stop = asyncio.Event()
        self._connections: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        """Serve until `stop`, then end all ranks."""
        self._engine.recover()
        path = self._engine.state_dir / SOCKET_NAME
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._serve, str(path), limit=LINE_LIMIT_BYTES)
        finally:
            os.umask(before)
        sys.stdout.write(f"ready {path}\n")
        sys.stdout.flush()
        try:
            while not self._stop.is_set():
                self._engine.pass_over_queue()
                self._engine.tables.save()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._engine.settings.pass_interval_s):
                        await self._stop.wait()
        finally:
            server.close()
            path.unlink(missing_ok=True)
            await self._engine.shut_down()
            for writer in list(self._connections):
                writer.close()

    def stop(self) -> None:
        """Have `run` return."""
        self._stop.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        uid = _peer_uid(writer)
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line, uid)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            return  # the peer is gone, or its line was beyond the limit
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, line: bytes, uid: int) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except ValueError:
            return {"ok": False, "error": "not JSON"}
        if not isinstance(fields, dict):
            return {"ok": False, "error": "not a JSON object"}
        try:
            return await self._operations.answer(fields, uid)
        except Exception as error:  # noqa: BLE001 -- one bad request must not end a cluster
            self._engine.log(f"error: request {fields.get('op')!r}: {type(error).__name__}: {error}")
            return {"ok": False, "error": f"internal error: {error}"}


def read_settings(config: Path | None, nodes: int | None) -> Settings:
    """The settings from a file; `nodes` overrides it.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not what is expected.
    """
    settings = from_json(Settings, json.loads(config.read_text(encoding="utf-8"))) if config is not None else Settings()
    return settings if nodes is None else replace(settings, nodes=nodes)


async def serve(state_dir: Path, settings: Settings) -> None:
    """Run a scheduler on this state directory until SIGTERM or SIGINT."""
    clock = SystemClock()
    scheduler = Scheduler(Engine(state_dir, settings, lambda: clock.now().timestamp()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, scheduler.stop)
    await scheduler.run()


def main() -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="relance.simulation.scheduler", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="where state, socket and the nodes' folders lie")
    parser.add_argument("--nodes", type=int, help="how many nodes (default 6, or what the file says)")
    parser.add_argument("--config", type=Path, help="a JSON file with settings")
    options = parser.parse_args()
    try:
        settings = read_settings(options.config, options.nodes)
    except (OSError, ValueError, TypeError) as error:
        parser.error(f"cannot use {options.config}: {error}")
    state_dir = options.state_dir.resolve()
    if len(os.fsencode(state_dir / SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
        parser.error(f"{state_dir} is too long: a socket's path has at most {_LONGEST_SOCKET_PATH} bytes")
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / _LOCK_NAME).open("w", encoding="utf-8") as lock:
        if not _locked(lock.fileno()):
            parser.error(f"another scheduler runs on {state_dir}")
        start_reaper(state_dir)
        asyncio.run(serve(state_dir, settings))
    return 0


def _locked(lock: int) -> bool:
    """Whether the state directory is ours; the reaper of a scheduler that has just died gets a moment."""
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOCK_PAUSE_S)
    return False


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    peer: socket.socket = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(credentials)[1])


if __name__ == "__main__":
    sys.exit(main())
