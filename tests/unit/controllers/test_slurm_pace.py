"""How often Slurm is asked, and that a long queue is read at a glance."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from relance.controllers.slurm import questions, queues
from relance.controllers.slurm.budgets import Budget, Interval
from relance.controllers.slurm.settings import SlurmSettings
from relance.domain.views import JobState
from relance.ports.clocks import SystemClock
from relance.ports.schedulers import SchedulerSilentError
from relance.slurm.parsing.jobs import parse_jobs
from relance.slurm.records import SlurmJob
from relance.telemetry.schedulers import PROCESS_METRICS, SchedulerMeter
from tests.unit.controllers.fake_slurm import FakeSlurm


class SleeplessClock(SystemClock):
    """Time passes only while somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, duration_s: float) -> None:
        self.seconds += duration_s


METER = SchedulerMeter("pace")


def test_slow_answers_double_an_interval_until_they_are_fast_again() -> None:
    interval = Interval("jobs", 10, METER)
    assert interval.is_due(0)
    interval.asked(0, 0.31)
    assert (interval.seconds, interval.is_due(19), interval.is_due(20)) == (20, False, True)
    shown = PROCESS_METRICS.get_sample_value("relance_scheduler_interval_seconds", {"cluster": "pace", "kind": "jobs"})
    assert shown == 20
    interval.asked(20, 20.25)
    assert (interval.seconds, interval.left_s(25)) == (10, 5)


def test_an_interval_grows_with_every_slow_answer_but_never_so_far_that_we_count_as_lost() -> None:
    for least_s, grown in (
        (0.5, (1, 2, 4, 4)),
        (3, (6, 12, 20, 20)),
        (10, (20, 20, 20, 20)),
        (60, (120, 120, 120, 120)),
    ):
        interval = Interval("jobs", least_s, METER)
        for seconds in grown:
            interval.asked(0, 9)
            assert interval.seconds == seconds
        interval.asked(0, 0.1)
        assert interval.seconds == least_s


async def test_a_budget_lets_a_few_go_at_once_and_the_rest_wait_in_line() -> None:
    clock = SleeplessClock()
    budget = Budget(per_s=2, burst=2, clock=clock, meter=METER)
    began = clock.monotonic()
    for _ in range(6):
        await budget.take()
    assert clock.monotonic() - began == pytest.approx(2.0)
    before = clock.monotonic()
    budget.note()
    assert clock.monotonic() == before
    await budget.take()
    assert clock.monotonic() > before


def test_the_budget_is_sixty_a_minute_or_what_the_queue_needs() -> None:
    assert SlurmSettings(cluster="a").budget_per_minute == 60
    assert SlurmSettings(cluster="a", poll_s=0.5).budget_per_minute > 120
    assert SlurmSettings(cluster="a", requests_per_minute=30).budget_per_minute == 30


GLANCE = ("JOBID", "ARRAY", "TASK", "STATE", "RESTART", "SUBMIT", "START", *(f"COLUMN{number}" for number in range(14)))


def glances(slurm: FakeSlurm, **states: str) -> None:
    """Have the queue's glance show these states, and the records the same."""
    document = json.loads((slurm.folder / "jobs.json").read_text())
    rows = [list(GLANCE)]
    for job in document["jobs"]:
        raw_id = str(job["job_id"])
        state = states.get(f"job{raw_id}", job["job_state"][0])
        job["job_state"] = [state]
        job["restart_cnt"] = 0
        rows.append([raw_id, raw_id, "N/A", state, "0", "100", "101", *["x"] * 14])
    slurm.put("jobs.json", json.dumps(document).encode())
    slurm.put("glances.txt", "".join("".join(f"{cell}@" for cell in row) + "\n" for row in rows).encode())


async def test_of_a_long_queue_only_what_changed_is_read_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_SMALL", -1)
    slurm = FakeSlurm(tmp_path)
    glances(slurm)
    scheduler = slurm.scheduler()
    first = await scheduler.look()
    assert len(first.jobs) == 12
    second = await scheduler.look()
    assert second.jobs == first.jobs
    assert sum("--json" in call for call in slurm.calls("squeue")) == 1
    glances(slurm, job4="FAILED")
    third = await scheduler.look()
    assert {job.raw_id: job.state for job in third.jobs}["4"] is JobState.FAILED
    assert "--jobs=4" in slurm.calls("squeue")[-1]


async def test_a_job_that_a_glance_lacks_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_SMALL", -1)
    slurm = FakeSlurm(tmp_path)
    glances(slurm)
    scheduler = slurm.scheduler()
    await scheduler.look()
    lines = (slurm.folder / "glances.txt").read_bytes().splitlines(keepends=True)
    slurm.put("glances.txt", b"".join(line for line in lines if not line.startswith(b"4@")))
    report = await scheduler.look()
    assert "4" not in {job.raw_id for job in report.jobs}
    assert report.complete


async def test_many_single_reads_use_up_nothing_of_what_the_looks_need(tmp_path: Path) -> None:
    clock = SleeplessClock()
    scheduler = FakeSlurm(tmp_path).scheduler(clock=clock, poll_s=10.0)
    await scheduler.look()
    began = clock.monotonic()
    for _ in range(120):
        await scheduler.read("2")
    assert clock.monotonic() - began == pytest.approx(120 / 2.0, abs=5.0)
    before = clock.monotonic()
    await scheduler.look()
    assert clock.monotonic() == before


async def test_a_look_that_a_transaction_may_wait_for_waits_for_no_budget(tmp_path: Path) -> None:
    clock = SleeplessClock()
    scheduler = FakeSlurm(tmp_path).scheduler(clock=clock, poll_s=10.0)
    report = await scheduler.look()
    for _ in range(40):
        await scheduler.look()
    before = clock.monotonic()
    await scheduler.look()
    assert clock.monotonic() > before
    scheduler.requeue(next(job for job in report.jobs if job.state is JobState.FAILED))
    before = clock.monotonic()
    await scheduler.look()
    assert clock.monotonic() == before


@pytest.mark.parametrize(("most_bytes", "is_apart"), [(0, True), (1 << 30, False)])
async def test_long_answers_alone_are_parsed_apart_from_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, *, is_apart: bool
) -> None:
    seen: list[bool] = []

    def watched(output: bytes) -> tuple[SlurmJob, ...]:
        seen.append(threading.current_thread() is not threading.main_thread())
        return parse_jobs(output)

    monkeypatch.setattr(questions, "LONG_BYTES", most_bytes)
    monkeypatch.setattr(questions, "parse_jobs", watched)
    report = await FakeSlurm(tmp_path).scheduler().look()
    assert seen == [is_apart]
    assert len(report.jobs) == 11


async def test_a_long_answer_that_cannot_be_read_is_silence_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "LONG_BYTES", 0)
    slurm = FakeSlurm(tmp_path)
    slurm.put("jobs.json", b"{")
    with pytest.raises(SchedulerSilentError):
        await slurm.scheduler().look()
