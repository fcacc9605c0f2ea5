from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Stream
from relance.ports.histories import Append, ConflictError
from relance.recovery.commands import Choice, CommandRefusedError, raises_stage
from relance.recovery.subjects import NotKnownError
from relance.testing import history_values as values
from tests.served.worlds import ADVICE, ASKING, DIGEST, World, world

SHOWN = Choice(advice_id=ADVICE, generation=1, effect_digest=DIGEST)


async def job(made: World, raw_id: str = "17") -> JobRecord:
    record = (await made.history.load(values.job_stream(raw_id))).record
    assert isinstance(record, JobRecord)
    return record


async def cluster(made: World) -> ClusterRecord:
    record = (await made.history.load(Stream.of_cluster("alpha"))).record
    assert isinstance(record, ClusterRecord)
    return record


async def test_an_approval_carries_the_name_the_generation_and_the_effect() -> None:
    made = await world()
    await made.parts.commands().approve(SHOWN, "grace")
    approval = (await job(made)).incidents[0].approval
    assert approval is not None
    assert (approval.yes, approval.by, approval.generation, approval.effect_digest) == (True, "grace", 1, DIGEST)


async def test_an_approval_ends_with_the_advice_at_the_latest() -> None:
    made = await world()
    approved = await made.parts.commands().approve(SHOWN, "grace", until=values.after(100_000))
    assert approved.until == values.after(200)
    sooner = await made.parts.commands().approve(SHOWN, "grace", until=values.after(60))
    assert sooner.until == values.after(60)


async def test_an_approval_wakes_the_loop_for_its_job() -> None:
    made = await world()
    await made.parts.commands().approve(SHOWN, "grace")
    assert values.job_stream("17") in await made.history.due(made.clock.now())


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (replace(SHOWN, generation=2), "voided"),
        (replace(SHOWN, effect_digest="e" * 64), "not those that were shown"),
    ],
    ids=["another generation", "another effect"],
)
async def test_only_what_was_shown_can_be_approved(choice: Choice, reason: str) -> None:
    made = await world()
    with pytest.raises(CommandRefusedError, match=reason):
        await made.parts.commands().approve(choice, "grace")
    assert (await job(made)).incidents[0].approval is None


@pytest.mark.parametrize("stage", [Stage.OFF, Stage.OBSERVE, Stage.ACT])
async def test_an_approval_makes_sense_at_stage_approve_alone(stage: Stage) -> None:
    made = await world(stage)
    with pytest.raises(CommandRefusedError, match=f"stage {stage.value}"):
        await made.parts.commands().approve(SHOWN, "grace")


async def test_expired_advice_cannot_be_approved() -> None:
    made = await world()
    made.clock.advance(3600)
    with pytest.raises(CommandRefusedError, match="expired"):
        await made.parts.commands().approve(SHOWN, "grace")


async def test_advice_that_nobody_knows_cannot_be_approved() -> None:
    with pytest.raises(NotKnownError):
        await (await world()).parts.commands().approve(replace(SHOWN, advice_id="adv-0"), "grace")


async def test_a_denial_is_recorded_with_its_reason() -> None:
    made = await world()
    await made.parts.commands().deny(replace(SHOWN, effect_digest=""), "grace", "maintenance at noon")
    approval = (await job(made)).incidents[0].approval
    assert approval is not None
    assert (approval.yes, approval.by, approval.reason) == (False, "grace", "maintenance at noon")


async def test_it_is_too_late_to_deny_what_has_begun() -> None:
    made = await world()
    await made.append(values.job_stream("17"), values.action_started(ASKING, "17"))
    with pytest.raises(CommandRefusedError, match="too late"):
        await made.parts.commands().deny(SHOWN, "grace", "")


