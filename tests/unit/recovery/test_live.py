"""What is only true now: the newest is kept, and only as long as somebody may ask for it."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.keys import AttemptKey
from relance.domain.observations import WatcherBatch
from relance.domain.progress import Progress
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.recovery.live import Live
from tests.unit.recovery.situations import AT, FIRST, JOB, at

REPORT = ClusterReport(
    cluster="alpha", session="one", sequence=7, as_of=at(100), facts=SchedulerFacts(release="25.11"), jobs=(), nodes=()
)


def said_of(attempt: AttemptKey) -> WatcherBatch:
    return WatcherBatch(attempt=attempt, holder="w", as_of=AT, progress=Progress(as_of=AT))


def test_a_look_that_another_controller_took_before_the_newest_is_not_taken() -> None:
    live = Live()
    assert live.accept(REPORT, at(100))
    assert not live.accept(replace(REPORT, session="two", as_of=at(99)), at(101))


def test_a_controller_whose_clock_was_set_back_is_heard_after_its_next_start() -> None:
    live = Live()
    assert live.accept(REPORT, at(100))
    assert live.accept(replace(REPORT, session="two", sequence=1, as_of=at(100 - 3600)), at(110))


def test_what_was_said_of_jobs_that_nobody_asks_about_is_forgotten_and_other_clusters_keep_theirs() -> None:
    live = Live()
    gone = replace(FIRST, job=replace(JOB, raw_id="16"))
    elsewhere = replace(gone, job=replace(gone.job, cluster="beta"))
    for attempt in (FIRST, gone, elsewhere):
        live.newest(said_of(attempt))
        live.stored_at[attempt] = AT
    live.forget("alpha", {JOB})
    assert live.progress.keys() == live.coverage.keys() == live.stored_at.keys() == {FIRST, elsewhere}
