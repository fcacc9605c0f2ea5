"""A site's command goes into a job that hangs on a real Slurm, comes back with stacks, and the job goes on.

The job is real, its ranks stand in real frames (faulthandler); `runuser` stands for the `sudo -u {user}` of a site.
"""

from __future__ import annotations

import asyncio
import pwd
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.controlling.controller import Controller
from relance.controlling.evidence_commands import EvidencePlan, ends_s, evidence_effect
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain import events as e
from relance.domain.collecting import EVIDENCE_STEP, OUTPUT_BYTES
from relance.domain.findings import Certainty, Coverage, Finding, FindingKind, Sight
from relance.domain.keys import AttemptKey
from relance.domain.limits import Limits
from relance.domain.observations import Attachment, WatcherBatch
from relance.domain.progress import Phase, Progress
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Stream
from relance.domain.views import JobState, JobView
from relance.recovery.evidence_outputs import read_outputs
from relance.recovery.sites import ClusterRules, Site
from relance.slurm.running import Commands
from relance.testing.scheduler_contract import reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import OPERATOR, OWNER, WAIT_S, SlurmBench, slurm_bench
from tests.served.worlds import World, trace_rules

RANKS = 4
TRAIN = """
import faulthandler, os, pathlib, sys, threading, time

place, rank, node = pathlib.Path(sys.argv[1]), os.environ["SLURM_PROCID"], os.environ["SLURMD_NODENAME"]
stacks = open(place / f"{rank}.{node}.stack", "w")
faulthandler.register(10, stacks, all_threads=True)
(place / f"{rank}.{node}.pid").write_text(str(os.getpid()))


def all_reduce(event):
    event.wait()


def read_block():
    for second in range(10**6):
        (place / f"{rank}.alive").write_text(str(second))
        time.sleep(0.2)


def step():
    if rank == "2":
        read_block()
    else:
        all_reduce(threading.Event())


step()
"""
LOOK = """
for file in {place}/*.$SLURMD_NODENAME.pid; do kill -USR1 "$(cat "$file")"; done
sleep {pause_s}
for file in {place}/*.$SLURMD_NODENAME.stack; do
    name="${{file##*/}}"
    sed "s/^/[rank${{name%%.*}}]: /" "$file"
done
"""


@dataclass(frozen=True, kw_only=True)
class Hung:
    """A job of four ranks on two nodes, three of which wait for the fourth."""

    job: JobView
    place: Path
    scheduler: SlurmScheduler
    bench: SlurmBench

    def plan(self, pause_s: float = 0.5, limit_s: float = 20.0) -> EvidencePlan:
        """The site's command, as it would stand in the settings."""
        look = LOOK.format(place=self.place, pause_s=pause_s)
        command = (
            "runuser", "-u", "{user}", "--", "srun", "--overlap", "--jobid={job_id}", "--nodelist={nodes}",
            "--nodes={node_count}", "--ntasks={node_count}", "--mem=0", "sh", "-c", look,
        )  # fmt: skip
        return EvidencePlan(command=command, collect=True, limit_s=limit_s)

    def alive(self) -> int:
        """How far the rank has come that the others wait for."""
        return int((self.place / "2.alive").read_text() or 0)

    async def goes_on(self) -> None:
        """Return when that rank has gone on since now."""
        now = self.alive()
        end = self.bench.clock.monotonic() + WAIT_S
        while self.alive() <= now:
            assert self.bench.clock.monotonic() < end, "the job does not go on"
            await self.bench.clock.sleep(0.1)


