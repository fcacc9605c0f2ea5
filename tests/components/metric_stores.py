"""Private metric stores for tests, on loopback: the real Prometheus and the real VictoriaMetrics, filled by hand.

Both take samples of any time, so that a test needs not wait: Prometheus by its remote-write receiver, VictoriaMetrics
by its import API. Each server ends with the test process, whatever becomes of that.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx2
import pytest

from tests.components.presence import require_component

START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.05
Kind = Literal["prometheus", "victoriametrics"]
KINDS: Final[tuple[Kind, ...]] = ("prometheus", "victoriametrics")
_STALE: Final = struct.pack("<Q", 0x7FF0000000000002)
"""The number that Prometheus writes when a series ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Samples of one series: pairs of seconds since 1970 and value; None ends the series with a mark."""

    name: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricStore:
    """A running store."""

    kind: Kind
    url: str
    process: subprocess.Popen[bytes]

    def write(self, series: Iterable[Written]) -> None:
        """Put samples into it, and wait until they can be asked for."""
        told = [each for each in series if each.samples]
        if not told:
            return
        if self.kind == "prometheus":
            headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
            _post(self.url + "/api/v1/write", _literal_snappy(_write_request(told)), headers)
        else:
            _post(self.url + "/api/v1/import/prometheus", b"\n".join(map(_exposition, told)), {})
            _post(self.url + "/internal/force_flush", b"", {})
            self._wait_for(told[-1])

    def _wait_for(self, written: Written) -> None:
        """The first samples of new series take a moment until they are found."""
        at = next(at for at, value in reversed(written.samples) if value is not None)
        labels = ",".join(f'{name}="{value}"' for name, value in written.labels.items())
        asked = {"query": f"{written.name}{{{labels}}}[9s]", "time": f"{at + 5:.3f}", "nocache": "1"}
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if httpx2.get(self.url + "/api/v1/query", params=asked, verify=False).json()["data"]["result"]:
                return
            time.sleep(POLL_S)
        pytest.fail("samples that were written cannot be found", pytrace=False)


@contextmanager
def metric_store(kind: Kind, folder: Path, scrape: str = "") -> Iterator[MetricStore]:
    """A new, empty store with its data in a folder; it scrapes each second what `scrape` names, a host and port."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "scrape.yaml"
    jobs = [{"job_name": "tests", "static_configs": [{"targets": [scrape]}]}] if scrape else []
    told: dict[str, object] = {"scrape_configs": jobs, "global": {"scrape_interval": "1s", "scrape_timeout": "1s"}}
    config.write_text(json.dumps(told))
    if kind == "prometheus":
        program = require_component("prometheus", "the contract of signals", program="prometheus")
        command = [
            *(str(program), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--log.level=warn"),
            "--storage.tsdb.retention.time=10y",
        ]
        ready = "/-/ready"
    else:
        program = require_component("victoria-metrics", "the contract of signals", program="victoria-metrics")
        command = [
            *(str(program), f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{port}"),
            *(
                f"-promscrape.config={config}",
                "-retentionPeriod=10y",
                "-loggerLevel=WARN",
                "-memory.allowedBytes=128MB",
            ),
        ]
        ready = "/health"
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        _wait_until_ready(url + ready, process, log)
        yield MetricStore(kind=kind, url=url, process=process)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx2.get(url, timeout=1.0, verify=False).is_success:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(POLL_S)
    pytest.fail(f"the metric store did not start:\n{log.read_text()}", pytrace=False)


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    answer = httpx2.post(url, content=body, headers=dict(headers), timeout=30.0, verify=False)
    if not answer.is_success:
        pytest.fail(f"the store refused samples: {answer.status_code} {answer.text[:300]}", pytrace=False)


def _exposition(each: Written) -> bytes:
    """A series in the text format of exporters, with times; it knows no mark of the end."""
    labels = ",".join(f"{name}={json.dumps(value)}" for name, value in each.labels.items())
    lines = [f"{each.name}{{{labels}}} {value} {round(at * 1000)}" for at, value in each.samples if value is not None]
    return "\n".join(lines).encode()


def _write_request(series: Iterable[Written]) -> bytes:
    """A remote-write request: protocol buffers by hand, three messages with two fields each."""
    return b"".join(_field(1, _time_series(each)) for each in series)


def _time_series(each: Written) -> bytes:
    pairs = sorted({"__name__": each.name, **each.labels}.items())
    labels = b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in pairs)
    return labels + b"".join(_field(2, _sample(at, value)) for at, value in each.samples)


def _sample(at: float, value: float | None) -> bytes:
    number = _STALE if value is None else struct.pack("<d", value)
    return b"\x09" + number + b"\x10" + _varint(round(at * 1000))


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _literal_snappy(body: bytes) -> bytes:
    """A body in the frame of snappy, all of it literal."""
    parts = [_varint(len(body))]
    for begin in range(0, len(body), 65536):
        piece = body[begin : begin + 65536]
        parts.append(b"\xf4" + struct.pack("<H", len(piece) - 1) + piece)
    return b"".join(parts)
