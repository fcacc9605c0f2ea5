"""Serves the double on loopback: `python -m relance.testing.victorialogs_double [--began NS]`."""

from __future__ import annotations

import argparse
import socket
import sys

import uvicorn

from relance.ports.clocks import SystemClock
from relance.testing.victorialogs_double.apps import VictoriaLogsDouble


def main() -> None:
    """Serve until ended; the first line that is printed is the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--began", type=int, default=0, help="the time at which to begin, in nanoseconds since 1970")
    given = parser.parse_args()
    clock = SystemClock()
    began = clock.monotonic()
    start = given.began or int(clock.now().timestamp() * 1e9)
    double = VictoriaLogsDouble(lambda: start + int((clock.monotonic() - began) * 1e9))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(double.app(), log_level="warning", ws="none")).run([server])


if __name__ == "__main__":
    main()