@pytest.fixture
async def hung(slurm_nodes: LeasedNodes) -> AsyncIterator[Hung]:
    async with slurm_bench(slurm_nodes) as bench:
        place = bench.cluster.work_dir(OWNER) / f"evidence-{bench.partition}"
        await bench.do(OWNER, "mkdir", "-p", str(place))
        (place / "train.py").write_text(TRAIN)
        script = f"#!/bin/sh\nsrun --ntasks={RANKS} {sys.executable} {place}/train.py {place}\n"
        if await bench.do(OWNER, "sh", "-c", f"test -x {sys.executable} && echo yes || echo no") != "yes\n":
            script = script.replace(sys.executable, "/usr/bin/python3")
        raw_id = str(
            await asyncio.to_thread(bench.cluster.submit, OWNER, script, options=[*bench.words(2), f"--ntasks={RANKS}"])
        )
        await reach(bench, raw_id, JobState.RUNNING)
        end = bench.clock.monotonic() + WAIT_S
        while len(list(place.glob("*.pid"))) < RANKS or not (place / "2.alive").exists():
            assert bench.clock.monotonic() < end, "the ranks do not start"
            await bench.clock.sleep(0.1)
        as_root = SlurmSettings(
            cluster=bench.cluster.plan.cluster_name,
            commands=Commands(bin_dir=bin_dir(bench), slurm_conf=bench.cluster.slurm_conf),
            account=(OPERATOR, pwd.getpwnam(OPERATOR).pw_uid),  # what it may do is asked of this one
            partitions=(bench.partition,),
            opted_in=None,
            poll_s=0.5,
        )
        scheduler = SlurmScheduler(as_root, bench.clock)
        try:
            yield Hung(job=await scheduler.read(raw_id), place=place, scheduler=scheduler, bench=bench)
        finally:
            await scheduler.close()
            await bench.do("root", "scancel", raw_id)


def bin_dir(bench: SlurmBench) -> str | None:
    return f"{bench.cluster.plan.prefix}/bin" if bench.cluster.plan.prefix else None


async def living_steps(hung: Hung) -> str:
    return await hung.bench.do("root", "squeue", "--steps", "--noheader", "--format=%j", f"--jobs={hung.job.raw_id}")


async def test_stacks_come_out_of_a_hung_job_that_goes_on_and_nobody_counts_as_at_work_in_it(hung: Hung) -> None:
    effect = evidence_effect(hung.plan(pause_s=3), hung.job, hung.job.nodes, hung.scheduler)
    (command,) = effect.commands
    assert f"--job-name={EVIDENCE_STEP}" in command.argv
    collecting = asyncio.create_task(hung.scheduler.collect(command, 20, OUTPUT_BYTES))
    end = hung.bench.clock.monotonic() + WAIT_S
    while EVIDENCE_STEP not in await living_steps(hung):
        assert not collecting.done(), collecting.result()
        assert hung.bench.clock.monotonic() < end
        await hung.bench.clock.sleep(0.05)
    seen = await hung.bench.scheduler.read(hung.job.raw_id)
    assert seen.somebody_at_work is None
    found = await collecting
    assert (found.exit_code, found.gave_up) == (0, ""), found.stderr
    piece = Attachment(file="evidence 1: output", start_offset=0, data=found.stdout)
    hits, notes = read_outputs((piece,), trace_rules, hung.bench.clock.now())
    assert [(hit.symptom, hit.rank) for hit in hits] == [("stack_minority", 2)], (found.stdout, notes)
    await hung.goes_on()
    later = await hung.bench.until(hung.job.raw_id, lambda job: job.steps is not None and len(job.steps) > 0)
    assert later.state is JobState.RUNNING
    assert later.somebody_at_work is None
    assert "1" not in {step.name for step in later.steps or ()}


async def test_at_its_limit_the_command_is_ended_with_its_step_and_the_job_goes_on(hung: Hung) -> None:
    plan = hung.plan(pause_s=300, limit_s=5)
    (command,) = evidence_effect(plan, hung.job, hung.job.nodes, hung.scheduler).commands
    began_s = hung.bench.clock.monotonic()
    found = await hung.scheduler.collect(command, 5, OUTPUT_BYTES)
    assert hung.bench.clock.monotonic() - began_s < 60  # and not the 300 s of the command
    assert (found.exit_code != 0, found.took_s >= ends_s(plan)) == (True, True)
    end = hung.bench.clock.monotonic() + WAIT_S
    while EVIDENCE_STEP in await living_steps(hung):
        assert hung.bench.clock.monotonic() < end, "the step outlives its command"
        await hung.bench.clock.sleep(0.1)
    await hung.goes_on()
    assert (await hung.bench.scheduler.read(hung.job.raw_id)).state is JobState.RUNNING


