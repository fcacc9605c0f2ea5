from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relance.sources.exchanges import StoreAwayError, StoreBusyError
from relance.sources.metrics.standing import StoreStanding

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failing(times: int, error: StoreAwayError | StoreBusyError) -> StoreStanding:
    standing = StoreStanding("metrics")
    for _ in range(times):
        standing.failed(error, NOW)
    return standing


@pytest.mark.parametrize(("times", "wait_s"), [(1, 15.0), (2, 30.0), (3, 60.0), (4, 60.0), (5000, 60.0)])
def test_a_store_that_is_away_is_asked_more_rarely_however_long_it_lasts(times: int, wait_s: float) -> None:
    assert failing(times, StoreAwayError("away")).again_in_s(15.0) == wait_s


def test_a_store_is_left_alone_for_as_long_as_it_asks() -> None:
    assert failing(1, StoreBusyError("busy", 90.0)).again_in_s(15.0) == 90.0
    assert failing(1, StoreBusyError("busy", 1.0)).again_in_s(15.0) == 15.0


def test_after_a_whole_look_waits_begin_anew() -> None:
    standing = failing(9, StoreAwayError("away"))
    standing.looked(NOW, "", ())
    standing.failed(StoreAwayError("away"), NOW)
    assert standing.again_in_s(15.0) == 15.0
