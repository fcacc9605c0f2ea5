"""Tasks of an array that fail together: decided alike, and started again no faster than permits allow."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from relance.domain.advice import PermitWish
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import StormLimits
from relance.domain.permits import bucket_free_at
from relance.domain.records import JobRecord
from relance.policy import Question, decide
from relance.recovery.claims import restart_permits
from tests.unit.policy.questions import AT, NOW, at, question, with_

ARRAY = "900"
ASKED = with_(
    question(),
    verdict__domain=FaultDomain.SYSTEM,
    verdict__remedy=Remedy.RESTART,
    verdict__suspects=(),
    verdict__fingerprint="same",
)


def _task(number: int, tasks: int, failing: int) -> Question:
    """The question about one of the tasks that failed in the same way."""
    job = JobKey(cluster="alpha", raw_id=str(1000 + number), submitted_at=AT)
    attempt = AttemptKey(job=job, restart_count=0)
    known = tuple(replace(item, attempt=attempt) for item in ASKED.record.attempts)
    view = ASKED.fleet.job
    assert view is not None
    return replace(
        ASKED,
        incident=replace(ASKED.incident, attempt=attempt),
        record=replace(ASKED.record, job=job, array=ARRAY, attempts=known),
        fleet=replace(
            ASKED.fleet,
            job=replace(view, raw_id=job.raw_id, array=ARRAY, array_task=number),
            array_tasks=tasks,
            array_failures={"same": failing - 1},
        ),
    )


@given(tasks=st.integers(2, 200), share=st.floats(0, 1), seen=st.floats(0, 1))
def test_all_that_fail_of_one_cause_get_the_same_decision(tasks: int, share: float, seen: float) -> None:
    failing = max(1, round(tasks * share))
    asked = [_task(number, tasks, failing) for number in {0, round((failing - 1) * seen), failing - 1}]
    found = [decide(item) for item in asked]
    assert len({(advice.action, advice.reasons, advice.hold, advice.park) for advice in found}) == 1
    limits = ASKED.limits.restarts
    too_many = failing >= limits.array_tasks and failing > limits.array_share * tasks
    assert (found[0].action is Remedy.STOP) is too_many


@given(waits_s=st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_an_arrays_restarts_are_spread_however_often_they_are_asked_for(waits_s: list[float]) -> None:
    limits = StormLimits()
    record = JobRecord(job=JobKey(cluster="alpha", raw_id="1000", submitted_at=AT), array=ARRAY)
    wishes = restart_permits(record, None, limits, NOW)
    assert {wish.scope for wish in wishes} == {"restart/alpha", f"restart/alpha/{ARRAY}"}
    taken: list[datetime] = []
    now = at(0)
    for wait_s in waits_s:
        now += timedelta(seconds=wait_s)
        if all(_is_free(taken, wish, now) for wish in wishes):
            taken.append(now)
    for index, first in enumerate(taken):
        for count, last in enumerate(taken[index:], start=1):
            assert count <= limits.bucket_burst + (last - first).total_seconds() / limits.bucket_refill_s + 1e-6


def _is_free(taken: list[datetime], wish: PermitWish, now: datetime) -> bool:
    return bucket_free_at(taken, wish, now) is None
