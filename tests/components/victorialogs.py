"""A VictoriaLogs for tests: the double in its own process, or the one that `RELANCE_TEST_VICTORIALOGS_URL` names."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from relance.testing.processes import Program, Running

START_LIMIT_S = 60.0
REAL_URL = os.environ.get("RELANCE_TEST_VICTORIALOGS_URL", "")
"""Read when tests are collected: while they run no setting of this machine is seen."""
_NS = 1_000_000_000


class VictoriaLogs:
    """A VictoriaLogs that answers at `url`; what is stored is that of a tenant, if `tenant` names one."""

    def __init__(self, url: str, tenant: str = "") -> None:
        self.url = url.rstrip("/")
        account, _, project = tenant.partition(":")
        self.headers = {"AccountID": account, "ProjectID": project} if tenant else {}
        self._client = httpx2.Client(
            base_url=self.url, timeout=20.0, headers=self.headers, verify=not self.url.startswith("http:")
        )

    def push(self, labels: Mapping[str, str], lines: Sequence[tuple[int, str]]) -> None:
        """Store lines of one stream, each with its time in nanoseconds."""
        rows = [json.dumps({"_time": _time(at), "_msg": line, **labels}) for at, line in lines]
        answer = self._client.post(
            "/insert/jsonline",
            params={"_stream_fields": ",".join(labels)},
            content="\n".join(rows),
            headers={"Content-Type": "application/stream+json"},
        )
        assert answer.status_code == 200, answer.text
        self._client.get("/internal/force_flush")  # else the real one shows them after ten seconds

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
def victorialogs_double(folder: Path, *arguments: str) -> Iterator[VictoriaLogs]:
    """A double of its own."""
    program = Program(
        name="victorialogs double",
        argv=[sys.executable, "-m", "relance.testing.victorialogs_double", *arguments],
        log=folder / "victorialogs.log",
        env=dict(os.environ),
    )
    running = Running(program)
    try:
        running.wait_until(lambda: re.match(r"\d+\n", running.output()) is not None, START_LIMIT_S)
        logs = VictoriaLogs(f"http://127.0.0.1:{int(running.output().splitlines()[0])}")
        running.wait_until(lambda: _is_ready(logs), START_LIMIT_S)
        yield logs
        logs.close()
    finally:
        running.stop()


def _time(at_ns: int) -> str:
    second = datetime.fromtimestamp(at_ns // _NS, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{at_ns % _NS:09d}Z"


def _is_ready(logs: VictoriaLogs) -> bool:
    try:
        return logs.ask("GET", "/health").status_code == 200
    except httpx2.HTTPError:
        return False
