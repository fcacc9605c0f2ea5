"""A Loki for tests: the double in a process of its own, or the real one that `RELANCE_TEST_LOKI_URL` names."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from relance.testing.processes import Program, Running

START_LIMIT_S = 60.0
REAL_URL = os.environ.get("RELANCE_TEST_LOKI_URL", "")
"""Read when tests are collected: while they run no setting of this machine is seen."""


class Loki:
    """A Loki that answers at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._client = httpx2.Client(base_url=self.url, timeout=20.0, verify=not self.url.startswith("http:"))

    def push(self, labels: Mapping[str, str], lines: Sequence[tuple[int, str]]) -> None:
        """Store lines of one stream, each with its time in nanoseconds."""
        streams = [{"stream": dict(labels), "values": [[str(at), line] for at, line in lines]}]
        answer = self._client.post("/loki/api/v1/push", json={"streams": streams})
        assert answer.status_code == 204, answer.text

    def ask(self, method: str, path: str, **more: object) -> httpx2.Response:
        """Any request."""
        return self._client.request(method, path, **more)  # type: ignore[arg-type]

    def fail(self, *faults: Mapping[str, object]) -> None:
        """Have the double fail as told; only the double can."""
        assert self._client.post("/double/faults", content=json.dumps(faults)).status_code == 204

    def asked(self) -> int:
        """How often the double was asked."""
        return int(self._client.get("/double/asked").json()["asked"])

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()


@contextmanager
def loki_double(folder: Path, *arguments: str) -> Iterator[Loki]:
    """A double of its own."""
    log = folder / "loki.log"
    program = Program(
        name="loki double",
        argv=[sys.executable, "-m", "relance.testing.loki_double", *arguments],
        log=log,
        env=dict(os.environ),
    )
    running = Running(program)
    try:
        running.wait_until(lambda: re.match(r"\d+\n", running.output()) is not None, START_LIMIT_S)
        port = int(running.output().splitlines()[0])
        loki = Loki(f"http://127.0.0.1:{port}")
        running.wait_until(lambda: _is_ready(loki), START_LIMIT_S)
        yield loki
        loki.close()
    finally:
        running.stop()


def _is_ready(loki: Loki) -> bool:
    try:
        return loki.ask("GET", "/ready").status_code == 200
    except httpx2.HTTPError:
        return False
