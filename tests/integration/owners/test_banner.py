"""`relance banner` as slurmd runs it: a process of the job's user with the job's environment."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from relance.domain import events as e
from relance.domain.views import JobState
from relance.recovery.sites import Site
from relance.serving.owners import Owners
from relance.testing import history_values as values
from relance.testing.other_users import OpenPython, open_python, user_of
from tests.components.munge import Munged, running_munged
from tests.served.servers import Served, served
from tests.served.worlds import World, progress, world

ADA, EVE = 1000, 1001
PATH = "/usr/bin:/bin"


@pytest.fixture(scope="module")
def munged() -> Iterator[Munged]:
    """A munged for all tests here."""
    with running_munged() as running:
        yield running


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> OpenPython:
    """A Python that every user may run."""
    return open_python(tmp_path_factory.mktemp("python"), user_of("nobody"))


@pytest.fixture(scope="module")
def server(munged: Munged) -> Iterator[Served]:
    """A server with job 18, which was restarted without n1 and lost 31 steps."""

    def make() -> Coroutine[Any, Any, World]:
        return restarted(munged)

    with served(make) as running:
        yield running


async def restarted(munged: Munged) -> World:
    """The world after job 18's restart."""
    made = await world(owners=Owners(munged.munge))
    object.__setattr__(made, "parts", replace(made.parts, site=Site(zone=ZoneInfo("Europe/Paris"))))
    before = values.attempt_key("18")
    made.live.progress[before] = progress(480, durable=450)
    ended = e.AttemptEnded(
        attempt=before, outcome=JobState.FAILED, ended_at=values.after(2), highest_step=480, durable_step=450
    )
    await made.append(values.job_stream("18"), ended)
    return made


class Node:
    """Where slurmd runs a TaskProlog."""

    def __init__(self, python: OpenPython, munged: Munged, url: str) -> None:
        self._python, self._munged, self._url = python, munged, url

    def banner(self, environment: Mapping[str, str], uid: int = ADA) -> subprocess.CompletedProcess[bytes]:
        """Run the verb for job 18's second attempt, unless the environment says otherwise."""
        job = {
            "SLURM_JOB_ID": "18", "SLURM_RESTART_COUNT": "1", "SLURM_PROCID": "0", "SLURM_CLUSTER_NAME": "alpha",
            "RELANCE_SERVER": self._url, "RELANCE_MUNGE_SOCKET": str(self._munged.socket), "PATH": PATH,
        }  # fmt: skip
        return subprocess.run(
            [self._python.program, "-m", "relance", "banner", "--time-limit", "20"],
            env={**job, **self._python.environment(), **environment},
            cwd="/", user=uid, group=uid, extra_groups=[], capture_output=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def node(python: OpenPython, munged: Munged, server: Served) -> Node:
    return Node(python, munged, server.url)


def test_a_restarted_job_says_in_five_lines_what_happened(node: Node) -> None:
    told = node.banner({})
    assert told.returncode == 0
    first, why, did, cost, more = told.stdout.decode().splitlines()
    assert first == ("print relance: attempt 2 of at most 21 · attempt 1 ended 12:00:02 UTC (13:00 Paris) at step 480")
    assert why.startswith("print relance: why: it is a node, not your code: n1")
    assert '"RuntimeError: CUDA error" (/logs/out.txt (byte 0), rank 0, n0)' in why
    assert did == "print relance: did: requeued without n1"
    assert cost.startswith("print relance: cost: back to checkpoint 450, 30 steps to do again, about 30 s")
    assert "relance why 18 · not wanted: relance off 18" in more
    assert len(told.stdout) < 4096


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_RESTART_COUNT": "0"},
        {"SLURM_RESTART_COUNT": ""},
        {"SLURM_RESTART_COUNT": "no number"},
        {"SLURM_PROCID": "1"},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "4711"},
        {"SLURM_RESTART_COUNT": "2"},
        {"RELANCE_SERVER": "http://127.0.0.1:1"},
        {"RELANCE_SERVER": "nonsense://"},
        {"RELANCE_SERVER": "http://no-such-host.invalid:1"},
        {"RELANCE_MUNGE_SOCKET": "/nonexistent"},
        {"PATH": "/nonexistent"},
        {"RELANCE_SERVER": "", "PATH": PATH},
    ],
    ids=str,
)
def test_where_nothing_can_be_said_nothing_is_printed_and_no_job_fails(node: Node, environment: dict[str, str]) -> None:
    told = node.banner(environment)
    assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")


def test_the_banner_of_somebody_elses_job_is_not_shown(node: Node) -> None:
    told = node.banner({}, EVE)
    assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")


def test_a_server_that_never_answers_holds_a_job_up_for_the_time_limit_only(python: OpenPython, munged: Munged) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        job = {
            "SLURM_JOB_ID": "18", "SLURM_RESTART_COUNT": "1", "RELANCE_SERVER": url, "PATH": PATH,
            "RELANCE_MUNGE_SOCKET": str(munged.socket), **python.environment(),
        }  # fmt: skip
        took_s: list[float] = []
        while len(took_s) < 3 and (not took_s or took_s[-1] >= 4):  # a machine that stood still is tried again
            began = time.monotonic()
            told = subprocess.run(
                [python.program, "-m", "relance", "banner"], env=job, capture_output=True, timeout=60, check=False
            )
            took_s.append(time.monotonic() - began)
            assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")
    assert 0.3 <= min(took_s) < 4  # the connection alone would wait for 5 s


def test_without_a_restart_nothing_is_loaded() -> None:
    code = (
        "import sys; before = set(sys.modules); from relance.cli.entry import main; sys.argv = ['relance', 'banner']\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 0\n"
        "print(' '.join(sorted(set(sys.modules) - before)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": PATH}, capture_output=True, text=True, check=True, cwd=Path("/")
    )
    assert told.stdout.split() == ["__future__", "relance", "relance.cli", "relance.cli.entry", "relance.cli.prolog"]
