"""An adapter of a real Slurm as the operator, on nodes that are one test's alone, and the hands of a job's owner."""

from __future__ import annotations

import asyncio
import pwd
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.domain.views import JobView
from relance.ports.clocks import Clock, SystemClock
from relance.simulation.private_slurm import RunningCluster
from relance.slurm.running import Commands
from tests.components.slurm import LeasedNodes

WAIT_S = 75.0
OPERATOR, OWNER = "relance", "owner1"
SCRIPT = '#!/bin/sh\nwhile [ ! -e "$1" ]; do sleep 0.05; done\nexit "$(cat "$1")"\n'


Way = Callable[[Path, RunningCluster], Commands]
"""How the commands of a cluster are run otherwise than here, given its slurm.conf."""


def bin_dir(cluster: RunningCluster) -> str | None:
    """Where the commands of a cluster are; None: on PATH."""
    return f"{cluster.plan.prefix}/bin" if cluster.plan.prefix else None


class SlurmBench:
    """Four nodes of a private cluster, and the adapter as the operator."""

    def __init__(self, lease: LeasedNodes, folder: Path, way: Way | None = None) -> None:
        cluster = lease.cluster
        self.clock: Clock = SystemClock()
        self.rest_s = 1.1
        self.window_s = 121.0
        self.canceller_uid = pwd.getpwnam(OWNER).pw_uid
        self.nodes = lease.nodes
        self.partition = lease.partition
        self.cluster = cluster
        self._conf = folder / "slurm.conf"
        self._conf.write_text(Path(cluster.slurm_conf).read_text())
        self._way = way(self._conf, cluster) if way is not None else None
        self.scheduler = self.adapter()
        self._work = cluster.work_dir(OWNER)
        self._script = self._work / f"{folder.name}.sh"
        self._script.write_text(SCRIPT)
        self._script.chmod(0o755)
        self._flags: dict[str, Path] = {}

    def adapter(self, *, rename_logs: bool = False) -> SlurmScheduler:
        """An adapter that knows nothing yet."""
        as_operator = tuple(self.cluster.argv_as(OPERATOR, []))
        here = Commands(bin_dir=bin_dir(self.cluster), slurm_conf=str(self._conf), prefix=as_operator)
        settings = SlurmSettings(
            cluster=self.cluster.plan.cluster_name,
            commands=self._way or here,
            # Another host or container says by itself who we are there.
            account=(OPERATOR, pwd.getpwnam(OPERATOR).pw_uid) if self._way is None else None,
            partitions=(self.partition,),
            poll_s=0.5,
            rename_logs=rename_logs,
        )
        return SlurmScheduler(settings, self.clock)

    async def submit(
        self, *, nodes: int = 2, exclude: Sequence[str] = (), comment: str = "", options: Sequence[str] = ()
    ) -> str:
        flag = self._work / f"{self._script.stem}-{len(self._flags)}.end"
        words = [*self.words(nodes), *options]
        words += [f"--exclude={','.join(exclude)}"] if exclude else []
        words += [f"--comment={comment}"] if comment else []
        argv = ["sbatch", "--parsable", *words, str(self._script), str(flag)]
        raw_id = (await asyncio.to_thread(self.cluster.must, OWNER, argv)).split(";")[0].strip()
        self._flags[raw_id] = flag
        return raw_id

    async def end(self, raw_id: str, exit_code: int) -> None:
        flag = self._flags[raw_id]
        flag.with_suffix(".new").write_text(str(exit_code))
        flag.with_suffix(".new").replace(flag)
        # The next attempt must not find the flag of this one.
        await asyncio.to_thread(self.cluster.wait_for_state, raw_id, {"FAILED", "COMPLETED"})
        flag.unlink()

    async def cancel(self, raw_id: str, uid: int) -> None:
        await asyncio.to_thread(self.cluster.must, pwd.getpwuid(uid).pw_name, ["scancel", raw_id])

    async def go_away(self) -> None:
        """Have the adapter's commands ask where nobody listens; the cluster itself serves other tests."""
        self._conf.write_text(re.sub(r"(?m)^SlurmctldPort=.*$", "SlurmctldPort=1", self._conf.read_text()))

    async def until(self, raw_id: str, told: Callable[[JobView], bool]) -> JobView:
        """The job, once that is so of it."""
        end = self.clock.monotonic() + WAIT_S
        while not told(job := await self.scheduler.read(raw_id)):
            assert self.clock.monotonic() < end, job
            await self.clock.sleep(0.1)
        return job

    def words(self, nodes: int) -> list[str]:
        """The options of sbatch and salloc for a job of so many of our nodes.

        The name is this bench's alone: a job of another test, with the same owner, folder and name, would be a copy.
        """
        return [f"--nodes={nodes}", f"--partition={self.partition}", f"--job-name=llama-{self.partition}"]

    async def step_runs(self, raw_id: str) -> None:
        """Return when a step of the job that `srun` started runs."""
        end = self.clock.monotonic() + WAIT_S
        while f"{raw_id}.0" not in (await self.do("root", "squeue", "--steps", "--noheader", "--format=%i")).split():
            assert self.clock.monotonic() < end, f"no step of {raw_id} runs"
            await self.clock.sleep(0.1)

    async def do(self, user: str, *argv: str) -> str:
        """Run a command as a user."""
        return await asyncio.to_thread(self.cluster.must, user, argv)


@asynccontextmanager
async def slurm_bench(lease: LeasedNodes, way: Way | None = None) -> AsyncIterator[SlurmBench]:
    """A bench on leased nodes; its commands are run here, or another way."""
    folder = Path(lease.cluster.folder) / "benches" / lease.partition
    folder.mkdir(parents=True)
    bench = SlurmBench(lease, folder, way)
    try:
        yield bench
    finally:
        await bench.scheduler.close()
