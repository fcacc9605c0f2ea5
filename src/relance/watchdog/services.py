"""What the watchdog says of itself: to systemd by its socket, and to whoever asks on loopback."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Page = tuple[int, str]


class Notifier:
    """systemd's readiness and watchdog protocol (sd_notify); silent where systemd did not start us."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Take the socket that systemd names."""
        self._address = environment.get("NOTIFY_SOCKET", "")

    def say(self, state: str) -> None:
        """Tell systemd, such as `READY=1`; what it does not hear stops nothing."""
        if not self._address.startswith(("/", "@")):
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as way:
                way.sendto(state.encode("utf-8"), address)
        except OSError:
            return


class Pages:
    """`/metrics` and `/healthz` on 127.0.0.1, in a thread of their own; what they show is made by `page`."""

    def __init__(self, port: int, page: Callable[[str], Page | None]) -> None:
        """Listen. Raises OSError where the port is taken."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(page))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="pages").start()

    @property
    def port(self) -> int:
        """The port, also where any was asked for."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def watchdog_pings(environment: Mapping[str, str]) -> bool:
    """Whether systemd wants to be told now and then that we live."""
    pid = environment.get("WATCHDOG_PID", "")
    return bool(environment.get("WATCHDOG_USEC")) and pid in ("", str(os.getpid()))


def _handler(page: Callable[[str], Page | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5
        server_version = "relance-watchdog"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer a question."""
            status, text = page(self.path.partition("?")[0]) or (HTTPStatus.NOT_FOUND, "there is no such page\n")
            body = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing of each question."""

    return Handler
