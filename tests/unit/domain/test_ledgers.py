from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.advice import ActionEnd, ActionKind, Advice, Command, Effect
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.ledger_compaction import compacted
from relance.domain.ledger_lines import line_of, read_lines
from relance.domain.ledgers import (
    VERSION,
    Began,
    Decided,
    Did,
    Ended,
    Entry,
    Expected,
    Intended,
    LetGo,
    Noted,
    Opened,
    Outcome,
    Parked,
    Reported,
    Taken,
    Verb,
    fold,
)
from relance.domain.views import JobState

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ATTEMPT = AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=T0), restart_count=0)
KEY = str(ATTEMPT)
ADVICE = Advice(
    id="adv-1",
    incident_id="inc-1",
    attempt=ATTEMPT,
    generation=1,
    action=Remedy.RESTART,
    reasons=("a rank died",),
    guards=(),
    issued_at=T0,
    expires_at=T0 + timedelta(minutes=4),
)
BEGAN = Began(
    action_id="act-1",
    advice=ADVICE,
    kind=ActionKind.RESTART,
    effect=Effect(summary="requeue", commands=(Command(argv=("scontrol", "requeue", "17")),), digest="d"),
    expected=Expected(raw_id="17", restart_count=0, submitted_at=T0, state=JobState.FAILED, started_at=T0),
    holder="controller-1",
    at=T0,
)


def intended(number: int, verb: Verb = Verb.REQUEUE) -> Intended:
    return Intended(
        action_id="act-1",
        number=number,
        attempt=KEY,
        advice_id="adv-1",
        generation=1,
        verb=verb,
        argv=("scontrol", verb.value, "17"),
        restart_count=1,
        at=T0,
    )


def did(number: int, outcome: Outcome = Outcome.DONE, verb: Verb = Verb.REQUEUE) -> Did:
    return Did(action_id="act-1", number=number, verb=verb, outcome=outcome, text="", at=T0)


def noted(number: int) -> Noted:
    return Noted(action_id="act-1", number=number, step="pending", detail="as wished", at=T0)


def ended(number: int, end: ActionEnd = ActionEnd.SUCCEEDED) -> Ended:
    return Ended(action_id="act-1", number=number, end=end, reason="it runs", at=T0)


OPENED = Opened(version=VERSION, cluster="alpha", at=T0)
WHOLE: tuple[Entry, ...] = (
    OPENED,
    Taken(attempts=(KEY, "other"), at=T0),
    LetGo(attempts=("other",), reason="over", at=T0),
    Decided(attempt="third", reason="stop: a bug", at=T0),
    BEGAN,
    noted(1),
    intended(2),
    did(2),
    Parked(action_id="act-1", job=str(ATTEMPT.job), until=T0 + timedelta(hours=1), at=T0),
    intended(3, Verb.CONSTRAIN),
    did(3, verb=Verb.CONSTRAIN),
    Reported(action_id="act-1", numbers=(1, 2), at=T0),
    ended(4),
)


def test_an_attempt_is_the_watchdogs_while_it_is_taken_and_nothing_was_decided_on_it() -> None:
    assert fold(WHOLE[:2]).left_to_the_watchdog == {KEY, "other"}
    assert fold(WHOLE[:3]).left_to_the_watchdog == {KEY}
    assert fold((*WHOLE[:3], Decided(attempt=KEY, reason="left", at=T0))).left_to_the_watchdog == frozenset()


@pytest.mark.parametrize(
    ("end", "is_left"),
    [
        (ActionEnd.SUCCEEDED, True),
        (ActionEnd.FAILED, False),
        (ActionEnd.ABANDONED, False),
        (ActionEnd.UNKNOWN, False),
    ],
)
def test_an_action_that_did_not_succeed_decides_its_attempt(end: ActionEnd, *, is_left: bool) -> None:
    state = fold((OPENED, Taken(attempts=(KEY,), at=T0), BEGAN, ended(1, end)))
    assert (KEY in state.left_to_the_watchdog) is is_left


def test_an_action_is_open_until_it_ends_and_known_until_all_is_reported() -> None:
    assert [record.began.action_id for record in fold(WHOLE[:-1]).open_actions] == ["act-1"]
    whole = fold(WHOLE)
    assert whole.open_actions == ()
    assert [story.number for _, story in whole.unreported] == [3, 4]
    assert fold((*WHOLE, Reported(action_id="act-1", numbers=(3, 4), at=T0))).actions == {}


