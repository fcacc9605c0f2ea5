from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.advice import PermitWish
from relance.domain.permits import bucket_free_at, counted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WISH = PermitWish(scope="cluster/alpha", burst=3, refill_s=10.0)


def at(*offsets_s: float) -> tuple[datetime, ...]:
    return tuple(NOON + timedelta(seconds=offset) for offset in offsets_s)


def free_after_s(taken: tuple[datetime, ...], now_s: float, wish: PermitWish = WISH) -> float | None:
    free = bucket_free_at(taken, wish, NOON + timedelta(seconds=now_s))
    return None if free is None else (free - NOON).total_seconds()


@pytest.mark.parametrize(
    ("taken_s", "now_s", "free_s"),
    [
        pytest.param((), 0, None, id="an untouched bucket is full"),
        pytest.param((0, 0), 0, None, id="the burst may be used up at once"),
        pytest.param((0, 0, 0), 0, 10.0, id="after the burst one comes back per refill"),
        pytest.param((0, 0, 0), 9.999, 10.0, id="not a moment earlier"),
        pytest.param((0, 0, 0), 10, None, id="and not a moment later"),
        pytest.param((0, 0, 0, 10), 10, 20.0, id="one refill gives one permit"),
        pytest.param((0, 0, 0, 10, 20, 30, 40), 40, 50.0, id="at the full rate the burst does not come back"),
        pytest.param((0, 0, 0), 30, None, id="after an idle time the bucket is full again"),
        pytest.param((0, 0, 0, 30, 30), 30, None, id="and the whole burst may be used again"),
        pytest.param((20, 0, 10, 0, 0), 20, 30.0, id="the order in which permits are listed does not matter"),
        pytest.param((25, 25, 25), 20, 35.0, id="another clock slightly ahead counts"),
        pytest.param((3600, 3600, 3600), 20, None, id="a clock that has stepped back does not close the bucket"),
    ],
)
def test_a_bucket_gives_its_burst_and_then_one_per_refill(
    taken_s: tuple[float, ...], now_s: float, free_s: float | None
) -> None:
    assert free_after_s(at(*taken_s), now_s) == free_s


def test_a_bucket_without_refill_time_is_never_empty() -> None:
    assert free_after_s(at(0, 0, 0), 0, PermitWish(scope="x", burst=1, refill_s=0.0)) is None


@pytest.mark.parametrize(("burst", "refill_s"), [(0, 10.0), (1, -1.0)])
def test_a_wish_that_nothing_can_fulfil_is_refused(burst: int, refill_s: float) -> None:
    with pytest.raises(ValueError, match="burst of at least 1"):
        bucket_free_at((), PermitWish(scope="x", burst=burst, refill_s=refill_s), NOON)


def test_only_permits_taken_since_the_bucket_was_full_count() -> None:
    taken = at(0, 0, 100, 105, 112)
    assert counted(taken, WISH, NOON + timedelta(seconds=113)) == at(100, 105, 112)
    assert counted(taken, WISH, NOON + timedelta(seconds=500)) == ()


buckets = st.builds(
    PermitWish, scope=st.just("x"), burst=st.integers(1, 5), refill_s=st.sampled_from([0.5, 1.0, 6.0, 10.0])
)
gaps = st.lists(st.one_of(st.just(0.0), st.floats(0, 30).map(lambda gap: round(gap, 3))), max_size=60)


def take_when_free(wish: PermitWish, asked_after_s: list[float]) -> list[datetime]:
    """When permits are given to somebody who asks after each of these pauses."""
    now, taken = NOON, list[datetime]()
    for gap in asked_after_s:
        now += timedelta(seconds=gap)
        if bucket_free_at(taken, wish, now) is None:
            taken.append(now)
    return taken


@given(wish=buckets, asked_after_s=gaps)
def test_no_window_holds_more_than_the_burst_and_its_refills(wish: PermitWish, asked_after_s: list[float]) -> None:
    taken = take_when_free(wish, asked_after_s)
    for first, begin in enumerate(taken):
        for last, end in enumerate(taken[first:], start=first):
            window_s = (end - begin).total_seconds()
            assert last - first + 1 <= wish.burst + window_s / wish.refill_s + 1e-6


@given(wish=buckets, asked_after_s=gaps)
def test_a_permit_is_there_at_the_time_that_was_named(wish: PermitWish, asked_after_s: list[float]) -> None:
    taken = take_when_free(wish, asked_after_s)
    now = NOON + timedelta(seconds=sum(asked_after_s))
    free = bucket_free_at(taken, wish, now)
    assert free is None or now < free <= now + timedelta(seconds=wish.refill_s)
    assert free is None or bucket_free_at(taken, wish, free) is None


@given(wish=buckets, asked_after_s=gaps)
def test_permits_that_no_longer_count_may_be_forgotten(wish: PermitWish, asked_after_s: list[float]) -> None:
    taken = take_when_free(wish, asked_after_s)
    now = NOON + timedelta(seconds=sum(asked_after_s))
    assert bucket_free_at(counted(taken, wish, now), wish, now) == bucket_free_at(taken, wish, now)


@given(wish=buckets, asked_after_s=gaps)
def test_a_rested_bucket_gives_its_whole_burst(wish: PermitWish, asked_after_s: list[float]) -> None:
    taken = take_when_free(wish, asked_after_s)
    now = NOON + timedelta(seconds=sum(asked_after_s) + wish.burst * wish.refill_s)
    assert len(take_when_free(wish, [0.0] * (wish.burst + 1))) == wish.burst
    for _ in range(wish.burst):
        assert bucket_free_at(taken, wish, now) is None
        taken.append(now)
    assert bucket_free_at(taken, wish, now) is not None
