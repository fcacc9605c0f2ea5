from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relance.domain.ledger_lines import line_of
from relance.domain.ledgers import VERSION, Opened
from relance.domain.watchdogs import MARK_FILE, read_mark
from tests.unit.watchdog.grounds import T0

WAIT_S = 60.0
QUIET = '#!/bin/sh\necho "slurm_load_jobs error: Unable to contact slurm controller" >&2\nexit 1\n'
FOREIGN = """
import sys
import relance.watchdog.main, relance.watchdog.services
own = {name.split('.')[0] for name in sys.modules} - {'relance', '__main__', '__mp_main__'}
print(*sorted(own - sys.stdlib_module_names))
"""


class Started:
    """A watchdog as a process of its own, over a Slurm that does not answer."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        settings = folder / "watchdog.toml"
        settings.write_text(
            f'every_s = 0.2\nmetrics_file = "{folder}/relance.prom"\nmetrics_port = 0\n'
            f'[[clusters]]\nname = "alpha"\nfolder = "{folder}"\nbin_dir = "{folder}/bin"\n'
        )
        (folder / "bin").mkdir(exist_ok=True)
        for name in ("squeue", "scontrol", "sacct"):
            script = folder / "bin" / name
            script.write_text(QUIET)
            script.chmod(0o755)
        self.errors = folder / f"stderr-{time.monotonic_ns()}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relance.watchdog", str(settings), *options],
                stderr=errors,
                env=os.environ | environment,
            )

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.errors.read_text().splitlines() if line.startswith("{")]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


def until(told: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not told():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    opened = line_of(Opened(version=VERSION, cluster="alpha", at=T0))
    (tmp_path / "ledger.jsonl").write_bytes(opened)
    started: list[Started] = []

    def begin(*options: str, **environment: str) -> Started:
        started.append(Started(tmp_path, *options, **environment))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()


def test_it_lives_on_the_standard_library_alone() -> None:
    found = subprocess.run([sys.executable, "-c", FOREIGN], capture_output=True, text=True, check=True)
    # What a site's own start-up files import is not ours: of those an empty program shows the same.
    bare = subprocess.run(
        [sys.executable, "-c", FOREIGN.replace("import relance.watchdog.main, relance.watchdog.services", "")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(found.stdout.split()) - set(bare.stdout.split()) == set()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[list[bytes]]:
    """What is said to systemd, which listens at `notify`."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))

        def listen() -> None:
            while word := listening.recv(100):
                heard.append(word)

        thread = threading.Thread(target=listen)
        thread.start()
        yield heard
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ending:
            ending.sendto(b"", str(tmp_path / "notify"))
        thread.join(WAIT_S)


def test_it_watches_tells_and_ends_cleanly(start: Callable[..., Started], systemd: list[bytes], tmp_path: Path) -> None:
    one = start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="30000000")
    until(lambda: b"WATCHDOG=1" in systemd)
    assert systemd[0] == b"READY=1"
    until((tmp_path / "relance.prom").exists)
    mark = read_mark((tmp_path / MARK_FILE).read_text())
    assert mark is not None
    assert any("Unable to contact" in text for text in mark.alarms)
    address = next(line["address"] for line in one.said if line["event"] == "listening")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT_S) as page:
        assert b'relance_watchdog_alarm{cluster="alpha",subject="scheduler"} 1' in page.read()
    with urllib.request.urlopen(f"http://{address}/healthz", timeout=WAIT_S) as page:
        assert page.status == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{address}/other", timeout=WAIT_S)
    two = start()
    assert two.process.wait(WAIT_S) == 1
    assert "another watchdog has" in two.errors.read_text()
    os.kill(one.process.pid, signal.SIGSTOP)
    os.kill(one.process.pid, signal.SIGCONT)
    assert one.end() == 0
    until(lambda: systemd[-1] == b"STOPPING=1")
    assert [line["event"] for line in one.said if line["event"] in ("started", "ended")] == ["started", "ended"]


def test_it_ends_also_while_the_scheduler_hangs(start: Callable[..., Started], tmp_path: Path) -> None:
    one = start()
    until((tmp_path / MARK_FILE).exists)
    hanging = tmp_path / "bin" / "scontrol"
    hanging.with_suffix(".new").write_text(f'#!/bin/sh\ntouch "{tmp_path}/hangs"\nexec sleep 600\n')
    hanging.with_suffix(".new").chmod(0o755)
    hanging.with_suffix(".new").replace(hanging)
    until((tmp_path / "hangs").exists)
    assert one.end(signal.SIGINT) == 0


def test_one_round_can_be_asked_for(start: Callable[..., Started], tmp_path: Path) -> None:
    assert start("--once", "--stage", "observe").process.wait(WAIT_S) == 0
    assert (tmp_path / MARK_FILE).exists()


def test_a_folder_that_comes_later_is_locked_when_it_is_there(start: Callable[..., Started], tmp_path: Path) -> None:
    one = start()
    until((tmp_path / "watchdog.lock").exists)
    one.end()
    (tmp_path / "watchdog.lock").unlink()
    (tmp_path / "watchdog.lock").mkdir()
    two = start()
    until(lambda: any(line["event"] == "started" for line in two.said))
    (tmp_path / "watchdog.lock").rmdir()
    until((tmp_path / "watchdog.lock").is_file)
    assert start().process.wait(WAIT_S) == 1
    assert two.end() == 0
