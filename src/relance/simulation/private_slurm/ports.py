"""Ports that nobody else on this machine takes, although the daemon that will listen there has not started yet."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class PortReservation:
    """Keeps one free TCP port of 127.0.0.1 per name for as long as it is open.

    Each port is held by a socket that is bound but does not listen. The kernel then gives the port to nobody who asks
    for any free one, while a daemon that asks for exactly this one, with SO_REUSEADDR as Slurm's do, gets it; also
    later, when it is started for the second time.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._sockets: dict[str, socket.socket] = {}
        for name in names:
            holder = socket.socket()
            self._sockets[name] = holder
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ports(self) -> dict[str, int]:
        """The port of each name."""
        return {name: holder.getsockname()[1] for name, holder in self._sockets.items()}

    def close(self) -> None:
        """Let them go; may be called twice."""
        for holder in self._sockets.values():
            holder.close()
        self._sockets.clear()


def listens(port: int) -> bool:
    """Whether somebody listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
