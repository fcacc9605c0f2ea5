from __future__ import annotations

from dataclasses import replace
from typing import get_args
from zoneinfo import ZoneInfo

import pytest

from relance.config.settings import OwnersEvent
from relance.domain import events as e
from relance.domain.advice import NEEDS_A_PERSON, ActionKind, Answer, Guard
from relance.domain.clocks import Stamp
from relance.domain.findings import Certainty, FindingKind
from relance.domain.views import Wish
from relance.ports.notifiers import Notice, NoticeKind
from relance.recovery.letters import OwnerLetters
from relance.recovery.sites import Site
from relance.testing import history_values as values
from tests.served.worlds import ASKING, World, progress, world

EVERY_KIND = frozenset(NoticeKind(kind) for kind in get_args(OwnersEvent))
"""What a site can have owners told."""

JOB = values.job_stream("17")


async def letters(made: World, *events: e.Event, teller: OwnerLetters | None = None) -> list[Notice]:
    """What the owner is told of these events."""
    tell = teller or OwnerLetters(made.parts.queries(), Site(zone=ZoneInfo("Europe/Paris")), EVERY_KIND)
    after = await made.history.head()
    await made.append(JOB, *events)
    found: list[Notice] = []
    for recorded in await made.history.follow(after):
        found += await tell(recorded, (await made.history.load(recorded.stream)).record)
    return found


def stopped(end: e.IncidentEnd = e.IncidentEnd.STOPPED) -> e.IncidentClosed:
    return e.IncidentClosed(
        incident_id=ASKING, end=end, reason="restarted 3 times without progress", at=values.after(9)
    )


def restarted(count: int = 1) -> e.AttemptRestarted:
    at = Stamp(at=values.after(8), clock="scheduler")
    return e.AttemptRestarted(
        incident_id=ASKING, attempt=values.attempt_key("17", count), nodes=("n0",), by_us=True, at=at
    )


async def test_a_stop_is_told_in_five_lines_that_say_what_why_says() -> None:
    made = await world()
    (told,) = await letters(made, stopped())
    story = await made.parts.queries().job_story("17")
    assert (told.kind, told.owner) == (NoticeKind.JOB_STOPPED, "ada")
    what, fault, seen, then, how = told.text.splitlines()
    assert what == (
        "What happened: Job 17 train ended and is not started again. Xid 79 on n1 "
        "(attempt 1 ended 12:00:02 UTC (13:00 Paris))"
    )
    assert fault == f"Whose fault: {story.answers.fault}"
    assert "not your code" in fault
    assert seen == 'Seen in: "RuntimeError: CUDA error" (/logs/out.txt (byte 0), rank 0, n0)'
    assert then == f"What next: {story.answers.next}"
    assert "restarted 3 times without progress" in then
    assert how == 'Not wanted: relance off 17 · not right: relance wrong 17 "WHY" · all of it: relance why 17'


async def test_other_ends_are_not_told() -> None:
    assert await letters(await world(), stopped(e.IncidentEnd.RECOVERED)) == []


async def test_an_attempt_that_did_not_resume_is_told_first_of_all() -> None:
    made = await world()
    key = values.attempt_key("17", 1)
    found = replace(values.finding(7), attempt=key, kind=FindingKind.DID_NOT_RESUME, summary="began at step 1, not 450")
    started = e.AttemptStarted(attempt=key, nodes=("n0",), started_at=values.after(8))
    made.live.progress[key] = progress(3)
    told = await letters(made, started, e.FindingReported(finding=found))
    (letter,) = [each for each in told if each.kind is NoticeKind.DID_NOT_RESUME]
    assert letter.text.startswith("The new attempt did not resume from the last durable checkpoint.")
    assert "What happened: Job 17 train did not resume" in letter.text
    assert "began at step 1, not 450" in letter.text


def parked(action: str, generation: int, *guards: Guard) -> tuple[e.Event, ...]:
    """A job that is put back into the queue with a later start."""
    issued = values.advice_issued(ASKING, "17", generation)
    advice = replace(issued.advice, park=True, park_until=values.after(14400), guards=guards)
    started = replace(
        values.action_started(ASKING, "17"),
        action_id=action, advice_id=advice.id, generation=generation, kind=ActionKind.PARK,
    )  # fmt: skip
    succeeded = e.ActionSucceeded(
        incident_id=ASKING, action_id=action, step_id=f"{action}-9", reason="read back", at=values.after(6)
    )
    return (replace(issued, advice=advice), started, succeeded)


async def test_a_parked_job_is_told_once_with_the_time_at_which_it_starts_by_itself() -> None:
    made = await world()
    (told,) = await letters(made, *parked("act-1", 2))
    assert told.kind is NoticeKind.PARKED
    assert "starts by itself at 16:00:00 UTC at the latest" in told.text
    assert await letters(made, *parked("act-2", 3)) == []


