from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.events import FindingReported
from relance.storage.columns import KEY_LENGTH, column_key, from_payload, from_us, to_payload, to_us
from relance.testing.history_values import finding

any_text = st.text(st.characters(), max_size=300)


@pytest.mark.parametrize("text", ["", "job/alpha/17/20260301T120000Z", "a b", "UPPER", "x" * KEY_LENGTH])
def test_plain_text_is_its_own_key(text: str) -> None:
    assert column_key(text) == text


@pytest.mark.parametrize("text", ["ends in space ", "ü", "tab\t", "nul\x00", "~hash", "x" * (KEY_LENGTH + 1), "\udc80"])
def test_text_that_databases_compare_differently_gets_a_hash_for_a_key(text: str) -> None:
    key = column_key(text)
    assert key.startswith("~")
    assert len(key) == 65


@given(first=any_text, second=any_text)
def test_keys_are_ascii_fit_the_column_and_are_equal_only_for_equal_texts(first: str, second: str) -> None:
    keys = column_key(first), column_key(second)
    assert all(key.isascii() and len(key) <= KEY_LENGTH and not key.endswith(" ") for key in keys)
    assert (keys[0] == keys[1]) == (first == second)


@given(at=st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_exactly(at: datetime) -> None:
    assert from_us(to_us(at)) == at


def test_times_are_stored_in_utc() -> None:
    at = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert from_us(to_us(at)).isoformat() == "2026-03-01T12:00:00+00:00"


def test_payloads_are_ascii_and_keep_text_that_is_not_valid_unicode() -> None:
    event = FindingReported(finding=finding(excerpt="é 😀 \udc80 \x00"))
    payload = to_payload(event)
    assert payload.isascii()
    assert from_payload(FindingReported, payload) == event
