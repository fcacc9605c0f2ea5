from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relance.domain.events import EVENT_TYPES, Event
from relance.domain.keys import JobKey
from relance.domain.streams import Recorded, Stream
from relance.recovery import wordings
from relance.recovery.tables import history_row
from relance.recovery.tellings import told
from relance.testing import history_values as values

KEYS = st.builds(
    JobKey, cluster=st.just("alpha"), raw_id=st.integers(1, 99).map(str), submitted_at=st.just(values.NOON)
)
st.register_type_strategy(JobKey, KEYS)
TIMES = st.datetimes(timezones=st.just(UTC), min_value=values.NOON.replace(tzinfo=None, year=2000))


st.register_type_strategy(datetime, TIMES)


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_event_has_its_sentence(name: str, data: st.DataObject) -> None:
    event: Event = data.draw(st.builds(EVENT_TYPES[name]))
    telling = told(event)
    assert telling.title.strip()
    assert telling.title[0].isupper() or not telling.title[0].isalpha() or telling.who
    recorded = Recorded(position=1, stream=Stream(name="job/x"), version=1, recorded_at=values.NOON, event=event)
    assert history_row(recorded).event == name


def test_times_of_today_are_told_without_their_date() -> None:
    assert wordings.moment(values.after(0), values.after(60)) == "12:00:00 UTC"
    assert wordings.moment(values.after(0), values.after(86400)) == "2026-03-01 12:00:00 UTC"
    assert wordings.moment(None, values.NOON) == "not known"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "not known"),
        (0.04, "0.0 s"),
        (4.56, "4.6 s"),
        (59.6, "60 s"),
        (600, "10 min"),
        (7200, "2.0 h"),
        (86400 * 3, "3.0 d"),
        (-5, "-5.0 s"),
    ],
)
def test_durations_are_told_in_the_unit_that_a_person_would_use(seconds: float | None, text: str) -> None:
    assert wordings.duration(seconds) == text


def test_few_nodes_are_named_and_many_are_counted() -> None:
    assert wordings.nodes([]) == "no node"
    assert wordings.nodes(["a", "b"]) == "a, b"
    assert wordings.nodes([f"n{number}" for number in range(9)]) == "9 nodes (n0, n1, n2, n3, ...)"
    assert (wordings.count(1, "step"), wordings.count(41230, "step")) == ("1 step", "41 230 steps")


@given(st.text())
def test_shown_text_steers_no_terminal_and_turns_no_line(text: str) -> None:
    shown = wordings.visible(text)
    assert len(shown) == len(text)
    assert all(char.isprintable() or char in "\n\t" or not char.isascii() for char in shown)
    assert not set(shown) & set("\x1b\x07\r\x00\u202e\u2066\u200b\u2028")
