"""A wire that can be cut: a TCP proxy on loopback that carries everything, refuses, or swallows in silence."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from enum import Enum
from types import TracebackType
from typing import Self

_LOOK_S = 0.1
_BLOCK_BYTES = 65536


class Wire(Enum):
    """What becomes of a connection."""

    WHOLE = "whole"
    REFUSED = "refused"
    """Connections are ended at once, those that are open too."""
    SILENT = "silent"
    """Connections are taken, and nothing goes through, in either direction: as where packets are dropped."""


class Cut:
    """The proxy: whoever connects to `port` is carried to `target`.

    Args:
        target: The port of loopback behind it.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._wire = Wire.WHOLE
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.settimeout(_LOOK_S)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True, name="wire").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._listener.close()

    def be(self, wire: Wire) -> None:
        """From now on this becomes of every connection."""
        self._wire = wire

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                near, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            if self._wire is Wire.REFUSED:
                _reset(near)
                return
            self._wait_while_silent()
            with socket.create_connection(("127.0.0.1", self._target), timeout=5.0) as far:
                self._both_ways(near, far)

    def _both_ways(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while selector.get_map() and not self._over.is_set():
                for key, _ in selector.select(_LOOK_S):
                    self._wait_while_silent()
                    if self._wire is Wire.REFUSED:
                        break
                    block = key.fileobj.recv(_BLOCK_BYTES)  # type: ignore[union-attr]
                    if block:
                        key.data.sendall(block)
                    else:
                        selector.unregister(key.fileobj)
                        with contextlib.suppress(OSError):
                            key.data.shutdown(socket.SHUT_WR)
                if self._wire is Wire.REFUSED:
                    _reset(near)
                    return

    def _wait_while_silent(self) -> None:
        while self._wire is Wire.SILENT and not self._over.wait(_LOOK_S):
            pass


def _reset(connection: socket.socket) -> None:
    """End a connection as a machine does that knows nothing of it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
