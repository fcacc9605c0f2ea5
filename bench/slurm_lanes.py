"""Lanes on one private Slurm cluster, for cases side by side: each a partition with a Relance and shims of its own."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.rigs import NO_STORM, folder
from bench.shims import Fault, Shims
from bench.sites import LOOK_EVERY_S, TooLateError, until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import EndRunning
from relance.simulation import node_faults
from relance.simulation.private_slurm import (
    ClusterPlan,
    PartitionPlan,
    PrivateSlurmError,
    RunningCluster,
    start_cluster,
)
from relance.testing.clusters import Training
from relance.testing.other_users import open_python, user_of

LIMITS: Mapping[str, object] = {
    # srun says that a task died a moment before the job ends: a verdict at once would race with that line.
    "settle_s": 1,
    "grace_after_boot_s": 0,
    "hang": {"suspected_min_s": 2},
    "exclusions": {"per_partition_share": 1},  # each case keeps a node out for its own job
    "storms": NO_STORM,
}
NODES = 3
"""Of a lane: two for the job, and one more, so that one can be kept out."""
STEPS, STEP_S = 3000, 0.1
STEPPING = 12
_GONE_S = 60.0
_LIVING = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")

C = TypeVar("C")


@dataclass(slots=True, kw_only=True)
class Lane:
    """A partition of three nodes, the Relance that serves it and nothing else, and the shims before its commands."""

    site: SlurmSite
    shims: Shims
    jobs: int = 0

    @property
    def cluster(self) -> RunningCluster:
        """The cluster that all lanes share."""
        return self.site.cluster

    def submit(self, *, nodes: int = 2, comment: str = "", steps: int = STEPS, wait_for_step: int = STEPPING) -> int:
        """A training that is stepping; gives its id. Raises TooLateError."""
        self.jobs += 1
        training = Training(
            name=f"{self.site.partition}-{self.jobs}",
            nodes=nodes,
            ranks_per_node=1,
            steps=steps,
            step_s=STEP_S,
            comment=comment,
        )
        job = self.site.trainings.submit(training)
        self.site.wait_for_step(job, wait_for_step)
        return job

    def watch(self, job: int, fault: Fault | None = None) -> None:
        """Begin to number the calls about a job; at the fault's call let it happen to this lane's Relance."""
        self.shims.watch(job, self.site.relance.role("up").pid, fault)

    def break_node_of(self, job: int) -> str:
        """Break the second node of a job, and mend it once the job has felt it; gives the node. Raises TooLateError."""
        node = str(self.site.trainings.job(job)["node_list"][1])
        self.site.trainings.break_node(node)
        until(lambda: self.site.state(job) != "RUNNING", 30.0, f"the fault of job {job}")
        self.mend(node)
        return node

    def mend(self, node: str) -> None:
        """Let a node be sound again."""
        node_faults.mend_node(self.site.trainings.work_dir / "nodes" / node)

    def fields(self, job: int) -> dict[str, str]:
        """What `scontrol show job` says."""
        return self.cluster.job_fields(job)

    def bring_back(self) -> None:
        """Start Relance again if it was killed. Raises ProcessFailedError when it does not come."""
        if self.site.relance.role("up").exit_code is not None:
            self.site.reconnect()
            self.shims.of(self.site.relance.start_role("up").pid)

    def clear(self, job: int) -> None:
        """End a job, whatever it does, and wait until it is gone. Raises TooLateError."""
        self.shims.watch(0, 0)
        if self.site.state(job) in _LIVING:
            with contextlib.suppress(PrivateSlurmError):
                self.site.trainings.cancel(job)
        until(lambda: self.site.state(job) not in _LIVING, _GONE_S, f"the end of job {job}")


@contextlib.contextmanager
def lanes(count: int) -> Iterator[list[Lane]]:
    """So many lanes on a cluster of their own; all is gone afterwards."""
    names = [f"gpu{number:03d}" for number in range(1, count * NODES + 1)]
    partitions = tuple(
        PartitionPlan(
            name=f"lane{number + 1}",
            nodes=tuple(names[number * NODES : (number + 1) * NODES]),
            options="" if number else "Default=YES",
        )
        for number in range(count)
    )
    with folder() as place, contextlib.ExitStack() as running:
        place.chmod(0o755)
        cluster = start_cluster(ClusterPlan(node_count=len(names), partitions=partitions))
        running.callback(cluster.stop)
        yield [running.enter_context(lane(cluster, place / each.name, each.name)) for each in partitions]


@contextlib.contextmanager
def lane(cluster: RunningCluster, place: Path, partition: str) -> Iterator[Lane]:
    """A lane on a cluster that runs already, in a new folder that every user may enter."""
    place.mkdir(parents=True)
    operator = user_of(cluster.plan.operator)
    shims = Shims(place / "shims", operator, open_python(place, operator))
    setup = SlurmSetup(
        scheduler={**FAST_POLLS, "partitions": [partition]},
        site={"limits": LIMITS},
        environment={"PATH": f"{shims.folder}:{cluster.env['PATH']}"},
        end_running=frozenset(EndRunning),
    )
    site = SlurmSite(cluster, place, setup, partition=partition)
    try:
        site.start()
        site.client.set_stage(setup.stage, site.name, partition, setup.end_running)
        yield Lane(site=site, shims=shims)
    finally:
        site.stop()


def side_by_side(made: Sequence[Lane], cases: Sequence[C], run: Callable[[Lane, C], None]) -> None:
    """Run cases, each lane one after the other; `run` raises nothing."""
    waiting: queue.SimpleQueue[C] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)

    def work(each: Lane) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                run(each, waiting.get_nowait())

    threads = [threading.Thread(target=work, args=(each,)) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def stays(ask: Callable[[], bool], duration_s: float) -> bool:
    """Whether something is true now and for so long."""
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        if not ask():
            return False
        time.sleep(LOOK_EVERY_S)
    return ask()


__all__ = ["LIMITS", "Lane", "TooLateError", "lane", "lanes", "side_by_side", "stays", "until"]
