"""What a backend promises about evidence of suspected hangs: when it is ordered, begun once, and what is kept of it.

The server under test has the shipped rules of traces.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.collecting import Collected, EvidenceClaim, EvidenceOrder, EvidenceReport
from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.observations import WatcherBatch
from relance.domain.progress import Progress
from relance.domain.stages import Stage
from relance.domain.views import JobState
from relance.ports.backends import BackendRefusedError
from relance.testing.backend_stands import CLUSTER, EFFECT, HOLDER, BackendStand

_WAITS = "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n    step (train.py:40)\n"
_READS = "    read_block (dataset.py:12)\n    step (train.py:38)\n"
STACKS = "".join(
    f"Process {100 + rank}: python train.py --rank {rank}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    f'Thread {100 + rank} (idle): "MainThread"\n{_READS if rank == 5 else _WAITS}\n'
    for rank in range(8)
).encode()
"""Stacks of eight ranks; rank 5 reads data while the others wait for it."""


class EvidenceContract:
    """Orders, claims and reports of evidence."""

    async def test_a_suspected_hang_is_an_order_with_one_key_for_its_silence(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        (again,) = (await stand.orders()).evidence
        assert again == order
        assert (order.attempt, order.raw_id, order.why_not) == (stand.attempt(), "17", "")
        assert order.stage.stage is Stage.ACT

    async def test_a_job_that_steps_is_never_ordered_or_begun(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        stand.clock.advance(1)
        await stand.backend.submit(_quiet(stand, steps=1))
        assert (await stand.orders()).evidence == ()
        reply = await stand.backend.claim_evidence(await _claim(stand, order))
        assert not reply.granted
        assert "gone on" in reply.reason

    async def test_a_checkpoint_that_became_durable_is_a_sign_of_life(self, stand: BackendStand) -> None:
        await _hang(stand)
        stand.clock.advance(1)
        batch = _quiet(stand)
        assert batch.progress is not None
        saved = replace(batch.progress, checkpoint_durable=3500, checkpoint_durable_at=stand.clock.now())
        await stand.backend.submit(replace(batch, progress=saved))
        assert (await stand.orders()).evidence == ()

    async def test_a_checkpoint_from_before_the_silence_was_told_is_none(self, stand: BackendStand) -> None:
        await stand.begin(Stage.ACT)
        stand.clock.advance(15)
        await stand.backend.report(stand.look())
        batch = _quiet(stand)
        assert batch.progress is not None
        saved = replace(batch.progress, checkpoint_durable_at=stand.clock.now() - timedelta(seconds=14))
        finding = _finding(stand, "fnd-1", progress=saved)  # a log store's lag puts the symptom before its last lines
        await stand.backend.submit(replace(batch, progress=saved, findings=(finding,)))
        await stand.settle()
        (order,) = (await stand.orders()).evidence
        assert (await stand.backend.claim_evidence(await _claim(stand, order))).granted

    async def test_a_confirmed_hang_needs_none(self, stand: BackendStand) -> None:
        await _hang(stand)
        stand.clock.advance(200)
        await stand.backend.report(stand.look())
        await stand.backend.submit(
            replace(_quiet(stand), findings=(_finding(stand, "fnd-2", Certainty.CONFIRMED),)),
        )
        await stand.settle()
        assert (await stand.orders()).evidence == ()

    @pytest.mark.parametrize("stage", [Stage.OBSERVE, Stage.APPROVE])
    async def test_below_act_it_may_be_shown_and_not_begun(self, stand: BackendStand, stage: Stage) -> None:
        order = await _hang(stand, stage)
        assert f"the stage is {stage.value}" in order.why_not
        await stand.backend.record_evidence(_shown(stand, order))
        (shown,) = (await stand.orders()).evidence
        assert shown.prepared == (f"{stage.value}/on/{EFFECT.digest}",)
        reply = await stand.backend.claim_evidence(await _claim(stand, order))
        assert not reply.granted
        assert f"the stage is {stage.value}" in reply.reason

    async def test_what_would_be_run_is_recorded_once(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        await stand.backend.record_evidence(_shown(stand, order))
        head = await stand.head()
        await stand.backend.record_evidence(_shown(stand, order))
        assert await stand.head() == head

    async def test_it_is_begun_once_for_a_silence(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        claim = await _claim(stand, order)
        assert (await stand.backend.claim_evidence(claim)).granted
        again = await stand.backend.claim_evidence(claim)
        assert not again.granted
        (open_one,) = (await stand.orders()).evidence
        assert (open_one.key, open_one.started_by, open_one.started_at) == (order.key, HOLDER, stand.clock.now())

    async def test_who_does_not_hold_the_lease_begins_nothing(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        claim = replace(await _claim(stand, order), holder="somebody")
        assert not (await stand.backend.claim_evidence(claim)).granted

    async def test_logs_that_were_not_read_lately_let_nothing_begin(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        stand.clock.advance(100)
        await stand.backend.report(stand.look())
        await stand.backend.assignments(CLUSTER)
        reply = await stand.backend.claim_evidence(await _claim(stand, order))
        assert not reply.granted
        assert "100 s ago" in reply.reason

    async def test_what_came_of_it_reaches_the_detectors_and_the_verdict(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        assert (await stand.backend.claim_evidence(await _claim(stand, order))).granted
        await stand.backend.record_evidence(_told(stand, order, Collected(exit_code=0, stdout=STACKS, took_s=2.5)))
        await stand.settle()
        assert (await stand.orders()).evidence == ()
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        assert [(hit.symptom, hit.rank) for hit in item.collected] == [("stack_minority", 5)]
        stand.clock.advance(1)
        await stand.backend.submit(_quiet(stand, steps=1))
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        assert item.collected == ()

    async def test_told_twice_it_is_kept_once(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        assert (await stand.backend.claim_evidence(await _claim(stand, order))).granted
        failed = Collected(exit_code=1, stdout=bytes(range(256)) * 64, stderr=b"srun: error\n", took_s=1.0)
        await stand.backend.record_evidence(_told(stand, order, failed))
        await stand.settle()
        head = await stand.head()
        await stand.backend.record_evidence(_told(stand, order, failed))
        await stand.settle()
        assert await stand.head() == head

    async def test_what_nobody_claimed_is_not_taken_for_evidence(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        head = await stand.head()
        await stand.backend.record_evidence(_told(stand, order, Collected(exit_code=0, stdout=STACKS)))
        assert await stand.head() == head

    async def test_a_report_on_an_incident_that_is_not_known_is_refused(self, stand: BackendStand) -> None:
        order = replace(await _hang(stand), incident_id="inc-404")
        with pytest.raises(BackendRefusedError):
            await stand.backend.record_evidence(_shown(stand, order))

    async def test_a_later_silence_is_looked_into_again_and_not_a_fourth_one(self, stand: BackendStand) -> None:
        keys = [(await _hang(stand)).key]
        await _look_into(stand)
        for number in (2, 3, 4):
            await _go_on(stand, steps=number)
            await _silence(stand, f"fnd-{number}", steps=number)
            orders = (await stand.orders()).evidence
            keys += [order.key for order in orders]
            if orders:
                await _look_into(stand)
        assert len(keys) == len(set(keys)) == 3

    async def test_a_silence_that_is_told_again_is_the_same_one(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        await _silence(stand, "fnd-lasts", after_s=90)
        (again,) = (await stand.orders()).evidence
        assert again.key == order.key
        await stand.backend.record_evidence(_shown(stand, again))
        assert (await stand.backend.claim_evidence(await _claim(stand, again))).granted
        await stand.backend.record_evidence(_told(stand, again, Collected(exit_code=0, stdout=STACKS)))
        await _silence(stand, "fnd-confirmed", after_s=90, certainty=Certainty.CONFIRMED)
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        assert [hit.symptom for hit in item.collected] == ["stack_minority"]

    async def test_two_silences_within_a_minute_are_looked_into_once(self, stand: BackendStand) -> None:
        await _hang(stand)
        await _look_into(stand)
        await _go_on(stand, steps=1, after_s=5)
        await _silence(stand, "fnd-2", steps=1, after_s=20)
        assert (await stand.orders()).evidence == ()

    async def test_somebody_at_work_holds_it_back(self, stand: BackendStand) -> None:
        order = await _hang(stand)
        stand.show(somebody_at_work="step 17.1 of ada is gdb")
        await stand.backend.report(stand.look())
        assert (await stand.orders()).evidence == ()
        reply = await stand.backend.claim_evidence(await _claim(stand, order))
        assert "somebody is at work" in reply.reason

    async def test_an_attempt_that_has_ended_is_not_looked_into(self, stand: BackendStand) -> None:
        await _hang(stand)
        stand.show(state=JobState.FAILED, ended_at=stand.clock.now(), exit_code=1, exit_signal=0)
        await stand.backend.report(stand.look())
        assert (await stand.orders()).evidence == ()


async def _hang(stand: BackendStand, stage: Stage = Stage.ACT) -> EvidenceOrder:
    """A job that trained and has been silent for 15 s; the order for evidence of that."""
    await stand.begin(stage)
    await _silence(stand, "fnd-1")
    (order,) = (await stand.orders()).evidence
    return order


async def _silence(
    stand: BackendStand,
    finding_id: str,
    steps: int = 0,
    after_s: float = 15,
    certainty: Certainty = Certainty.SUSPECTED,
) -> None:
    stand.clock.advance(after_s)
    await stand.backend.report(stand.look())
    finding = _finding(stand, finding_id, certainty, progress=_quiet(stand, steps).progress)
    await stand.backend.submit(replace(_quiet(stand, steps), findings=(finding,)))
    await stand.settle()


async def _go_on(stand: BackendStand, steps: int, after_s: float = 100) -> None:
    stand.clock.advance(after_s)
    await stand.backend.report(stand.look())
    await stand.backend.submit(_quiet(stand, steps))
    await stand.settle()


async def _look_into(stand: BackendStand) -> None:
    """The one order is shown, begun and told of."""
    (order,) = (await stand.orders()).evidence
    await stand.backend.record_evidence(_shown(stand, order))
    assert (await stand.backend.claim_evidence(await _claim(stand, order))).granted
    await stand.backend.record_evidence(_told(stand, order, Collected(exit_code=0, stdout=b"nothing to be read\n")))
    await stand.settle()


def _quiet(stand: BackendStand, steps: int = 0) -> WatcherBatch:
    """What the watcher says of a job that made so many more steps than at first, and none just now."""
    batch, now = stand.batch(), stand.clock.now()
    assert batch.progress is not None
    began = stand.job().started_at
    assert began is not None
    last_at = began + timedelta(hours=1, seconds=steps)
    progress = replace(
        batch.progress,
        step=3500 + steps,
        steps_seen=3500 + steps,
        highest_step=3500 + steps,
        step_at=min(last_at, now),
        checkpoint_durable_at=began + timedelta(seconds=3400),
    )
    return replace(batch, progress=progress)


def _finding(
    stand: BackendStand,
    finding_id: str,
    certainty: Certainty = Certainty.SUSPECTED,
    progress: Progress | None = None,
) -> Finding:
    now = stand.clock.now()
    progress = progress or _quiet(stand).progress
    return Finding(
        id=finding_id,
        attempt=stand.attempt(),
        detector="hang",
        kind=FindingKind.HANG,
        certainty=certainty,
        symptom="hang",
        summary="no progress for 15 s",
        first_evidence_at=now - timedelta(seconds=15),
        symptom_at=now - timedelta(seconds=15),
        progress=progress,
    )


async def _claim(stand: BackendStand, order: EvidenceOrder) -> EvidenceClaim:
    return EvidenceClaim(
        key=order.key,
        incident_id=order.incident_id,
        attempt=order.attempt,
        cluster=CLUSTER,
        holder=HOLDER,
        lease_epoch=(await stand.orders()).lease.epoch,
        effect=EFFECT,
    )


def _shown(stand: BackendStand, order: EvidenceOrder) -> EvidenceReport:
    return EvidenceReport(
        key=order.key,
        incident_id=order.incident_id,
        finding_id=order.finding_id,
        attempt=order.attempt,
        at=stand.clock.now(),
        shown=EFFECT,
        switched_on=True,
    )


def _told(stand: BackendStand, order: EvidenceOrder, collected: Collected) -> EvidenceReport:
    return replace(_shown(stand, order), shown=None, switched_on=False, collected=collected)
