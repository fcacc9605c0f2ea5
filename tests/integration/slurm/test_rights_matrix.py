"""Who may send which command, tried on a real cluster, is what our table of powers and the page of it say."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from relance.controllers.slurm.levels import Rights
from relance.controllers.slurm.powers import POWERS, Need, hidden, refused
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.parsing.settings import parse_settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "rights.md"
ACCOUNT = "matrix"
NONE, COORDINATOR, OPERATOR, ADMINISTRATOR = "games", "daemon", "relance", "bin"
"""System users that every machine has, and the operator of the cluster."""
LEVELS = {
    NONE: Rights(user=NONE, uid=1, admin_level="none"),
    COORDINATOR: Rights(user=COORDINATOR, uid=1, admin_level="none", coordinates=(ACCOUNT,)),
    OPERATOR: Rights(user=OPERATOR, uid=1, admin_level="operator"),
    ADMINISTRATOR: Rights(user=ADMINISTRATOR, uid=1, admin_level="administrator"),
}
SLEEP = "#!/bin/sh\nsleep 600\n"
REFUSED = ("denied", "Invalid user id")
"""Slurm's two words for a right that is missing."""


async def test_what_slurm_refuses_and_leaves_out_is_what_is_said_before(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=4, extra_lines=("PrivateData=jobs,reservations",)))
    _give_rights(cluster)
    found = await asyncio.gather(*(asyncio.to_thread(_refused, cluster, user) for user in LEVELS))
    assert dict(zip(LEVELS, found, strict=True)) == {user: set(refused(rights)) for user, rights in LEVELS.items()}
    facts = parse_settings(cluster.must("root", ["scontrol", "show", "config"]).encode())
    assert hidden(facts) == ("squeue", "sacct", "scontrol show reservation")
    job, (*_, node) = _submit(cluster), cluster.plan.nodes
    cluster.must("root", ["scontrol", "create", "reservation", "ReservationName=private", *_reserving(node)])
    for user, rights in LEVELS.items():
        queue = _as(cluster, user, "squeue", "--noheader", "--format=%i").stdout.split()
        assert (str(job) in queue) is (user != NONE), user
        windows = _as(cluster, user, "scontrol", "show", "reservation").stdout
        assert ("ReservationName=private" in windows) is rights.may_act_everywhere, user


def test_the_page_has_the_same_table() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    words = {True: "yes", False: "no"}
    wanted = [
        (power.command, *(words[power.need.is_met(rights)] for rights in LEVELS.values())) for power in POWERS
    ]  # fmt: skip
    assert rows == wanted
    assert {power.need for power in POWERS} == set(Need)


def _refused(cluster: RunningCluster, user: str) -> set[str]:
    """The commands of our table that this user may not send, each tried on a job or node of its own."""
    running, other, waiting = _submit(cluster), _submit(cluster), _submit(cluster, "--begin=now+3600")
    for job in (running, other):
        cluster.wait_for_state(job, "RUNNING")
    node = cluster.plan.nodes[list(LEVELS).index(user) % len(cluster.plan.nodes)]
    lasting = f"ReservationName=keep-{user}"
    reserve = _reserving(node)
    cluster.must("root", ["scontrol", "create", "reservation", lasting, *reserve])
    update, later = ("scontrol", "update"), "StartTime=2033-01-01T00:00:00"
    tried: dict[str, tuple[str, ...]] = {
        "scontrol hold": ("scontrol", "hold", str(waiting)),
        "scontrol release": ("scontrol", "release", str(waiting)),
        "scontrol update ExcNodeList StartTime": (*update, f"JobId={waiting}", f"ExcNodeList={node}", later),
        "scontrol update Dependency": (*update, f"JobId={waiting}", f"Dependency=afterany:{running}"),
        "scontrol update StdOut": (*update, f"JobId={waiting}", "StdOut=/dev/null"),
        "scontrol update Requeue": (*update, f"JobId={running}", "Requeue=1"),
        "scontrol requeue": ("scontrol", "requeue", str(running)),
        "scontrol requeuehold": ("scontrol", "requeuehold", str(other)),
        "scancel": ("scancel", str(waiting)),
        "scontrol create reservation": ("scontrol", "create", "reservation", f"ReservationName=new-{user}", *reserve),
        "scontrol delete ReservationName": ("scontrol", "delete", lasting),
        "scontrol update State=DRAIN": (*update, f"NodeName={node}", "State=DRAIN", "Reason=relance: a test"),
        "scontrol update State=UNDRAIN": (*update, f"NodeName={node}", "State=UNDRAIN"),
    }
    assert tried.keys() == {power.command for power in POWERS}
    return {command for command, argv in tried.items() if _is_refused(cluster, user, argv)}


def _is_refused(cluster: RunningCluster, user: str, argv: tuple[str, ...]) -> bool:
    done = _as(cluster, user, *argv)
    if done.returncode == 0:
        return False
    assert any(word in done.stderr for word in REFUSED), (user, argv, done.stderr)
    return True


def _give_rights(cluster: RunningCluster) -> None:
    """An account with a user, a coordinator, an administrator, and the owner of the jobs."""
    for words in (
        ("add", "account", ACCOUNT),
        ("add", "user", "owner1", f"account={ACCOUNT}"),
        ("add", "user", f"{NONE},{COORDINATOR}", f"account={ACCOUNT}"),
        ("add", "user", ADMINISTRATOR, f"account={ACCOUNT}", "adminlevel=Administrator"),
        ("add", "coordinator", f"account={ACCOUNT}", f"user={COORDINATOR}"),
    ):
        cluster.must("root", ["sacctmgr", "--immediate", *words])


def _reserving(node: str) -> tuple[str, ...]:
    return (f"Nodes={node}", "StartTime=now", "Duration=60", "Flags=MAINT,IGNORE_JOBS", "Users=root")


def _submit(cluster: RunningCluster, *options: str) -> int:
    return cluster.submit("owner1", SLEEP, options=[f"--account={ACCOUNT}", "--ntasks=1", *options])


def _as(cluster: RunningCluster, user: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return cluster.run_as(user, argv, cwd=Path("/"))
