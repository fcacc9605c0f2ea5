"""The contract on a real Slurm: a private cluster of this machine, asked as its operator `relance`."""

from __future__ import annotations

import asyncio
import pwd
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.ports.clocks import Clock, SystemClock
from relance.slurm.running import Commands
from relance.testing.scheduler_contract import SchedulerContract
from tests.components.slurm import LeasedNodes

OPERATOR, OWNER = "relance", "owner1"
SCRIPT = '#!/bin/sh\nwhile [ ! -e "$1" ]; do sleep 0.05; done\nexit "$(cat "$1")"\n'


class SlurmBench:
    """Four nodes of a private cluster, and the adapter as the operator."""

    def __init__(self, lease: LeasedNodes, folder: Path) -> None:
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
        self.scheduler = self.adapter()
        self._work = cluster.work_dir(OWNER)
        self._script = self._work / f"{folder.name}.sh"
        self._script.write_text(SCRIPT)
        self._script.chmod(0o755)
        self._flags: dict[str, Path] = {}

    def adapter(self) -> SlurmScheduler:
        """An adapter that knows nothing yet."""
        settings = SlurmSettings(
            cluster=self.cluster.plan.cluster_name,
            commands=Commands(slurm_conf=str(self._conf), prefix=tuple(self.cluster.argv_as(OPERATOR, []))),
            account=(OPERATOR, pwd.getpwnam(OPERATOR).pw_uid),
            partitions=(self.partition,),
            poll_s=0.5,
        )
        return SlurmScheduler(settings, self.clock)

    async def submit(
        self, *, nodes: int = 2, exclude: Sequence[str] = (), comment: str = "", options: Sequence[str] = ()
    ) -> str:
        flag = self._work / f"{self._script.stem}-{len(self._flags)}.end"
        words = [f"--nodes={nodes}", f"--partition={self.partition}", "--job-name=llama", *options]
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


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    lease = await asyncio.to_thread(lease_nodes, 4)
    folder = Path(lease.cluster.folder) / "benches" / lease.partition
    folder.mkdir(parents=True)
    bench = SlurmBench(lease, folder)
    yield bench
    await bench.scheduler.close()


class TestSlurmScheduler(SchedulerContract):
    @pytest.mark.soak
    async def test_a_requeued_job_that_nobody_touches_starts_by_itself(self, bench: SlurmBench) -> None:  # type: ignore[override]
        await super().test_a_requeued_job_that_nobody_touches_starts_by_itself(bench)
