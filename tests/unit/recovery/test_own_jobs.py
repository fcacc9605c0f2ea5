from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.keys import JobKey
from relance.domain.records import JobRecord
from relance.recovery.subjects import Own

JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=datetime(2026, 3, 1, tzinfo=UTC))
RECORD = JobRecord(job=JOB, owner_uid=1000)


def test_a_job_is_its_owner_s() -> None:
    assert Own(uid=1000).has(RECORD)
    assert not Own(uid=1001).has(RECORD)


def test_the_same_uid_on_another_cluster_may_be_somebody_else() -> None:
    assert Own(uid=1000, clusters=frozenset({"alpha"})).has(RECORD)
    assert not Own(uid=1000, clusters=frozenset({"beta"})).has(RECORD)
