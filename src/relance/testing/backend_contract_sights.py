"""What a backend promises to those who look: assignments, checkpoints, findings, reports, waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.findings import Certainty, Coverage, Finding, FindingKind, Sight
from relance.domain.observations import Attachment, SightReport, WatcherBatch
from relance.domain.stages import Stage
from relance.domain.views import JobState
from relance.ports.backends import BackendRefusedError
from relance.testing.backend_stands import CLUSTER, BackendStand, unknown_attempt

_PATIENCE_S = 20.0
_MANY_JOBS = 300


class SightContract:
    """Looking and waiting."""

    async def test_nothing_is_assigned_on_a_cluster_that_nobody_reported(self, stand: BackendStand) -> None:
        found = await stand.backend.assignments("beta")
        assert found.assignments == ()

    async def test_a_running_attempt_is_assigned_with_everything_it_takes_to_read_its_logs(
        self, stand: BackendStand
    ) -> None:
        await stand.begin()
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        job = stand.job()
        assert item.attempt == stand.attempt()
        assert (item.owner_uid, item.nodes, item.log_paths) == (job.owner_uid, job.nodes, job.log_paths)
        assert (item.ranks_per_node, item.started_at, item.ended_at) == (2, job.started_at, None)

    async def test_an_attempt_that_has_just_ended_is_to_be_read_to_its_end(self, stand: BackendStand) -> None:
        await stand.fail()
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        assert item.ended_at == stand.job().ended_at

    async def test_at_stage_off_nothing_is_read(self, stand: BackendStand) -> None:
        await stand.begin(Stage.OFF)
        assert (await stand.backend.assignments(CLUSTER)).assignments == ()

    async def test_an_attempt_that_nobody_reported_is_refused(self, stand: BackendStand) -> None:
        now = stand.clock.now()
        with pytest.raises(BackendRefusedError):
            await stand.backend.submit(WatcherBatch(attempt=unknown_attempt(now), holder="watcher-1", as_of=now))

    async def test_a_checkpoint_is_given_back_as_it_was(self, stand: BackendStand) -> None:
        await stand.begin()
        text = '{"positions": {"/logs/17.out": 4096}, "größe": "\\u0000"}'
        assert await stand.backend.checkpoint(replace(stand.attempt(), restart_count=7)) is None
        batch = replace(stand.batch(), checkpoint=text, findings=(_finding(stand),))
        await stand.backend.submit(batch)
        assert await stand.backend.checkpoint(stand.attempt()) == text

    async def test_a_checkpoint_is_kept_however_often_progress_comes_without_one(self, stand: BackendStand) -> None:
        await stand.begin()
        await stand.backend.submit(replace(stand.batch(), checkpoint=None))
        await stand.backend.submit(replace(stand.batch(), checkpoint="{}"))
        await stand.backend.submit(replace(stand.batch(), checkpoint=None))
        assert await stand.backend.checkpoint(stand.attempt()) == "{}"

    async def test_a_job_is_given_the_longest_start_and_pause_of_its_workflow(self, stand: BackendStand) -> None:
        await stand.begin()
        stand.show("18", name="train-17")
        stand.show("19", name="another")
        await stand.backend.report(stand.look())
        for start_s, pause_s in ((900.0, 240.0), (300.0, 250.0)):
            seen = stand.batch()
            assert seen.progress is not None
            told = replace(seen.progress, start_s=start_s, longest_pause_s=pause_s)
            await stand.backend.submit(replace(seen, progress=told))
        found = {item.attempt.job.raw_id: item for item in (await stand.backend.assignments(CLUSTER)).assignments}
        assert (found["18"].start_before_s, found["18"].pause_before_s) == (900.0, 250.0)
        assert (found["19"].start_before_s, found["19"].pause_before_s) == (None, None)

    async def test_a_lost_source_of_logs_is_told_and_caps_the_stage_while_it_lasts(self, stand: BackendStand) -> None:
        await stand.begin()
        now = stand.clock.now()
        away = Coverage(source="loki", sight=Sight.MISSING, up_to=now - timedelta(minutes=10), note="no answer")
        report = SightReport(cluster=CLUSTER, holder="watcher-1", as_of=now, logs=(away,))
        await stand.backend.see(report)
        await stand.settle()
        head = await stand.head()
        back = replace(report, logs=(replace(away, sight=Sight.SEEN, up_to=now),))
        await stand.backend.see(back)
        await stand.settle()
        assert await stand.head() > head

    async def test_a_finding_that_is_sent_twice_is_stored_once(self, stand: BackendStand) -> None:
        await stand.begin()
        batch = replace(stand.batch(), findings=(_finding(stand),))
        await stand.backend.submit(batch)
        await stand.settle()
        head = await stand.head()
        await stand.backend.submit(batch)
        await stand.settle()
        assert await stand.head() == head

    async def test_an_attachment_arrives_with_its_bytes(self, stand: BackendStand) -> None:
        await stand.begin()
        head = await stand.head()
        piece = Attachment(file="/logs/17.out", start_offset=4096, data=bytes(range(256)) * 64)
        await stand.backend.submit(replace(stand.batch(), attachments=(piece,)))
        assert await stand.head() > head

    async def test_an_older_report_of_the_same_session_changes_nothing(self, stand: BackendStand) -> None:
        await stand.begin()
        older = stand.look(sequence=0)
        stand.show(state=JobState.COMPLETED, ended_at=stand.clock.now())
        await stand.backend.report(stand.look())
        await stand.settle()
        head = await stand.head()
        await stand.backend.report(older)
        await stand.settle()
        assert await stand.head() == head
        (item,) = (await stand.backend.assignments(CLUSTER)).assignments
        assert item.ended_at is not None

    async def test_a_report_may_be_sent_again(self, stand: BackendStand) -> None:
        await stand.begin()
        report = stand.look()
        await stand.backend.report(report)
        await stand.settle()
        head = await stand.head()
        await stand.backend.report(report)
        await stand.settle()
        assert await stand.head() == head

    async def test_a_report_of_many_jobs_is_taken(self, stand: BackendStand) -> None:
        for number in range(_MANY_JOBS):
            stand.job(str(1000 + number))
        await stand.backend.report(stand.look())
        assert len((await stand.backend.assignments(CLUSTER)).assignments) == _MANY_JOBS

    async def test_waiting_ends_at_once_when_there_is_news(self, stand: BackendStand) -> None:
        await stand.begin()
        head = await stand.head()
        async with asyncio.timeout(_PATIENCE_S):
            assert await stand.backend.wait(head - 1, 3600) == head

    async def test_waiting_ends_when_news_come(self, stand: BackendStand) -> None:
        await stand.begin()
        head = await stand.head()
        waiting = asyncio.create_task(stand.backend.wait(head, 3600))
        await stand.backend.submit(replace(stand.batch(), findings=(_finding(stand),)))
        async with asyncio.timeout(_PATIENCE_S):
            assert await waiting > head

    async def test_waiting_ends_without_news_after_its_time(self, stand: BackendStand) -> None:
        await stand.begin()
        head = await stand.head()
        async with asyncio.timeout(_PATIENCE_S):
            assert await stand.backend.wait(head, 0) == head


def _finding(stand: BackendStand) -> Finding:
    """A hang that is only suspected: it opens an incident and leads to no action."""
    now = stand.clock.now()
    return Finding(
        id="fnd-1",
        attempt=stand.attempt(),
        detector="hang",
        kind=FindingKind.HANG,
        certainty=Certainty.SUSPECTED,
        symptom="no_step",
        summary="no step for 60 s → watched",
        first_evidence_at=now,
        symptom_at=now,
    )
