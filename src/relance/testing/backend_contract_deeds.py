"""What a backend promises about the watchdog's deeds: each is stored once, and a restart of its is ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.deeds import DeedState, WatchdogDeed, deed_id
from relance.domain.keys import AttemptKey
from relance.domain.ledgers import Verb
from relance.domain.stages import Stage
from relance.domain.views import JobState
from relance.ports.backends import BackendRefusedError
from relance.testing.backend_stands import BackendStand, unknown_attempt


class DeedContract:
    """What the watchdog did while no controller lived."""

    async def test_a_deed_is_stored_once_for_each_state_and_never_after_its_last_word(
        self, stand: BackendStand
    ) -> None:
        await stand.fail()
        deed = _deed(stand, stand.attempt(), DeedState.INTENDED)
        heads = []
        for state in (DeedState.INTENDED, DeedState.INTENDED, DeedState.DONE, DeedState.DONE, DeedState.SILENT):
            await stand.backend.record_deed(replace(deed, state=state))
            heads.append(await stand.head())
        assert [heads[0] == heads[1], heads[1] < heads[2], heads[2] == heads[3] == heads[4]] == [True, True, True]

    async def test_a_deed_on_a_job_that_nobody_reported_is_refused(self, stand: BackendStand) -> None:
        deed = _deed(stand, unknown_attempt(stand.clock.now()), DeedState.DONE)
        with pytest.raises(BackendRefusedError):
            await stand.backend.record_deed(deed)

    @pytest.mark.parametrize(
        ("state", "is_ours"),
        [(DeedState.DONE, True), (DeedState.INTENDED, True), (DeedState.NOT_SENT, False), (None, False)],
    )
    async def test_restarts_by_the_watchdog_are_not_taken_for_those_of_another_engine(
        self, stand: BackendStand, state: DeedState | None, *, is_ours: bool
    ) -> None:
        await stand.begin()
        for _ in range(2):
            await _restart(stand, state)
        assert ((await stand.orders()).acting == (str(stand.attempt()),)) is is_ours

    async def test_no_restart_is_ordered_of_an_attempt_that_the_watchdog_restarted(self, stand: BackendStand) -> None:
        await stand.begin(Stage.ACT)
        await _restart(stand, DeedState.DONE)
        stand.clock.advance(3600)
        await stand.backend.report(stand.look())
        await stand.settle()
        again = stand.attempt()
        assert [order for order in (await stand.orders()).orders if order.advice.attempt == again] == []


async def _restart(stand: BackendStand, state: DeedState | None) -> None:
    """Have the attempt fail, and the next one run, while nobody looked; then the deed is told, if there was one."""
    failed, ended = stand.attempt(), stand.clock.now()
    if state is not None:
        await stand.backend.record_deed(_deed(stand, failed, state))
    stand.clock.advance(300)
    stand.show(
        state=JobState.RUNNING, restart_count=failed.restart_count + 1, submitted_at=ended, started_at=stand.clock.now()
    )
    stand.clock.advance(5)
    await stand.backend.report(stand.look())
    await stand.settle()


def _deed(stand: BackendStand, attempt: AttemptKey, state: DeedState) -> WatchdogDeed:
    now = stand.clock.now()
    return WatchdogDeed(
        id=deed_id(attempt, Verb.REQUEUE, 1),
        attempt=attempt,
        verb=Verb.REQUEUE,
        number=1,
        state=state,
        stage=Stage.ACT,
        argv=("scontrol", "requeue", attempt.job.raw_id),
        restart_count=attempt.restart_count + 1,
        reason="it is failed, and Slurm is about to forget it",
        at=now,
        answered_at=now + timedelta(seconds=1),
    )
