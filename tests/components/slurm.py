"""A private Slurm cluster for the tests: one for a whole run, and for each test some nodes of it that nobody else gets.

A test that disturbs the whole cluster (restarts slurmctld, ends slurmdbd, needs another slurm.conf) starts a small one
of its own with `private_slurm`; that takes four seconds.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from relance.simulation.private_slurm import ClusterPlan, PartitionPlan, RunningCluster, start_cluster
from relance.simulation.private_slurm.programs import Programs
from tests.components.presence import missing_component, require_component

REASON: Final = "the tests against a real Slurm cluster"
PREFIX: Final = os.environ.get("RELANCE_TEST_SLURM_PREFIX", "")
"""The folder with bin and sbin of the release to test; empty means the Slurm that is on PATH."""

NODES_AT_LEAST: Final = 6
NODES_PER_WORKER: Final = 4
"""No test takes more at once, so that none waits for another's: that would count against its own limit."""
QUIET_LIMIT_S: Final = 90.0
POLL_S: Final = 0.05
RESERVATION: Final = re.compile(r"^ReservationName=(\S+).*? Nodes=(\S+)", re.MULTILINE)
EVERYBODY: Final = PartitionPlan(name="everybody", options="Default=YES State=DRAIN")
"""The default partition of the shared cluster: it takes no job, so that a test that names no partition is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedNodes:
    """Nodes of the shared cluster that are one test's alone, and a partition of exactly these nodes.

    Attributes:
        cluster: The shared cluster.
        nodes: The names of the nodes; a name that is not among them belongs to another test.
        partition: Where this test's jobs go.
    """

    cluster: RunningCluster
    nodes: tuple[str, ...]
    partition: str

    def submit(self, user: str, script: str, *, options: Sequence[str] = (), cwd: Path | None = None) -> int:
        """Submit a batch script to the partition of the lease; gives the job id. See `RunningCluster.submit`."""
        return self.cluster.submit(user, script, options=[f"--partition={self.partition}", *options], cwd=cwd)

    def add_partition(self, name: str, *options: str) -> str:
        """Make one more partition of the same nodes; gives its whole name. It goes with the lease.

        Args:
            name: A word; the name of the lease's own partition is put before it.
            options: As `scontrol create` takes them: `PriorityTier=10`, `PreemptMode=REQUEUE`, `GraceTime=20`.
        """
        whole = f"{self.partition}{name}"
        words = [f"PartitionName={whole}", f"Nodes={','.join(self.nodes)}", *options]
        self.cluster.must("root", ["scontrol", "create", *words])
        return whole


def require_slurm() -> None:
    """Skip the running test, or fail it where CI=true, when no private cluster can be started here."""
    path = Programs(prefix=PREFIX).path
    for program in ("slurmctld", "slurmd", "slurmdbd"):
        require_component("slurm", REASON, program=program, path=path)
    for program, name in (("munged", "munge"), ("mariadbd", "mariadb"), ("mariadb-install-db", "mariadb")):
        require_component(name, REASON, program=program, path=path)
    if os.geteuid() != 0:
        missing_component("the user root", REASON)


@contextmanager
def running_cluster(plan: ClusterPlan) -> Iterator[RunningCluster]:
    """A cluster of the release under test, removed at the end; also when this process is killed."""
    require_slurm()
    cluster = start_cluster(replace(plan, prefix=PREFIX))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def private_slurm() -> Iterator[Callable[[ClusterPlan], RunningCluster]]:
    """Starts clusters of the test's own: call it with a plan. They are removed after the test."""
    with ExitStack() as clusters:
        yield lambda plan: clusters.enter_context(running_cluster(plan))


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> RunningCluster:
    """The cluster that all processes of this test run share; the first to ask starts it.

    Six nodes, `gpu001` to `gpu006`, or four for each test process if that is more. Use it by a lease (`lease_nodes`,
    `slurm_nodes`). Its keeper removes it when the whole run has ended, however that comes.
    """
    require_slurm()
    alone = worker_id == "master"
    base = tmp_path_factory.getbasetemp()
    shared = base if alone else base.parent
    with (shared / "slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = shared / "slurm.json"
        if not (known.exists() and _lives(RunningCluster.from_json(known.read_text()))):
            workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
            nodes = max(NODES_AT_LEAST, NODES_PER_WORKER * workers)
            plan = ClusterPlan(node_count=nodes, partitions=(EVERYBODY,), prefix=PREFIX)
            known.write_text(start_cluster(plan, owner_pid=os.getpid() if alone else os.getppid()).to_json())
        return RunningCluster.from_json(known.read_text())


def _lives(cluster: RunningCluster) -> bool:
    """Whether the daemons that a whole cluster needs are there; without them a test that is tried again gets others."""
    return {"munged", "mariadbd", "slurmdbd", "slurmctld"}.issubset(cluster.pids)


@pytest.fixture
def lease_nodes(slurm_cluster: RunningCluster) -> Iterator[Callable[[int], LeasedNodes]]:
    """Gives a test as many nodes as it asks for, alone, and waits until they are free. To be called once in a test.

    After the test its jobs are cancelled, killed nodes are started, drained ones resumed.
    """
    with ExitStack() as leases:
        yield lambda count: leases.enter_context(leased_nodes(slurm_cluster, count))


@pytest.fixture
def slurm_nodes(lease_nodes: Callable[[int], LeasedNodes]) -> LeasedNodes:
    """Three nodes: enough for a job of two that has to leave one."""
    return lease_nodes(3)


@contextmanager
def leased_nodes(cluster: RunningCluster, count: int) -> Iterator[LeasedNodes]:
    """Nodes that are held by locks on files in the cluster's folder, so that the end of a process gives them back."""
    with ExitStack() as held:
        nodes = _take(cluster, count, held)
        partition = f"t{secrets.token_hex(4)}"
        _tidy(cluster, nodes)  # what a test process that was killed left there
        cluster.must("root", ["scontrol", "create", f"PartitionName={partition}", f"Nodes={','.join(nodes)}"])
        try:
            yield LeasedNodes(cluster=cluster, nodes=nodes, partition=partition)
        finally:
            _tidy(cluster, nodes)


def _take(cluster: RunningCluster, count: int, held: ExitStack) -> tuple[str, ...]:
    """Lock `count` nodes. Who waits keeps what it has, and the others queue behind it: nobody waits for ever."""
    if count > len(cluster.plan.nodes):
        raise ValueError(f"{count} nodes of a cluster that has {len(cluster.plan.nodes)}")
    locks = Path(cluster.folder) / "leases"
    locks.mkdir(exist_ok=True)
    taken: list[str] = []
    with (locks / "queue").open("w") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        while True:
            for node in cluster.plan.nodes:
                if len(taken) == count:
                    return tuple(sorted(taken))
                if node not in taken and _lock(locks / node, held):
                    taken.append(node)
            if len(taken) < count:
                time.sleep(POLL_S)


def _lock(path: Path, held: ExitStack) -> bool:
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return False
    held.enter_context(lock)
    return True


def _tidy(cluster: RunningCluster, nodes: tuple[str, ...]) -> None:
    """Leave these nodes idle, whatever was done to them, and without the jobs, reservations and partitions of tests."""
    for node in nodes:
        cluster.start_node(node, wait=False)
    partitions = _partitions_on(cluster, nodes)
    for partition in partitions:
        cluster.run_as("root", ["scancel", f"--partition={partition}"])
    for reservation in _reservations_on(cluster, nodes):
        cluster.run_as("root", ["scontrol", "delete", f"ReservationName={reservation}"])
    end = time.monotonic() + QUIET_LIMIT_S
    while not (_all_idle(cluster, nodes) and all(_delete(cluster, each) for each in partitions)):
        if time.monotonic() > end:
            states = {node: cluster.node_state(node) for node in nodes}
            jobs = cluster.run_as("root", ["squeue", f"--nodelist={','.join(nodes)}"]).stdout
            pytest.fail(f"The nodes of a test do not become idle: {states}\n{jobs}\n{cluster.logs('slurmctld')}")
        time.sleep(POLL_S)


def _all_idle(cluster: RunningCluster, nodes: tuple[str, ...]) -> bool:
    """Whether all are idle; those that somebody drained or set down are resumed."""
    idle = True
    for node in nodes:
        state = cluster.node_state(node)
        idle = idle and state == "IDLE"
        if "REBOOT" in state:
            cluster.run_as("root", ["scontrol", "cancel_reboot", node])
        if "DOWN" in state or "DRAIN" in state:
            cluster.run_as("root", ["scontrol", "update", f"NodeName={node}", "State=RESUME"])
    return idle


def _partitions_on(cluster: RunningCluster, nodes: tuple[str, ...]) -> set[str]:
    """The partitions that tests made on these nodes. By node: else sinfo lists all others too, without nodes."""
    argv = ["sinfo", "--noheader", "--Node", f"--nodes={','.join(nodes)}", "--format=%R"]
    return set(cluster.must("root", argv).split()) - {EVERYBODY.name}


def _reservations_on(cluster: RunningCluster, nodes: tuple[str, ...]) -> set[str]:
    """The reservations that have some of these nodes."""
    shown = cluster.run_as("root", ["scontrol", "show", "reservation", "--oneliner"]).stdout
    found = RESERVATION.findall(shown)
    return {
        name
        for name, names in found
        if not set(nodes).isdisjoint(cluster.must("root", ["scontrol", "show", "hostnames", names]).split())
    }


def _delete(cluster: RunningCluster, partition: str) -> bool:
    """Whether the partition is gone now; it stays while a job is in it."""
    done = cluster.run_as("root", ["scontrol", "delete", f"PartitionName={partition}"])
    return done.returncode == 0 or "Invalid partition" in done.stderr
