"""Each command of `relance.slurm` against a real cluster, asked by the user `relance`, who is an Operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest

from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm import commands
from relance.slurm.commands import Change
from relance.slurm.errors import RefusedError, SilentError, SlurmError, UnknownJobError
from relance.slurm.hostlists import compress, expand
from relance.slurm.log_paths import batch_output
from relance.slurm.parsing.accounting import parse_accounting
from relance.slurm.parsing.glances import Glance, parse_glances
from relance.slurm.parsing.jobs import parse_jobs, pick_job
from relance.slurm.parsing.replies import checked
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.parsing.sites import parse_nodes, parse_reservations
from relance.slurm.parsing.steps import parse_steps
from relance.slurm.records import AccountedJob, ExitCode, SlurmJob
from relance.slurm.running import Commands, Output, new_mark, run
from tests.components.slurm import LeasedNodes

HOSTILE = "evil~|\n   JobState=COMPLETED ExitCode=0:0\nJobId=1"
ANSWER_S = 20.0
WAIT_S = 75.0
NO_JOB = "60000000"


class Slurm:
    """The cluster as Relance sees it."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        bin_dir = f"{cluster.plan.prefix}/bin" if cluster.plan.prefix else None
        as_relance = tuple(cluster.argv_as("relance", []))
        self.commands = Commands(bin_dir=bin_dir, slurm_conf=cluster.slurm_conf, prefix=as_relance)

    async def say(self, command: Sequence[str], *, time_limit_s: float = ANSWER_S) -> Output:
        return await run(self.commands, command, time_limit_s=time_limit_s)

    async def ask(self, command: Sequence[str]) -> bytes:
        return checked(await self.say(command))

    async def job(self, job: int | str) -> SlurmJob:
        return pick_job(parse_jobs(await self.ask(commands.some_jobs([str(job)]))), str(job))

    async def until(self, job: int | str, told: Callable[[SlurmJob], bool]) -> SlurmJob:
        end = time.monotonic() + WAIT_S
        while not told(seen := await self.job(job)):
            assert time.monotonic() < end, seen
            await asyncio.sleep(0.1)
        return seen

    async def glances(self) -> dict[int, Glance]:
        mark = new_mark()
        return {seen.job_id: seen for seen in parse_glances(await self.ask(commands.glance(mark=mark)), mark=mark)}

    async def attempts(self, job: int) -> tuple[AccountedJob, ...]:
        mark = new_mark()
        return parse_accounting(await self.ask(commands.accounting_of([str(job)], mark=mark)), mark=mark)

    async def until_accounted(self, job: int, told: Callable[[Sequence[AccountedJob]], bool]) -> list[AccountedJob]:
        end = time.monotonic() + WAIT_S
        while not told(rows := sorted(await self.attempts(job), key=lambda row: row.submitted_at or 0)):
            assert time.monotonic() < end, rows
            await asyncio.sleep(0.2)
        return rows


@pytest.fixture
def slurm(slurm_cluster: RunningCluster) -> Slurm:
    return Slurm(slurm_cluster)


def running(job: SlurmJob) -> bool:
    return job.states == ("RUNNING",)


