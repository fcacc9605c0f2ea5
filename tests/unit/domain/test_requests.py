"""Requests as values: marks that are ours alone, what the ledger keeps of them, and whom the watchdog leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.advice import ActionEnd, Command, Effect
from relance.domain.ledger_compaction import compacted
from relance.domain.ledger_lines import line_of, read_lines
from relance.domain.ledgers import Entry, fold
from relance.domain.request_checks import Found, is_done, remark
from relance.domain.request_events import ActionRequested, RequestEnded, RequestStarted, with_request
from relance.domain.requests import (
    Request,
    RequestBegan,
    RequestRecord,
    RequestReported,
    RequestSettled,
    RequestVerb,
    asker_of,
    drain_reason,
    is_drain_reason,
    is_reservation,
    request_id,
    reservation_name,
)
from relance.domain.views import JobState
from relance.testing import history_values as values

EFFECT = Effect(summary="as asked", commands=(Command(argv=("scontrol", "hold", "17")),), digest="d" * 64)
VENDORS = ("Action:Reboot", "Action:Replace", "k8s: cordon: x", "slurm-operator: y", "user_problem: z")


def request(verb: RequestVerb, raw_id: str = "17", at_s: float = 0) -> Request:
    at = values.after(at_s)
    return Request(
        id=request_id("alpha", raw_id, verb, "ada", at),
        verb=verb,
        cluster="alpha",
        job=values.job_key(raw_id),
        reason="wrong data",
        by="ada",
        at=at,
        expires_at=at + timedelta(minutes=10),
    )


@given(by=st.text(max_size=100), reason=st.text(max_size=600))
def test_whatever_a_person_types_the_reason_on_a_node_is_ours_and_orders_nobody(by: str, reason: str) -> None:
    key = request_id("alpha", "n1", RequestVerb.DRAIN, by, values.NOON)
    text = drain_reason(key, by, reason)
    assert is_drain_reason(text)
    assert text.isascii()
    assert text.startswith("relance: ")
    assert ":" not in text.removeprefix("relance:")
    assert not any(word in text for word in VENDORS)
    assert is_reservation(reservation_name(key))


@pytest.mark.parametrize(
    "text", ["", "relance", "relance: x", *VENDORS, "relance: a, b (req-0)", "maint-0123456789abcdef0123"]
)
def test_what_others_write_is_not_ours(text: str) -> None:
    assert not is_drain_reason(text)
    assert not is_reservation(text)


@pytest.mark.parametrize("verb", list(RequestVerb))
def test_who_holds_or_cancels_has_decided_and_the_watchdog_leaves_that_attempt_alone(verb: RequestVerb) -> None:
    state = fold([RequestBegan(request=request(verb), effect=EFFECT, at=values.NOON)])
    attempt = str(values.attempt_key("17"))
    assert (attempt in state.decided) is (verb in (RequestVerb.HOLD, RequestVerb.CANCEL))


def test_a_ledger_keeps_what_began_until_the_server_has_it_also_when_it_is_rewritten() -> None:
    one, other = request(RequestVerb.HOLD), request(RequestVerb.CANCEL, "18")
    entries: list[Entry] = [
        RequestBegan(request=one, effect=EFFECT, at=values.NOON),
        RequestBegan(request=other, effect=EFFECT, at=values.NOON),
        RequestSettled(request_id=one.id, end=ActionEnd.SUCCEEDED, reason="", at=values.after(1)),
    ]
    read = read_lines(b"".join(line_of(entry) for entry in entries))
    assert list(read.entries) == entries
    state = fold(entries)
    assert fold(compacted(state, values.NOON, values.after(2))).requests == state.requests
    assert [progress.settled is not None for progress in state.requests.values()] == [True, False]
    done = fold([*entries, RequestReported(request_id=one.id, at=values.after(2))])
    assert list(done.requests) == [other.id]


def test_many_requests_are_kept_to_the_newest_and_none_that_is_open_is_lost() -> None:
    known: tuple[RequestRecord, ...] = ()
    first = request(RequestVerb.HOLD)
    known = with_request(known, ActionRequested(request=first))
    for number in range(1, 120):
        asked = request(RequestVerb.HOLD, at_s=number)
        known = with_request(known, ActionRequested(request=asked))
        known = with_request(known, _ended(asked, ActionEnd.ABANDONED))
    assert len(known) == 51
    assert known[0].request == first
    assert with_request(known, ActionRequested(request=first)) == known


def test_what_was_done_is_settled_and_what_was_not_may_show_after_all() -> None:
    asked = request(RequestVerb.HOLD)
    known = with_request((), ActionRequested(request=asked))
    late = with_request(with_request(known, _ended(asked, ActionEnd.FAILED)), _ended(asked, ActionEnd.SUCCEEDED))
    assert late[0].end is ActionEnd.SUCCEEDED
    assert with_request(late, _ended(asked, ActionEnd.FAILED)) == late


def test_a_change_is_somebody_s_once_it_was_begun_for_that_attempt() -> None:
    asked = request(RequestVerb.CANCEL)
    known = with_request((), ActionRequested(request=asked))
    assert asker_of(known, RequestVerb.CANCEL, 0) is None
    begun = RequestStarted(
        request_id=asked.id, verb=asked.verb, by="ada", effect=EFFECT, holder="c1", lease_epoch=1, at=values.NOON
    )
    known = with_request(known, begun)
    assert asker_of(known, RequestVerb.CANCEL, 0) == "ada"
    assert asker_of(known, RequestVerb.CANCEL, 1) is None
    assert asker_of(known, RequestVerb.HOLD, 0) is None
    assert asker_of(with_request(known, _ended(asked, ActionEnd.ABANDONED)), RequestVerb.CANCEL, 0) is None


@pytest.mark.parametrize(
    ("verb", "state", "held_next", "shows"),
    [
        (RequestVerb.HOLD, JobState.RUNNING, True, True),
        (RequestVerb.HOLD, JobState.RUNNING, False, False),
        (RequestVerb.RELEASE, JobState.RUNNING, False, True),
        (RequestVerb.RELEASE, JobState.RUNNING, True, False),
        (RequestVerb.RELEASE, JobState.UNKNOWN, False, False),
    ],
)
def test_a_hold_that_came_too_late_is_told_as_one_of_the_next_attempt(
    verb: RequestVerb, state: JobState, *, held_next: bool, shows: bool
) -> None:
    job = replace(values.report_of().jobs[0], state=state, held_next=held_next)
    found = Found(cluster="alpha", at=values.NOON, job=job)
    asked = replace(request(verb, job.raw_id), job=job.job_key("alpha"), restart_count=job.restart_count)
    assert is_done(asked, found) is shows
    assert ("its next attempt is held" in remark(asked, found)) is (verb is RequestVerb.HOLD and held_next)


def _ended(asked: Request, end: ActionEnd) -> RequestEnded:
    return RequestEnded(request_id=asked.id, verb=asked.verb, by=asked.by, end=end, reason="", at=values.after(200))
