"""A server in a process of its own, and people of other uids who run `relance` without a token."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from relance.client.backends import HttpBackend
from relance.domain.views import ClusterReport, JobState, JobView, SchedulerFacts
from relance.ports.clocks import SystemClock
from relance.slurm.munge import SOCKET_VARIABLE
from relance.testing.other_users import OpenPython, open_python, user_of
from relance.testing.roles import RelanceProcesses
from tests.components.munge import Munged, running_munged

ADA, EVE = 54_321, 54_322
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNode:
    """Where people work: the server's URL, a Python that everybody may run, and munge's socket."""

    url: str
    python: OpenPython
    munged: Munged

    def run(self, uid: int, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`relance` as that uid, without a token and without a home."""
        return subprocess.run(
            [self.python.program, "-m", "relance", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "RELANCE_SERVER": self.url,
                SOCKET_VARIABLE: str(self.munged.socket),
                **self.python.environment(),
                **environment,
            },
            cwd="/",
            user=uid,
            group=uid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    """A login node before a server that knows job 17 of one uid and job 18 of another."""
    folder = tmp_path_factory.mktemp("node")
    with running_munged() as munged:
        settings = {
            "state_dir": str(folder / "state"),
            "clusters": [{"name": "alpha", "opt_in": "all"}],
            "server": {"port": 0, "munge": {"enabled": True, "socket": str(munged.socket)}},
        }
        relance = RelanceProcesses(folder, settings)
        relance.config.write_text(json.dumps(settings))
        try:
            relance.start_role("server")
            asyncio.run(report(relance.server.url, (relance.state_dir / "agent-token").read_text().strip()))
            python = open_python(folder / "python", user_of("nobody"))
            yield LoginNode(url=relance.server.url, python=python, munged=munged)
        finally:
            relance.stop()


async def report(url: str, token: str) -> None:
    """Tell the server what the scheduler shows."""
    clock = SystemClock()
    backend = HttpBackend(url, token, clock)
    try:
        await backend.orders("alpha", "controller-1")
        now = clock.now()
        job = JobView(
            raw_id="17", first_submitted_at=now, submitted_at=now, restart_count=0, name="train", user="ada",
            owner_uid=ADA, partition="gpu", state=JobState.RUNNING, started_at=now, nodes=("n0",),
            log_paths=("/home/ada/slurm-17.out",),
        )  # fmt: skip
        jobs = (job, replace(job, raw_id="18", user="eve", owner_uid=EVE))
        facts = SchedulerFacts(release="24.05", may_act=True)
        await backend.report(
            ClusterReport(cluster="alpha", session="s1", sequence=1, as_of=now, facts=facts, jobs=jobs, nodes=())
        )
    finally:
        await backend.close()


def test_an_owner_asks_switches_and_disagrees_without_a_token(node: LoginNode) -> None:
    why = node.run(ADA, "why", "17")
    assert why.returncode == 0, why.stderr
    assert "train (17) of ada" in why.stdout
    assert "not wanted: relance off 17" in why.stdout
    check = node.run(ADA, "check", "17")
    assert check.returncode == 0, check.stderr
    assert "/home/ada/slurm-17.out" in check.stdout
    assert "if it fails, say why and what would have helped, and do nothing" in check.stdout
    off = node.run(ADA, "off", "17", "--for", "4h")
    assert "train (17) is at off" in off.stdout
    assert "nothing: it is switched off" in node.run(ADA, "check", "17").stdout
    assert "train (17) is at observe" in node.run(ADA, "off", "17", "--undo").stdout
    assert "train (17) is at observe" in node.run(ADA, "wrong", "17", "it was my data").stdout
    assert "said to be wrong: it was my data" in node.run(ADA, "why", "17").stdout


def test_another_uid_and_root_find_no_such_job(node: LoginNode) -> None:
    for uid in (EVE, 0):
        for words in (("why", "17"), ("check", "17"), ("off", "17"), ("wrong", "17", "no")):
            told = node.run(uid, *words)
            assert told.returncode == 3, (uid, words, told.stdout)
            assert "no job is known by '17'" in told.stderr
            assert "your own jobs" in told.stderr
    assert "train (18) of eve" in node.run(EVE, "why", "18").stdout


def test_what_needs_a_token_says_so(node: LoginNode) -> None:
    told = node.run(ADA, "jobs")
    assert told.returncode == 5
    assert "this needs a token" in told.stderr


def test_without_munged_people_are_told_what_to_do(node: LoginNode) -> None:
    told = node.run(ADA, "why", "17", **{SOCKET_VARIABLE: "/nonexistent/socket"})
    assert told.returncode == 4
    assert "munge cannot be asked" in told.stderr
    assert "start munged here, or show a token" in told.stderr


def test_without_munge_at_all_people_are_told_what_to_do(node: LoginNode) -> None:
    told = node.run(ADA, "why", "17", PATH="/nonexistent")
    assert told.returncode == 4
    assert "no token" in told.stderr
    assert "--token-file" in told.stderr