class Told:
    """What a watcher tells of the hung job, and a server beside it, in this process."""

    def __init__(self, hung: Hung) -> None:
        self.hung = hung
        self.cluster = hung.bench.cluster.plan.cluster_name
        rules = ClusterRules(cluster=self.cluster, opted_in=None, limits=Limits(settle_s=0))
        self.world = World(clock=hung.bench.clock, site=Site(clusters=(rules,)))  # type: ignore[arg-type] # the real one
        self.attempt = hung.job.attempt_key(self.cluster)
        self.last_step_at = hung.bench.clock.now() - timedelta(seconds=30)

    async def say(self, *, finding: bool = False, more_steps: int = 0) -> None:
        """The watcher's word: so many steps, and none since a while."""
        now = self.hung.bench.clock.now()
        progress = _progress(now, self.last_step_at + timedelta(seconds=more_steps), 50 + more_steps)
        findings = (_finding(self.attempt, self.last_step_at, progress),) if finding else ()
        await self.world.backend.submit(
            WatcherBatch(
                attempt=self.attempt,
                holder="watcher",
                as_of=now,
                findings=findings,
                progress=progress,
                coverage=(Coverage(source="files", sight=Sight.SEEN, up_to=now),),
            )
        )
        while await self.world.loop.tick():
            pass

    async def events(self, kind: type[e.Event]) -> list[e.Event]:
        """The events of a kind in the job's stream."""
        recorded = await self.world.history.read(Stream.of_job(self.attempt.job))
        return [item.event for item in recorded if isinstance(item.event, kind)]


async def test_a_controller_collects_what_a_suspected_hang_shows_and_hands_it_over(hung: Hung, tmp_path: Path) -> None:
    told, clock = Told(hung), hung.bench.clock
    ledger = Ledger(tmp_path / "controller", told.cluster, clock)
    controller = Controller(
        backend=told.world.backend,
        scheduler=hung.scheduler,
        ledger=ledger,
        clock=clock,
        settings=ControllerSettings(holder="controller", pace=Pace(look_s=0.5), evidence=hung.plan()),
    )
    controller.start()
    try:
        await controller.look_and_report()
        await told.world.parts.commands().set_stage(told.cluster, None, Stage.ACT, frozenset[EndRunning](), "root")
        await told.say(finding=True)
        end = clock.monotonic() + WAIT_S
        while not (ends := await told.events(e.EvidenceCollected) + await told.events(e.EvidenceFailed)):
            orders = await told.world.backend.orders(told.cluster, "controller")
            assert clock.monotonic() < end, (controller.alarms, orders.evidence)
            await told.say()
            await controller.tick()
            await clock.sleep(0.2)
        (found,) = ends
        assert isinstance(found, e.EvidenceCollected), found
        assert [(hit.symptom, hit.rank) for hit in found.hits] == [("stack_minority", 2)]
        kept = await told.world.history.kept_logs(told.attempt.job)
        assert b"read_block" in (await told.world.history.kept_bytes(kept[0].digest) or b"")
        assert ledger.state.collections == {}
        cases = (await told.world.backend.assignments(told.cluster)).assignments
        (case,) = (item for item in cases if item.attempt == told.attempt)
        assert [hit.symptom for hit in case.collected] == ["stack_minority"]
        await hung.goes_on()
        await told.say(more_steps=1)
        await controller.tick()
        assert len(await told.events(e.EvidenceStarted)) == 1
    finally:
        await controller.stop()
        ledger.close()


def _progress(as_of: datetime, step_at: datetime, steps: int) -> Progress:
    return Progress(
        as_of=as_of,
        phase=Phase.TRAINING,
        first_step=1,
        first_step_at=step_at - timedelta(seconds=steps),
        step=steps,
        step_at=step_at,
        highest_step=steps,
        steps_seen=steps,
        median_step_s=1.0,
    )


def _finding(attempt: AttemptKey, symptom_at: datetime, progress: Progress) -> Finding:
    return Finding(
        id="fnd-hang",
        attempt=attempt,
        detector="hang",
        kind=FindingKind.HANG,
        certainty=Certainty.SUSPECTED,
        symptom="hang",
        summary="no progress for 30 s after step 50",
        first_evidence_at=symptom_at,
        symptom_at=symptom_at,
        progress=progress,
    )
