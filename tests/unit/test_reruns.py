"""Tests against real processes are tried once more; all that a failure may have broken is made anew, and it is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reruns import is_tried_again

ROOT = Path(__file__).parents[2]
CONFTEST = "from tests.reruns import Reruns\ndef pytest_configure(config): config.pluginmanager.register(Reruns())\n"
SERVER = """
import asyncio, pathlib, pytest, time
made = pathlib.Path(__file__).with_name("made")
def note(what):
    with made.open("a") as file: file.write(what + " ")
@pytest.fixture(scope="session")
def cluster():
    note("cluster"); yield {"alive": True}; note("cluster-gone")
@pytest.fixture(scope="module")
def server(cluster):
    note("server"); yield cluster; note("server-gone")
"""
RunTests = Callable[..., str]


@pytest.fixture
def run_tests(tmp_path: Path) -> RunTests:
    """Runs the text of a test module below a folder of that name, as our runs do; gives what pytest says."""

    def run(text: str, *options: str, folder: str = "tests/integration") -> str:
        place = tmp_path / folder
        place.mkdir(parents=True)
        (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\ntimeout = 60\n")
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (place / "test_it.py").write_text(SERVER + text)
        words = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rerun-show-tracebacks", *options]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "."],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            check=False,
            capture_output=True,
            text=True,
        )
        made = place / "made"
        return f"{done.stdout}{done.stderr}exit {done.returncode}; made: {made.read_text() if made.exists() else ''}"

    return run


def test_a_broken_server_is_made_anew_for_the_second_try_and_the_run_tells_of_the_first(run_tests: RunTests) -> None:
    told = run_tests(
        "def test_first(server): note('first')\n"
        "async def test_breaks(server):\n"
        "    await asyncio.sleep(0)\n"
        "    again = 'cluster-gone' in made.read_text()\n"
        "    server['alive'] = again\n"
        "    assert server['alive'], 'the server died'\n"
        "def test_after(server): assert server['alive']; note('after')\n",
        *("-n", "1"),
    )
    assert "exit 0;" in told, told
    assert "3 passed, 1 rerun" in told
    assert "RERUN tests/integration/test_it.py::test_breaks" in told
    assert "the server died" in told
    made = told.partition("made: ")[2].split()
    assert made == [
        *("cluster", "server", "first", "server-gone", "cluster-gone"),
        *("cluster", "server", "after", "server-gone", "cluster-gone"),
    ]


def test_a_server_that_did_not_start_is_started_again(run_tests: RunTests) -> None:
    told = run_tests(
        "@pytest.fixture(scope='module')\n"
        "def slow(cluster):\n"
        "    note('tried')\n"
        "    assert made.read_text().count('tried') > 1, 'it did not start'\n"
        "    yield\n"
        "def test_it(slow): pass\n"
    )
    assert "exit 0;" in told, told
    assert "1 passed, 1 rerun" in told


def test_a_real_fault_fails_twice_and_fails_the_run_within_its_limit_each_time(run_tests: RunTests) -> None:
    told = run_tests(
        "def test_plain(server): assert 0, 'a real fault'\n"
        "async def test_coroutine(server): assert 0, 'a real fault'\n"
        "@pytest.fixture\ndef gone():\n    yield\n    assert 0, 'a real fault'\n"
        "def test_end(gone): pass\n"
        "@pytest.mark.timeout(0.5)\ndef test_hangs(): time.sleep(20)\n"
    )
    assert "exit 1;" in told, told
    assert "3 failed, 2 passed, 1 error, 4 rerun" in told
    assert len(re.findall(r"^E .*a real fault", told, re.MULTILINE)) >= 6
    assert told.count("Timeout (>0.5s)") >= 2


def test_what_computes_is_not_tried_again(run_tests: RunTests) -> None:
    text = "def test_it():\n    note('tried')\n    assert made.read_text().count('tried') > 1\n"
    told = run_tests(text, folder="tests/unit")
    assert "exit 1;" in told, told
    assert "rerun" not in told


def test_every_contract_with_a_server_beside_it_is_tried_again_and_no_other() -> None:
    modules = sorted((ROOT / "tests/contract").glob("test_*.py"))
    beside = re.compile(r"^from tests\.components|mariadb_url|SimulatedCluster", re.MULTILINE)
    real = {path.name for path in modules if beside.search(path.read_text())}
    assert {path.name for path in modules if is_tried_again(f"tests/contract/{path.name}")} == real
    assert not is_tried_again("tests/unit/slurm/test_running.py::test_it")
    assert not is_tried_again("tests/properties/test_watcher_restarts.py::test_it")
    assert not is_tried_again("tests/scenarios/test_stories.py::test_it")
