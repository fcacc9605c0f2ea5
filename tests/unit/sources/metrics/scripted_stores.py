"""A metric store that answers what a test wants, over HTTP on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

NOW = 1_767_261_600.0
Labels = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def vector(*rows: tuple[Labels, str], at: float = NOW, **more: object) -> Reply:
    """An answer to an instant query."""
    result = [{"metric": labels, "value": [at, value]} for labels, value in rows]
    return success({"resultType": "vector", "result": result}, **more)


def matrix(*rows: tuple[Labels, Sequence[tuple[float, str]]]) -> Reply:
    """An answer to a query of a range."""
    result = [{"metric": labels, "values": [[at, value] for at, value in values]} for labels, values in rows]
    return success({"resultType": "matrix", "result": result})


def success(data: object, **more: object) -> Reply:
    """An answer of the query API."""
    return Reply(body=json.dumps({"status": "success", "data": data, **more}).encode())


class ScriptedStore:
    """What it answers, by path and form; `asked` are the queries that it was asked."""

    def __init__(self, names: Sequence[str]) -> None:
        self.url = ""
        self.names = list(names)
        self.asked: list[str] = []
        self.answer: Callable[[str, bool], Reply | None] = lambda _query, _over: None
        """By the query, and whether it is asked over a range; None: as a store without any oddity."""

    def reply(self, path: str, form: dict[str, str]) -> Reply:
        """The answer to one request: what the test says, else what a store without any oddity says."""
        query = form.get("query", path)
        self.asked.append(query)
        told = self.answer(query, path.endswith("query_range"))
        if told is not None:
            return told
        if path.startswith("/api/v1/label/"):
            return success(self.names)
        if query == "time()":
            return vector(({}, str(NOW)))
        return matrix() if query.endswith("]") or path.endswith("query_range") else vector()


@contextmanager
def scripted_store(*names: str) -> Iterator[ScriptedStore]:
    """A store with series of these names."""
    store = ScriptedStore(names)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(store.reply(self.path, {}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._send(store.reply(self.path, {name: values[0] for name, values in parse_qs(body).items()}))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
            pass

        def _send(self, reply: Reply) -> None:
            with suppress(OSError):  # who has read enough goes away
                self._write(reply)

        def _write(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