async def test_a_stage_is_set_with_a_name_and_keeps_the_consents() -> None:
    made = await world()
    order = made.parts.commands()
    await order.set_stage("alpha", "gpu", Stage.ACT, frozenset({EndRunning.HANG}), "grace")
    await order.set_stage("alpha", "gpu", Stage.OBSERVE, None, "ada")
    setting = (await cluster(made)).partitions["gpu"]
    assert (setting.stage, setting.set_by) == (Stage.OBSERVE, "ada")
    assert setting.end_running == frozenset({EndRunning.HANG})


@pytest.mark.parametrize(
    ("partition", "stage", "consents", "raises"),
    [
        (None, Stage.ACT, None, True),
        (None, Stage.APPROVE, None, False),
        (None, Stage.OFF, None, False),
        (None, Stage.OBSERVE, frozenset({EndRunning.HANG}), True),
        ("gpu", Stage.ACT, None, True),
        ("gpu", Stage.OBSERVE, None, False),
    ],
)
async def test_raising_is_told_from_lowering(
    partition: str | None, stage: Stage, consents: frozenset[EndRunning] | None, *, raises: bool
) -> None:
    assert raises_stage(await cluster(await world()), partition, stage, consents) is raises


async def test_a_job_is_switched_off_for_a_while_and_back_on() -> None:
    made = await world()
    order, ask = made.parts.commands(), made.parts.queries()
    await order.switch_job("17", Stage.OFF, "ada", values.after(60), "I am debugging")
    assert (await ask.job_stage("17")).effective.stage is Stage.OFF
    made.clock.advance(40)
    assert (await ask.job_stage("17")).effective.stage is Stage.APPROVE
    await order.switch_job("17", Stage.OBSERVE, "ada")
    await order.switch_job("17", None, "ada")
    assert (await ask.job_stage("17")).effective.stage is Stage.APPROVE


async def test_a_switch_that_ended_already_is_refused() -> None:
    made = await world()
    with pytest.raises(CommandRefusedError, match="past"):
        await made.parts.commands().switch_job("17", Stage.OFF, "ada", values.after(1))


async def test_who_disagrees_is_left_alone_for_good() -> None:
    made = await world()
    order = made.parts.commands()
    await order.switch_job("17", Stage.OFF, "ada", values.after(60))
    await order.disagree("17", "ada", "it was my data")
    made.clock.advance(3600)
    assert (await made.parts.queries().job_stage("17")).effective.stage is Stage.OBSERVE
    story = await made.parts.queries().job_story("17")
    assert "said to be wrong: it was my data" in story.notes


async def test_a_person_ends_a_storm_once() -> None:
    made = await world()
    storm = e.StormOpened(cluster="alpha", storm_id="st-1", reason="file system", incidents=(), at=values.after(1))
    await made.append(Stream.of_cluster("alpha"), storm)
    cleared = await made.parts.commands().open_storm_bucket("alpha", "grace", "it is back")
    assert (cleared.storm_id, cleared.by) == ("st-1", "grace")
    with pytest.raises(CommandRefusedError, match="no storm"):
        await made.parts.commands().open_storm_bucket("alpha", "grace", "again")


class Racing:
    """Lets somebody else append first, so many times."""

    def __init__(self, made: World, times: int) -> None:
        self.left = times
        self._made = made
        self._append = made.history.append

    async def append(self, batch: Append, now: object) -> object:
        if self.left > 0:
            self.left -= 1
            other = Append(
                stream=batch.stream,
                expected_version=batch.expected_version,
                events=(values.change_seen("somebody else"),),
            )
            await self._append(other, self._made.clock.now())
        return await self._append(batch, self._made.clock.now())


@pytest.mark.parametrize("losses", [1, 7])
async def test_a_command_that_loses_a_race_looks_again(losses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await world()
    monkeypatch.setattr(made.history, "append", Racing(made, losses).append)
    await made.parts.commands().disagree("17", "ada", "no")
    assert (await job(made)).disagreed == "no"


async def test_a_command_that_always_loses_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await world()
    monkeypatch.setattr(made.history, "append", Racing(made, 100).append)
    with pytest.raises(ConflictError):
        await made.parts.commands().disagree("17", "ada", "no")
