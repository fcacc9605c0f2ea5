"""A wire that is cut is cut: what goes through it, and what becomes of a connection that was open."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from bench.cuts import Cut, Wire

PATIENCE_S = 20.0


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says what it hears."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    threading.Thread(target=answer, args=(near,), daemon=True).start()

        def answer(near: socket.socket) -> None:
            with near, suppress(OSError):
                while block := near.recv(1024):
                    near.sendall(block)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listener.getsockname()[1])


def test_a_wire_carries_and_is_refused_also_for_who_had_a_connection(echo: int) -> None:
    with Cut(echo) as wire, socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE_S) as client:
        client.sendall(b"one")
        assert client.recv(1024) == b"one"
        wire.be(Wire.REFUSED)
        with pytest.raises(ConnectionError):
            _ended(client)
        with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE_S) as late, suppress(ConnectionError):
            assert late.recv(1024) == b""
        wire.be(Wire.WHOLE)
        with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE_S) as again:
            again.sendall(b"two")
            assert again.recv(1024) == b"two"


def test_a_silent_wire_loses_nothing_and_says_nothing_until_it_is_whole(echo: int) -> None:
    with Cut(echo) as wire, socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE_S) as client:
        wire.be(Wire.SILENT)
        client.sendall(b"one")
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(1024)
        wire.be(Wire.WHOLE)
        client.settimeout(PATIENCE_S)
        assert client.recv(1024) == b"one"


def _ended(client: socket.socket) -> None:
    """Say something and hear nothing: the other end is gone."""
    client.sendall(b"two")
    if client.recv(1024) == b"":
        raise ConnectionResetError
