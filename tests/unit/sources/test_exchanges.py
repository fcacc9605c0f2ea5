from __future__ import annotations

import pytest

from relance.sources.exchanges import Exchange, ExchangeSettings, StoreAwayError, StoreBusyError
from tests.unit.sources.metrics.scripted_stores import Reply, scripted_store


@pytest.mark.parametrize(
    ("retry_after", "wait_s"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("", 5.0),
        ("soon", 5.0),
        ("\u00b2", 5.0),
        ("-3", 5.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 5.0),
        ("999999999", 300.0),
        ("9" * 400, 5.0),
    ],
)
async def test_a_busy_store_is_left_alone_for_as_long_as_it_asks_within_bounds(retry_after: str, wait_s: float) -> None:
    with scripted_store() as store:
        store.answer = lambda _query, _over: Reply(body=b"later", status=429, headers={"Retry-After": retry_after})
        exchange = Exchange(ExchangeSettings(url=store.url))
        with pytest.raises(StoreBusyError) as caught:
            await exchange.post("/api/v1/query", {"query": "up"})
        await exchange.close()
    assert caught.value.again_in_s == wait_s


def test_an_error_is_told_with_what_mends_it_where_that_is_known() -> None:
    assert StoreAwayError("it is away", "start it").told == "it is away; start it"
    assert StoreAwayError("it is away").told == "it is away"


@pytest.mark.parametrize(("body", "said"), [(b"no room", "HTTP 503: no room"), (b" \n", "HTTP 503"), (b"", "HTTP 503")])
async def test_what_a_store_says_of_its_trouble_is_told_and_silence_is_not(body: bytes, said: str) -> None:
    with scripted_store() as store:
        store.answer = lambda _query, _over: Reply(body=body, status=503)
        exchange = Exchange(ExchangeSettings(url=store.url))
        with pytest.raises(StoreAwayError) as caught:
            await exchange.post("/api/v1/query", {"query": "up"})
        await exchange.close()
    assert str(caught.value).endswith(f" answered {said}")
