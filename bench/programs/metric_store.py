"""A stand-in for the metric store of a large fleet: `metric_store.py --nodes N --gpus N`, says its port, and answers.

It answers the queries of the product in the format of the real servers, with what these would return for a fleet in
which a little is always wrong; the work of computing that is left out, for it is the store's.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from relance.ports.clocks import SystemClock

NAMES = (
    "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_ACTIVE",
    "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes",
)  # fmt: skip
ODD_OF_A_QUESTION = 10
"""Series that each question finds odd at any time: about one node in a thousand."""
STEP_S = 15
_ASK = re.compile(r'"relance_ask", "(\w+(?::\w*)?)"')
_SELECTED = re.compile(r'__name__=~"([^"]+)",Hostname=~"([^"]+)"\}\[(\d+)s\]')
_NODE = re.compile(r'Hostname=~"([^"]+)"')


class Fleet:
    """What is known of all nodes."""

    def __init__(self, nodes: int, gpus: int) -> None:
        self.nodes = [f"node-{number:05d}" for number in range(nodes)]
        self.gpus = gpus

    def vector(self, query: str, now: float) -> list[dict[str, object]]:
        """The answer to an instant query."""
        if query == "time()":
            return [_row({}, now, now)]
        if "max_over_time" in query and '"peak"' in query:
            return self.pictures(query, now)
        tags = dict.fromkeys(_ASK.findall(query))
        return [_row(self._odd(tag, number, now), 1.0, now) for tag in tags for number in range(ODD_OF_A_QUESTION)]

    def presence(self, now: float) -> str:
        """Last samples and counts of all nodes, as JSON."""
        return ",".join(
            f'{{"metric":{{"Hostname":"{node}","relance_ask":"{tag}"}},"value":[{now:.3f},"{value}"]}}'
            for tag, value in (("at", f"{now - 7.0:.3f}"), ("count", str(self.gpus)))
            for node in self.nodes
        )

    def pictures(self, query: str, now: float) -> list[dict[str, object]]:
        """What GPUs of some nodes do."""
        found = _NODE.search(query)
        values = {"util:": 98.0, "power": 640.0, "peak": 690.0, "tensor": 0.31, "at": now - 7.0}
        return [
            _row({"Hostname": _plain(node), "gpu": str(gpu), "relance_ask": tag}, value, now)
            for node in (found[1].split("|") if found else ())
            for gpu in range(self.gpus)
            for tag, value in values.items()
        ]

    def matrix(self, query: str, now: float) -> list[dict[str, object]]:
        """All samples of some series of some nodes; calm ones."""
        found = _SELECTED.search(query)
        if found is None:
            return []
        names, nodes, window_s = found[1].split("|"), found[2].split("|"), int(found[3])
        times = [now - back for back in range(window_s // STEP_S * STEP_S, -1, -STEP_S)]
        return [
            {"metric": _labels(name, _plain(node), gpu), "values": [[at, "1"] for at in times]}
            for name in names
            for node in nodes
            for gpu in range(self.gpus if name.startswith("DCGM") else 1)
        ]

    def over(self, query: str, start: float, end: float, step: float) -> list[dict[str, object]]:
        """The answer to a range query: how all stand, or what was odd."""
        times = [start + step * number for number in range(int((end - start) // step) + 1)]
        values = {"middle": "50", "count": str(len(self.nodes) * self.gpus), "usual": "60000"}
        rows: list[dict[str, object]] = []
        for tag in dict.fromkeys(_ASK.findall(query)):
            if tag in values:
                rows.append({"metric": {"relance_ask": tag}, "values": [[at, values[tag]] for at in times]})
            else:
                rows += [
                    {"metric": self._odd(tag, number, end), "values": [[at, "1"] for at in times]}
                    for number in range(ODD_OF_A_QUESTION)
                ]
        return rows

    def _odd(self, tag: str, number: int, now: float) -> dict[str, str]:
        """Odd series, others every five minutes."""
        seed = hash((tag, number, int(now // 300)))
        node = self.nodes[seed % len(self.nodes)]
        return {"Hostname": node, "instance": f"{node}:9400", "gpu": str(seed % self.gpus), "relance_ask": tag}


@cache
def _labels(name: str, node: str, gpu: int) -> dict[str, str]:
    return {
        "__name__": name, "Hostname": node, "instance": f"{node}:9400", "gpu": str(gpu), "device": f"nvidia{gpu}",
        "UUID": f"GPU-8f2a{hash((node, gpu)) & 0xFFFFFFFF:08x}-11aa-22bb-33cc-445566778899", "job": "dcgm-exporter",
        "modelName": "NVIDIA H100 80GB HBM3", "pci_bus_id": f"00000000:{gpu:02X}:00.0",
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
    }  # fmt: skip


def _plain(pattern: str) -> str:
    return pattern.replace("\\", "")


def _row(labels: dict[str, str], value: float, now: float) -> dict[str, object]:
    return {"metric": labels, "value": [now, f"{value:g}" if value < 1e6 else f"{value:.3f}"]}


class Handler(BaseHTTPRequestHandler):
    """Speaks HTTP."""

    protocol_version = "HTTP/1.1"
    fleet: Fleet

    def do_GET(self) -> None:
        """The names."""
        self._answer({"status": "success", "data": list(NAMES)})

    def do_POST(self) -> None:
        """A query."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        query, now = form["query"], SystemClock().now().timestamp()
        if self.path.endswith("query_range"):
            rows = self.fleet.over(query, float(form["start"]), float(form["end"]), float(form["step"]))
            self._answer({"status": "success", "data": {"resultType": "matrix", "result": rows}})
        elif query.endswith("]"):
            rows = self.fleet.matrix(query, now)
            self._answer({"status": "success", "data": {"resultType": "matrix", "result": rows}})
        elif "timestamp(" in query and "count by" in query:
            rows_text = self.fleet.presence(float(form.get("time", now)))
            self._send(f'{{"status":"success","data":{{"resultType":"vector","result":[{rows_text}]}}}}'.encode())
        else:
            rows = self.fleet.vector(query, float(form.get("time", now)))
            self._answer({"status": "success", "data": {"resultType": "vector", "result": rows}})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
        """Say nothing."""

    def _answer(self, answer: object) -> None:
        self._send(json.dumps(answer, separators=(",", ":")).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Serve until somebody ends us."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    options = parser.parse_args()
    Handler.fleet = Fleet(options.nodes, options.gpus)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
