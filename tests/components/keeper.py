"""Keeps one server alive for a test run and not a moment longer: `python keeper.py PID FOLDER COMMAND…`.

The server is shared by several test processes, so none of them can own it. The keeper starts it, waits until either it
or the process PID (the whole test run) has ended, kills it, and removes its FOLDER: the data of tests is thrown away,
and a run that is itself killed leaves nothing behind.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path


def keep(run: int, folder: Path, command: list[str]) -> int:
    """Run `command` for as long as process `run` lives; the command's exit code, or 0 when it was ended here."""
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        run_ends, server_ends = os.pidfd_open(run), os.pidfd_open(server.pid)
        ended, _, _ = select.select([run_ends, server_ends], [], [])
    except ProcessLookupError:
        ended, server_ends = [run], -1
    if server_ends in ended:
        return server.wait()
    server.kill()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
