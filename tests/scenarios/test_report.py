"""Two weeks' proof in small: observe watches, people act, and the report says what would have come of it."""

from __future__ import annotations

import pytest

from relance.domain.faults import Remedy
from relance.domain.findings import Certainty, Finding, Sign
from relance.domain.keys import AttemptKey
from relance.domain.stages import EndRunning, Stage
from relance.recovery.proving.values import Proofs
from relance.recovery.queries import Queries
from relance.recovery.subjects import NotKnownError
from tests.scenarios import findings
from tests.scenarios.acts import (
    cancels,
    completes,
    fails,
    finds,
    goes_on,
    hangs,
    is_requeued,
    submits,
)
from tests.scenarios.storybooks import crashed
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import BEGIN, World


async def _report(world: World, partition: str | None = None) -> Proofs:
    queries = Queries(world.history, world.site, world.clock, world.live)
    return await queries.proofs(BEGIN, "alpha", partition)


def _silence(attempt: AttemptKey, world: World) -> Finding:
    return findings.silence(attempt, world.now, Certainty.CONFIRMED, Sign.OWNER_LIMIT, since=world.at(60))


async def test_a_requeue_by_hand_shows_what_observe_would_have_saved() -> None:
    line = crashed(stage=Stage.OBSERVE, until_s=900)
    line.at(600, is_requeued())
    line.at(890, completes())
    await line.play()
    found = await _report(line.world)
    (saved,) = found.savings.listed
    assert saved.how == "requeued"
    assert saved.saved_s == (line.world.at(600) - saved.advised_at).total_seconds()
    assert 500 <= saved.saved_s <= 540, "we would have been there when the verdict had settled"
    assert found.savings.node_hours == pytest.approx(4 * saved.saved_s / 3600)
    assert (found.agreement.compared, found.agreement.agreed) == (1, 1)
    restarted = next(row for row in found.agreement.rows if row.advised is Remedy.RESTART)
    assert (restarted.restarted, restarted.went_on) == (1, 1)


async def test_a_copy_submitted_by_hand_shows_it_too() -> None:
    line = crashed(stage=Stage.OBSERVE, until_s=420)
    line.at(400, submits("18"))
    await line.play()
    found = await _report(line.world)
    assert [item.how for item in found.savings.listed] == ["resubmitted as 18"]


async def test_an_advice_to_end_a_job_that_was_only_slow_is_found_out_by_its_next_step() -> None:
    line = Timeline(stage=Stage.OBSERVE, until_s=260)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(120, finds(_silence))
    line.at(200, goes_on())
    line.at(240, completes())
    await line.play()
    found = await _report(line.world)
    assert (found.ends.advised, found.ends.false) == (1, 1)
    (wrong,) = found.ends.listed
    assert wrong.kind is EndRunning.HANG
    assert line.world.at(119) <= wrong.advised_at <= line.world.at(140), "as soon as the verdict had settled"
    assert wrong.step_at > wrong.advised_at
    assert "later made a step" in found.promotions[0].missing[-1]


async def test_the_same_advice_is_seen_to_be_wrong_while_the_job_still_runs() -> None:
    line = Timeline(stage=Stage.OBSERVE, until_s=230)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(120, finds(_silence))
    line.at(200, goes_on())
    await line.play()
    assert (await _report(line.world)).ends.false == 1


async def test_a_hang_that_its_owner_ended_was_rightly_told() -> None:
    line = Timeline(stage=Stage.OBSERVE, until_s=260)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(120, finds(_silence))
    line.at(200, cancels())
    await line.play()
    found = await _report(line.world)
    assert (found.ends.advised, found.ends.false, found.ends.not_known) == (1, 0, 0)
    assert found.misses.silent_ends == 0


async def test_a_hang_that_nobody_told_of_is_a_silent_end() -> None:
    line = Timeline(stage=Stage.OBSERVE, until_s=2000)
    line.at(0, submits())
    line.at(60, hangs())
    line.at(1980, cancels())
    await line.play()
    found = await _report(line.world)
    assert (found.misses.silent_ends, found.ends.advised) == (1, 0)
    assert found.misses.listed_ends[0].silent_s == pytest.approx(1920, abs=2)


async def test_what_was_followed_is_covered_and_what_was_not_is_not() -> None:
    line = Timeline(stage=Stage.OBSERVE, until_s=100)
    line.at(0, submits(node_count=2))
    line.at(0, submits("18", name="other", node_count=2))
    line.at(50, fails())
    line.at(50, completes("18"))
    await line.play()
    found = await _report(line.world)
    assert found.attempts == 2
    assert found.coverage[0].read_share == 1.0
    assert found.coverage[0].progress_share == 1.0
    assert found.coverage[0].kernel_share == 0.0, "no kernel logs are named in the settings"
    assert (found.misses.failures, found.misses.missed) == (1, 0)

    silent = Timeline(stage=Stage.OBSERVE, until_s=700)
    silent.world.watcher.is_silent = True
    silent.at(0, submits())
    silent.at(50, fails())
    await silent.play()
    assert (await _report(silent.world)).coverage[0].read_share == 0.0


async def test_act_gives_the_time_from_the_end_to_our_restart() -> None:
    line = crashed(stage=Stage.ACT, until_s=200)
    await line.play()
    found = await _report(line.world)
    assert found.savings.restarts_by_hand == 0
    assert found.savings.ours.count == 1
    assert found.savings.ours.median_s is not None
    assert 10 <= found.savings.ours.median_s <= 30


async def test_a_partition_without_jobs_is_said() -> None:
    line = crashed(stage=Stage.OBSERVE, until_s=70)
    await line.play()
    with pytest.raises(NotKnownError, match="known: gpu"):
        await _report(line.world, "gpus")
