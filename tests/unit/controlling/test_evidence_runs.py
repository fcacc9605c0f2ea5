"""Evidence of a suspected hang: shown always, run once where everything lets it, told whatever comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relance.controlling.evidence_commands import EvidencePlan, evidence_effect
from relance.domain.collecting import Collected, CollectionBegan, EvidenceOrder, EvidenceReport
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import JobState, JobView
from tests.unit.controlling.fuses import Fuse, When
from tests.unit.controlling.test_crashes import life
from tests.unit.controlling.worlds import ACT, HOLDER, World

COMMAND = ("srun", "--overlap", "--jobid={job_id}", "-w", "{nodes}", "-N", "{node_count}", "sh", "-c", "echo ${HOME}")
PLAN = EvidencePlan(command=COMMAND, collect=True)
OBSERVE = EffectiveStage(stage=Stage.OBSERVE, end_running=frozenset(), why=("cluster is set to observe",))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.plan = PLAN
    return made


async def hung(world: World) -> JobView:
    """A job that runs, as far as its scheduler knows."""
    raw_id = world.cluster.submit()
    return await world.when(raw_id, JobState.RUNNING)


def order_of(world: World, job: JobView, **fields: object) -> EvidenceOrder:
    order = EvidenceOrder(
        key=f"ev-{job.raw_id}",
        incident_id=f"inc-{job.raw_id}",
        finding_id=f"fnd-{job.raw_id}",
        attempt=job.attempt_key(world.cluster.name),
        raw_id=job.raw_id,
        stage=ACT,
    )
    order = replace(order, **fields)  # type: ignore[arg-type] # an order's own fields
    world.backend.evidence[order.key] = order
    return order


def told(world: World) -> list[Collected]:
    return [report.collected for report in world.backend.evidence_reports if report.collected is not None]


def shown(world: World) -> list[EvidenceReport]:
    return [report for report in world.backend.evidence_reports if report.shown is not None]


def test_what_is_shown_is_what_is_run_with_only_what_the_scheduler_told_in_it(world: World) -> None:
    async def story() -> None:
        job = await hung(world)
        order_of(world, job)
        await world.run(8)
        (first,) = shown(world)
        assert first.shown is not None
        assert first.switched_on
        assert world.scheduler.collected == list(first.shown.commands)
        assert world.scheduler.collected[0].argv == (
            "timeout", "--kill-after=2", "18", "srun", "--overlap", f"--jobid={job.raw_id}", "-w", ",".join(job.nodes),
            "-N", "2", "sh", "-c", "echo ${HOME}",
        )  # fmt: skip
        assert told(world) == [world.scheduler.collects]

    world.play(story())


def test_it_is_run_once_and_the_ledger_is_clean_afterwards(world: World) -> None:
    async def story() -> None:
        order_of(world, await hung(world))
        await world.run(30)
        await world.run(5)
        assert len(world.scheduler.collected) == 1
        ledger = world.ledger()
        assert ledger.state.collections == {}
        ledger.close()

    world.play(story())


@pytest.mark.parametrize(
    ("plan", "fields"),
    [
        (replace(PLAN, collect=False), {}),
        (PLAN, {"stage": OBSERVE, "why_not": "the stage is observe, and only act lets it be run"}),
        (PLAN, {"why_not": "no watcher is at work"}),
    ],
    ids=["switched off", "observe", "no watcher"],
)
def test_it_is_shown_and_not_run_where_anything_speaks_against_it(
    world: World, plan: EvidencePlan, fields: dict[str, object]
) -> None:
    async def story() -> None:
        world.plan = plan
        order_of(world, await hung(world), **fields)
        await world.run(10)
        assert [report.switched_on for report in shown(world)] == [plan.collect]
        assert world.backend.evidence_claims == []
        assert world.scheduler.collected == []

    world.play(story())


def test_without_a_command_there_is_nothing_to_show(world: World) -> None:
    async def story() -> None:
        world.plan = EvidencePlan()
        order_of(world, await hung(world))
        await world.run(5)
        assert world.backend.evidence_reports == []

    world.play(story())


def test_a_refused_claim_runs_nothing_and_is_made_again_only_later(world: World) -> None:
    async def story() -> None:
        world.backend.refuses = "the job has gone on"
        order_of(world, await hung(world))
        async with world.running() as controller:
            await world.clock.sleep(9)
            assert len(world.backend.evidence_claims) == 1
            assert "evidence" not in controller.alarms
        assert world.scheduler.collected == []

    world.play(story())


def test_a_job_that_somebody_works_in_is_left_alone_whatever_the_server_says(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit(somebody_at_work="step 17.1 of ada is gdb")
        order_of(world, await world.when(raw_id, JobState.RUNNING))
        await world.run(5)
        assert world.backend.evidence_claims == []
        assert world.scheduler.collected == []

    world.play(story())


def test_the_stop_file_holds_it_back(world: World) -> None:
    async def story() -> None:
        order_of(world, await hung(world))
        ledger = world.ledger()
        (world.folder / "STOP").touch()
        await world.run(5, ledger)
        assert len(shown(world)) == 1
        assert world.scheduler.collected == []

    world.play(story())


def test_a_name_that_the_scheduler_does_not_know_never_enters_a_command(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit(user="ada; rm -rf /")
        order_of(world, await world.when(raw_id, JobState.RUNNING))
        async with world.running() as controller:
            await world.clock.sleep(5)
            assert "not fit for a command" in controller.alarms["evidence"]
        assert world.backend.evidence_reports == []
        assert world.scheduler.collected == []

    world.play(story())


def test_a_command_at_its_limit_is_told_as_failed_with_what_it_wrote(world: World) -> None:
    async def story() -> None:
        world.scheduler.collects = Collected(exit_code=124, stdout=b"half of it\n", took_s=18.0)
        order_of(world, await hung(world))
        await world.run(10)
        (found,) = told(world)
        assert (found.stdout, found.gave_up) == (b"half of it\n", "it was ended at its limit of 20 s")

    world.play(story())


def test_secrets_in_the_outputs_leave_the_host_masked(world: World) -> None:
    async def story() -> None:
        secret = b"export WANDB_API_KEY=0123456789abcdef\n"
        world.scheduler.collects = Collected(exit_code=0, stdout=secret, stderr=secret * 40)
        order_of(world, await hung(world))
        await world.run(10)
        (found,) = told(world)
        assert b"0123456789abcdef" not in found.stdout + found.stderr
        assert b"[masked]" in found.stdout

    world.play(story())


def test_what_was_collected_is_told_when_the_server_is_back(world: World) -> None:
    async def story() -> None:
        world.scheduler.collecting_s = 5.0
        order_of(world, await hung(world))
        async with world.running():
            await world.clock.sleep(3)
            assert len(world.scheduler.collected) == 1
            world.backend.is_away = True
            await world.clock.sleep(20)
            world.backend.is_away = False
            await world.clock.sleep(5)
        assert told(world) == [world.scheduler.collects]

    world.play(story())


def test_what_another_controller_began_and_never_told_of_is_told_as_lost_and_not_run(world: World) -> None:
    async def story() -> None:
        job = await hung(world)
        order_of(world, job, started_by="controller-2", started_at=world.clock.now())
        async with world.running():
            await world.clock.sleep(30)
            assert told(world) == []
            await world.clock.sleep(40)
        assert [found.gave_up for found in told(world)] == ["controller-2 began it and never told what came of it"]
        assert world.scheduler.collected == []

    world.play(story())


def calls_of_a_collection(tmp_path: Path) -> list[str]:
    world, fuse = World(tmp_path), Fuse()
    world.plan = PLAN

    async def story() -> None:
        order_of(world, await hung(world))
        await life(world, fuse, 8)

    world.play(story())
    return fuse.calls


@pytest.mark.parametrize("when", list(When))
def test_a_controller_that_is_killed_anywhere_never_runs_it_twice_and_tells_in_the_end(
    tmp_path: Path, when: When
) -> None:
    calls = calls_of_a_collection(tmp_path / "whole")
    first, last = calls.index("claim evidence") + 1, calls.index("ledger CollectionReported") + 1
    assert first < last
    for number in range(first, last + 1):
        world, fuse = World(tmp_path / f"{number}"), Fuse(at=number, when=when)
        world.plan = PLAN

        async def story(world: World = world, fuse: Fuse = fuse) -> None:
            order_of(world, await hung(world))
            await life(world, fuse, 8)
            await life(world, Fuse(), 90)
            began = [report for report in world.backend.evidence_reports if report.collected is not None]
            assert len(world.scheduler.collected) <= 1
            assert began
            assert world.backend.evidence == {}
            ledger = world.ledger()
            assert ledger.state.collections == {}
            ledger.close()

        world.play(story())


def test_a_new_start_says_that_the_outputs_of_the_one_before_are_lost(world: World) -> None:
    async def story() -> None:
        job = await hung(world)
        order = order_of(world, job, started_by=HOLDER, started_at=world.clock.now())
        ledger = world.ledger()
        nodes = set(job.nodes)
        effect = evidence_effect(PLAN, job, nodes, world.scheduler)
        began = CollectionBegan(
            key=order.key, incident_id=order.incident_id, finding_id=order.finding_id, attempt=order.attempt,
            effect=effect, at=world.clock.now(),
        )  # fmt: skip
        ledger.append(began)
        ledger.close()
        await world.run(3)
        (found,) = told(world)
        assert found.gave_up == (
            "the controller ended before it could tell: nobody knows what came of it; it is not run again"
        )
        assert world.scheduler.collected == []

    world.play(story())
