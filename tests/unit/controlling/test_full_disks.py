"""A disk that fills up before, in and after a transaction's beginning."""

from __future__ import annotations

from relance.controlling.ledger import Ledger, LedgerUnusableError
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Ended, Intended
from relance.domain.views import JobState
from tests.unit.controlling.worlds import World


class FullLedger(Ledger):
    """A ledger whose disk can be full."""

    is_full = False

    def _write(self, data: bytes, *, durable: bool) -> None:
        if self.is_full:
            self._problem = "the disk is full"
            raise LedgerUnusableError(self._problem)
        super()._write(data, durable=durable)


def full_ledger(world: World) -> FullLedger:
    return FullLedger(world.folder, world.cluster.name, world.clock)


def test_nothing_is_claimed_while_the_disk_is_full_and_the_server_is_told(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        key = str(job.attempt_key(world.cluster.name))
        world.backend.acting = (key,)
        ledger = full_ledger(world)
        async with world.running(ledger):
            ledger.is_full = True
            await world.clock.sleep(20)
            assert world.backend.claims == []
            assert "the disk is full" in world.backend.reports[-1].problems
            ledger.is_full = False
            await world.clock.sleep(10)
            assert world.cluster.job(job.raw_id).state is JobState.RUNNING
            assert ledger.state.left_to_the_watchdog == {key}

    world.play(story())


def test_a_claim_that_the_ledger_cannot_note_is_given_back_and_nothing_is_sent(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        ledger = full_ledger(world)
        async with world.running(ledger):
            await world.claimed()
            ledger.is_full = True
            await world.clock.sleep(5)
            assert world.scheduler.sent == []
            ledger.is_full = False
            await world.clock.sleep(10)

    world.play(story())
    assert world.scheduler.sent == []
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.ABANDONED
    assert reason.startswith("nothing was sent: ")


def test_what_has_begun_is_finished_on_a_full_disk_and_written_when_there_is_room(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        ledger = full_ledger(world)
        async with world.running(ledger):
            await world.sent(1)
            ledger.is_full = True
            after = await world.when(job.raw_id, JobState.RUNNING, within_s=10)
            assert after.excluded == (job.nodes[0],)
            await world.clock.sleep(5)
            ledger.is_full = False
            await world.clock.sleep(5)
        again = world.ledger()
        assert again.state.open_actions == ()
        again.close()
        text = (world.folder / "ledger.jsonl").read_text()
        assert text.count(f'"type":"{Intended.__name__}"') == 2
        assert text.count(f'"type":"{Ended.__name__}"') == 1

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]