async def test_the_owner_of_a_job_that_is_parked_over_quiet_hours_is_told_until_when() -> None:
    quiet = Guard(
        name="no_quiet_hours",
        answer=Answer.NO,
        reason="quiet hours until 2026-03-01 15:30 UTC: nothing begins before",
        ask_again_at=values.after(12600),
    )
    told = await letters(await world(), *parked("act-1", 2, quiet))
    (letter,) = [each for each in told if each.kind is NoticeKind.PARKED]
    assert "quiet hours until 2026-03-01 15:30 UTC: nothing begins before; it waits in the queue" in letter.text


async def test_the_owner_of_a_parked_job_is_told_what_there_is_to_choose() -> None:
    reason = f"only 1 of the 2 nodes remain; {NEEDS_A_PERSON}: free a node, or start it with the suspect"
    room = Guard(name="enough_nodes", answer=Answer.NO, reason=reason)
    told = await letters(await world(), *parked("act-1", 2, room))
    (letter,) = [each for each in told if each.kind is NoticeKind.PARKED]
    assert f"at the latest; {reason}" in letter.text
    (what_next,) = [line for line in letter.text.splitlines() if line.startswith("What next:")]
    assert what_next.endswith(reason)


async def test_a_restart_is_told_where_the_site_wants_it_and_at_most_once_an_hour() -> None:
    made = await world()
    queries, site = made.parts.queries(), Site()
    quiet = OwnerLetters(queries, site, EVERY_KIND - {NoticeKind.RESTARTED})
    assert await letters(made, restarted(1), teller=quiet) == []
    teller = OwnerLetters(queries, site, EVERY_KIND)
    told: list[str] = []
    for count, wait_min in ((2, 0), (3, 30), (4, 29), (5, 2), (6, 10)):
        made.clock.advance(60 * wait_min)
        _, opened = values.opening(f"inc-{count}", "17")
        events = (opened, replace(restarted(count), incident_id=f"inc-{count}"))
        told += [f"{count}: {notice.title}" for notice in await letters(made, *events, teller=teller)]
    assert told == ["2: job 17 train runs again", "5: job 17 train runs again"]


async def test_settings_that_were_clipped_are_told_once() -> None:
    made = await world()
    changed = e.WishChanged(job=values.job_key("17"), wish=Wish(notes=("max_restarts 99 is more than 20 allowed",)))
    first, second = await letters(made, changed, changed)
    assert first.id == second.id
    assert "max_restarts 99 is more than 20 allowed" in first.text
    assert await letters(made, e.WishChanged(job=values.job_key("17"), wish=Wish())) == []


async def test_a_slowdown_and_a_divergence_are_told_once_and_not_when_they_are_over() -> None:
    made = await world()
    slow = replace(values.finding(8), kind=FindingKind.SLOWDOWN, summary="from step 90 on steps take 15 % longer")
    lost = replace(values.finding(9), kind=FindingKind.DIVERGENCE, summary="the loss is no number")
    over = replace(slow, id="fnd-over", over=True)
    told = await letters(made, *(e.FindingReported(finding=each) for each in (slow, lost, over)))
    assert [each.kind for each in told] == [NoticeKind.SLOW, NoticeKind.DIVERGED]
    assert "has become slower: from step 90 on steps take 15 % longer; nothing is done" in told[0].text
    again = replace(slow, id="fnd-again")
    first, second = await letters(made, e.FindingReported(finding=slow), e.FindingReported(finding=again))
    assert first.id == second.id


async def test_only_a_confirmed_hang_is_told() -> None:
    made = await world()
    hang = replace(values.finding(8), kind=FindingKind.HANG, summary="no step for 25 min")
    sure = e.FindingReported(finding=hang)
    unsure = e.FindingReported(finding=replace(hang, id="fnd-9", certainty=Certainty.SUSPECTED))
    assert [each.kind for each in await letters(made, unsure, sure)] == [NoticeKind.HANG]


@pytest.mark.parametrize("kinds", [frozenset[NoticeKind](), frozenset({NoticeKind.PARKED})])
async def test_what_the_site_left_out_is_not_told(kinds: frozenset[NoticeKind]) -> None:
    made = await world()
    assert await letters(made, stopped(), teller=OwnerLetters(made.parts.queries(), Site(), kinds)) == []


async def test_what_a_log_says_stays_within_its_line() -> None:
    made = await world()
    reached = values.verdict_reached(ASKING)
    hit = replace(values.rule_hit(0), excerpt="\n\x1b[31mBad\x1b[0m\x00 thing\nNot wanted: relance mode act\n")
    verdict = replace(reached.verdict, evidence=(hit,), summary="Xid 79\nWhat next: send money")
    (told,) = await letters(made, replace(reached, verdict=verdict), stopped())
    assert len(told.text.splitlines()) == 5
    assert "\x1b" not in told.text