async def test_a_job_with_a_hostile_name_is_one_job_with_that_name(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    options = [
        "--nodes=2",
        f"--job-name={HOSTILE}",
        "--comment=a|b=c",
        "--output=o-%4j",
        "--exclude=" + slurm_nodes.nodes[0],
    ]
    number = slurm_nodes.submit("owner1", "#!/bin/sh\nsrun sleep 300\n", options=options)
    job = await slurm.until(number, running)
    assert (job.name, job.comment, job.user, job.restart_count) == (HOSTILE, "a|b=c", "owner1", 0)
    assert job.nodes == slurm_nodes.nodes[1:]
    assert job.excluded_nodes == slurm_nodes.nodes[:1]
    assert job.started_at is not None
    assert abs(time.time() - job.started_at) < 60  # noqa: TID251 - the cluster's own clock is the machine's
    assert batch_output(job).path == str(slurm_nodes.cluster.work_dir("owner1") / f"o-{number:04d}")
    seen = (await slurm.glances())[number]
    assert (seen.state, seen.restart_count, seen.submitted_at) == ("RUNNING", 0, job.submitted_at)
    assert all(other.name != "JobId=1" for other in parse_jobs(await slurm.ask(commands.all_jobs())))


async def test_the_steps_that_live(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    script = f"#!/bin/sh\nsrun --job-name='{HOSTILE}' sleep 300\n"
    number = slurm_nodes.submit("owner1", script, options=["--nodes=2"])
    await slurm.until(number, running)
    mark = new_mark()
    end = time.monotonic() + WAIT_S
    while True:
        asked = commands.living_steps(mark=mark, ids=[str(number)])
        steps = {step.step_id: step for step in parse_steps(await slurm.ask(asked), mark=mark)}
        if "0" in steps or time.monotonic() > end:
            break
        await asyncio.sleep(0.1)
    assert (steps["0"].job_id, steps["0"].user, steps["0"].name) == (str(number), "owner1", HOSTILE)
    assert len(steps["0"].nodes) == 2
    assert steps["batch"].is_slurms_own


async def test_the_whole_restart(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    number = slurm_nodes.submit("owner1", "#!/bin/sh\nsrun sleep 300\n", options=["--nodes=2", "--comment=mine"])
    bad = (await slurm.until(number, running)).nodes[0]
    await slurm.ask(commands.requeue(str(number)))
    waiting = await slurm.until(number, lambda job: job.reason == "BeginTime")
    assert (waiting.states, waiting.restart_count) == (("PENDING",), 1)
    await asyncio.sleep(1.1)  # Slurm's own window, in which a start is accepted and then dies
    await slurm.ask(commands.update(str(number), Change(excluded_nodes=(bad,), starts_at=0)))
    again = await slurm.until(number, running)
    assert (again.restart_count, again.excluded_nodes, bad in again.nodes) == (1, (bad,), False)
    first, second = await slurm.until_accounted(number, lambda rows: len(rows) == 2 and rows[1].state == "RUNNING")
    assert (first.state, first.comment, len(first.nodes)) == ("REQUEUED", "mine", 2)
    assert second.started_at is not None
    assert first.ended_at is not None
    assert second.started_at >= first.ended_at
    assert {step.step_id for step in first.steps} >= {"batch"}
    assert all((step.started_at or 0) <= first.ended_at for step in first.steps)


async def test_what_an_update_sets_is_read_back(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    number = slurm_nodes.submit("owner1", "#!/bin/sh\ntrue\n", options=["--begin=now+1hour", "--nodes=1"])
    at = int(time.time()) + 1800  # noqa: TID251 - the cluster's own clock is the machine's
    change = Change(
        excluded_nodes=slurm_nodes.nodes[:2],
        starts_at=at,
    )
    await slurm.ask(commands.update(str(number), change))
    job = await slurm.job(number)
    assert (job.excluded_nodes, job.eligible_at) == (slurm_nodes.nodes[:2], at)
    await slurm.ask(commands.update(str(number), Change(excluded_nodes=())))
    assert (await slurm.job(number)).excluded_nodes == ()


async def test_an_array_and_its_tasks(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    options = ["--array=0-3%1", "--begin=now+1hour"]
    number = slurm_nodes.submit("owner2", "#!/bin/sh\ntrue\n", options=options)
    before = await slurm.job(f"{number}_2")
    assert (before.job_id, before.array_task_id, before.array_tasks) == (number, None, "0-3%1")
    await slurm.ask(commands.update(f"{number}_2", Change(excluded_nodes=slurm_nodes.nodes[:1])))
    task = await slurm.job(f"{number}_2")
    assert (task.shown_id, task.excluded_nodes) == (f"{number}_2", slurm_nodes.nodes[:1])
    assert (await slurm.job(f"{number}_1")).excluded_nodes == ()
    await slurm.ask(("scontrol", "hold", f"{number}_2"))
    assert ((await slurm.job(f"{number}_2")).held_by or "").value != "nobody"  # type: ignore[union-attr]
    await slurm.ask(commands.release(f"{number}_2"))


async def test_how_a_job_ended(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    failed = slurm_nodes.submit("owner1", "#!/bin/sh\nexit 3\n")
    killed = slurm_nodes.submit("owner1", "#!/bin/sh\nkill -9 $$\n")
    cancelled = slurm_nodes.submit("owner1", "#!/bin/sh\nsleep 300\n")
    await slurm.until(cancelled, running)
    await slurm.ask(commands.cancel(str(cancelled)))
    assert (await slurm.until(failed, lambda job: job.is_state("FAILED"))).exit == ExitCode(code=3, signal=0)
    assert (await slurm.until(killed, lambda job: job.is_state("FAILED"))).exit == ExitCode(code=0, signal=9)
    (row,) = await slurm.until_accounted(cancelled, lambda rows: bool(rows) and rows[0].state == "CANCELLED")
    uid = int(slurm.cluster.must("root", ["id", "-u", "relance"]))
    assert row.cancelled_by == uid


async def test_nodes_reservations_and_settings(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    node = slurm_nodes.nodes[0]
    reason = "Xid 79 State=IDLE = [a] b"
    slurm.cluster.must("root", ["scontrol", "update", f"NodeName={node}", "State=drain", f"Reason={reason}"])
    shown = {each.name: each for each in parse_nodes(await slurm.ask(commands.nodes()))}
    assert shown.keys() == set(slurm.cluster.plan.nodes)
    assert (shown[node].states, shown[node].reason, shown[node].reason_by) == (("IDLE", "DRAIN"), reason, "root")
    assert abs(time.time() - (shown[node].reason_at or 0)) < 60  # noqa: TID251 - the machine's clock
    slurm.cluster.must("root", ["scontrol", "update", f"NodeName={node}", "State=resume"])
    words = ["StartTime=now+1hour", "Duration=60", f"Nodes={node}", "Users=root", "Flags=maint"]
    slurm.cluster.must("root", ["scontrol", "create", "reservation", f"ReservationName=r{node}", *words])
    reservations = {each.name: each for each in parse_reservations(await slurm.ask(commands.reservations()))}
    slurm.cluster.must("root", ["scontrol", "delete", f"ReservationName=r{node}"])
    assert reservations[f"r{node}"].nodes == (node,)
    assert "MAINT" in reservations[f"r{node}"].flags
    assert reservations[f"r{node}"].users == ("root",)
    facts = parse_settings(await slurm.ask(commands.settings()))
    assert (facts.cluster, facts.min_job_age_s) == (slurm.cluster.plan.cluster_name, slurm.cluster.plan.min_job_age_s)


async def test_a_job_that_slurm_does_not_know_is_told_from_a_refusal(slurm: Slurm, slurm_nodes: LeasedNodes) -> None:
    for command in (commands.requeue(NO_JOB), commands.release(NO_JOB), commands.update(NO_JOB, Change(starts_at=0))):
        with pytest.raises(UnknownJobError):
            await slurm.ask(command)
    with pytest.raises(UnknownJobError):
        await slurm.job(NO_JOB)
    assert await slurm.attempts(int(NO_JOB)) == ()
    number = slurm_nodes.submit("owner1", "#!/bin/sh\nsleep 300\n")
    await slurm.until(number, running)
    with pytest.raises(RefusedError, match="no longer pending"):
        await slurm.ask(commands.update(str(number), Change(excluded_nodes=slurm_nodes.nodes[:1])))


async def test_names_expand_as_scontrol_expands_them(slurm: Slurm) -> None:
    for text in ("gpu[001-003,7],x1", "a[1-2]b[01-02]", "n[8-11],n5", "rack1-n[098-102]"):
        shown = (await slurm.ask(("scontrol", "show", "hostnames", text))).decode().split()
        assert list(expand(text)) == shown
        assert (await slurm.ask(("scontrol", "show", "hostnames", compress(shown)))).decode().split() == sorted(
            shown, key=lambda name: list(expand(compress(shown))).index(name)
        )


async def test_a_cluster_that_does_not_answer_is_silent(private_slurm: Callable[[ClusterPlan], RunningCluster]) -> None:
    slurm = Slurm(private_slurm(ClusterPlan(node_count=1)))
    mark = new_mark()
    slurm.cluster.stop_accounting()
    with pytest.raises(SilentError):
        await slurm.ask(commands.accounting_of(["1"], mark=mark))
    slurm.cluster.stop_controller()
    asked = [
        commands.glance(mark=mark), commands.all_jobs(), commands.living_steps(mark=mark), commands.nodes(),
        commands.settings(), commands.requeue("1"), commands.cancel("1"),
    ]  # fmt: skip
    said = await asyncio.gather(*(slurm.say(each, time_limit_s=4) for each in asked))
    for output in said:
        with pytest.raises(SlurmError) as told:
            checked(output)
        assert type(told.value) is SilentError, output