def test_an_action_with_an_unknown_end_stays_open() -> None:
    state = fold((OPENED, BEGAN, ended(1, ActionEnd.UNKNOWN), Reported(action_id="act-1", numbers=(1,), at=T0)))
    assert len(state.open_actions) == 1


def test_the_newest_command_of_a_kind_is_the_one_that_was_not_called_off() -> None:
    entries = (OPENED, BEGAN, intended(1), did(1), intended(2), did(2, Outcome.NOT_SENT))
    record = fold(entries).actions["act-1"]
    assert record.last(Verb.REQUEUE) == (intended(1), did(1))
    assert record.last(Verb.CANCEL) is None


def test_a_command_without_an_answer_is_known_to_have_none() -> None:
    record = fold((OPENED, BEGAN, intended(1))).actions["act-1"]
    assert record.last(Verb.REQUEUE) == (intended(1), None)
    assert record.accepted_at is None


def test_numbers_are_never_given_twice() -> None:
    assert fold(WHOLE[:5]).actions["act-1"].next_number == 1
    assert fold(WHOLE).actions["act-1"].next_number == 5


def test_an_entry_of_an_unknown_action_changes_nothing() -> None:
    assert fold((OPENED, did(1), noted(2), ended(3))) == fold((OPENED,))


def test_lines_come_back_as_they_were_written() -> None:
    reading = read_lines(b"".join(line_of(entry) for entry in WHOLE))
    assert reading.entries == WHOLE
    assert (reading.torn, reading.damaged) == (False, ())


@given(st.integers(min_value=0))
def test_wherever_the_file_breaks_off_the_whole_lines_before_are_read(cut: int) -> None:
    lines = [line_of(entry) for entry in WHOLE]
    data = b"".join(lines)
    cut %= len(data)
    whole = 0
    while sum(len(line) for line in lines[: whole + 1]) <= cut:
        whole += 1
    reading = read_lines(data[:cut])
    assert reading.entries == WHOLE[:whole]
    assert reading.good_bytes == sum(len(line) for line in lines[:whole])
    assert reading.torn is (reading.good_bytes < cut)
    assert reading.damaged == ()


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_changed_byte_never_passes_for_an_entry(place: int, change: int) -> None:
    data = bytearray(b"".join(line_of(entry) for entry in WHOLE))
    place %= len(data)
    data[place] ^= change
    reading = read_lines(bytes(data))
    assert reading.torn or reading.damaged
    assert set(map(repr, reading.entries)) <= set(map(repr, WHOLE))


def test_a_broken_line_in_the_middle_is_damage_and_at_the_end_a_torn_write() -> None:
    good = line_of(OPENED)
    middle = read_lines(good + b"garbage\n" + line_of(BEGAN))
    assert (middle.damaged, middle.torn, len(middle.entries)) == ((2,), False, 2)
    end = read_lines(good + b"garbage\n" + b"\0\0\0\0")
    assert (end.damaged, end.torn, end.good_bytes) == ((), True, len(good))


def test_what_a_newer_version_wrote_is_damage_and_never_cut_off() -> None:
    newer = line_of(replace(OPENED, version=VERSION + 1))
    assert read_lines(newer).damaged == (1,)

    body = json.dumps({"type": "Invented", "at": "2026-03-01T12:00:00Z"}).encode()
    unknown = b"%08x %s\n" % (zlib.crc32(body), body)
    reading = read_lines(line_of(OPENED) + unknown)
    assert (reading.damaged, reading.torn) == ((2,), False)


@given(st.lists(st.sampled_from(WHOLE), max_size=40))
def test_a_compacted_ledger_comes_to_the_same(entries: list[Entry]) -> None:
    state = fold((OPENED, *entries))
    again = fold(compacted(state, T0 - timedelta(days=1), T0))
    assert again == state


def test_old_decisions_on_attempts_that_are_not_taken_are_dropped() -> None:
    state = fold((OPENED, Taken(attempts=(KEY,), at=T0), Decided(attempt=KEY, reason="x", at=T0), WHOLE[3]))
    again = fold(compacted(state, T0 + timedelta(days=7), T0))
    assert set(again.decided) == {KEY}
