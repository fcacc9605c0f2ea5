"""Identities: the same job stays the same, a reused id is a new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.keys import AttemptKey, JobKey, same_job, stable_id

AT = datetime(2026, 5, 2, 11, 0, 0, 250_000, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)


def test_keys_are_read_back_from_their_text() -> None:
    attempt = AttemptKey(job=JOB, restart_count=2)
    assert str(JOB) == "alpha/17/20260502T110000Z"
    assert JobKey.parse(str(JOB)) == JOB
    assert AttemptKey.parse(str(attempt)) == attempt


@pytest.mark.parametrize("text", ["", "alpha/17", "alpha/17/yesterday", "a/b/c/d"])
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        JobKey.parse(text)


@pytest.mark.parametrize("bad", ["", "a/b"])
def test_a_name_with_a_slash_or_none_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="slash"):
        JobKey(cluster=bad, raw_id="1", submitted_at=AT)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        JobKey(cluster="a", raw_id="1", submitted_at=AT.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("count", "later_s", "same"),
    [
        pytest.param(1, 0, True, id="the attempt already known"),
        pytest.param(2, 60, True, id="requeued: higher count and later submit time"),
        pytest.param(0, 3600, False, id="id reused: count back at zero"),
        pytest.param(2, -60, False, id="higher count, earlier submit time"),
        pytest.param(1, 3600, False, id="same count, other submit time"),
    ],
)
def test_a_record_belongs_to_the_known_job_only_if_count_and_time_grow(count: int, later_s: int, *, same: bool) -> None:
    known = AttemptKey(job=JOB, restart_count=1)
    assert same_job(known, AT, count, AT + timedelta(seconds=later_s)) is same


def test_a_stable_id_depends_on_its_parts_and_their_borders() -> None:
    assert stable_id("x", "a", "b") == stable_id("x", "a", "b")
    assert stable_id("x", "ab", "") != stable_id("x", "a", "b")
