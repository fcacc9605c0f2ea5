"""The contract of `relance.ports.notifiers.Notifier`, as tests that every implementation runs.

A test class of one's own inherits from `NotifierContract` and has a fixture `stand`. Tests are coroutines:
pytest-asyncio in automatic mode, or a plug-in like it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from relance.ports.notifiers import Notice, NoticeKind, Notifier, NotifierError

_PATIENCE_S = 20.0

NOTICE = Notice(
    id="ntc-1",
    kind=NoticeKind.APPROVAL_NEEDED,
    cluster="alpha",
    title='approve: restart "größe" without n1 ($(reboot); `reboot`)?',
    text="line one\nline two → ✓ \x1b[31m\x00",
    at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
    job="alpha/17/20260301T120000Z",
    incident_id="inc-1",
    owner="ada",
    facts={"line": "x" * 8192},
)
"""A notice with everything that a careless implementation stumbles over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierStand:
    """What the contract's tests are given.

    `working` delivers, `failing` reaches a receiver that refuses, `stuck` one that never answers (with a time limit
    well under 20 s). `received` gives what has arrived at the working receiver so far, each with `id`, `title` and
    `owner`; where notices are `whole`, each is the JSON object that was sent.
    """

    working: Notifier
    failing: Notifier
    stuck: Notifier
    received: Callable[[], Awaitable[list[Mapping[str, Any]]]]
    whole: bool = True
    """Whether programs are told, which get everything; a person gets a text."""


class NotifierContract:
    """Everything that a notifier promises."""

    async def test_a_notice_arrives_whole(self, stand: NotifierStand) -> None:
        await stand.working.notify(NOTICE)
        (found,) = await stand.received()
        assert (found["id"], found["title"], found["owner"]) == (NOTICE.id, NOTICE.title, NOTICE.owner)
        if not stand.whole:
            return
        assert found["version"] == 1
        assert found["kind"] == "approval_needed"
        assert (found["title"], found["text"]) == (NOTICE.title, NOTICE.text)
        assert (found["cluster"], found["job"], found["incident_id"]) == (NOTICE.cluster, NOTICE.job, "inc-1")
        assert found["facts"] == {"line": "x" * 8192}
        assert found["at"] == "2026-03-01T12:00:00.000000Z"

    async def test_each_notice_arrives_once_and_in_order(self, stand: NotifierStand) -> None:
        for number in range(5):
            await stand.working.notify(replace(NOTICE, id=f"ntc-{number}"))
        assert [found["id"] for found in await stand.received()] == [f"ntc-{number}" for number in range(5)]

    async def test_notices_at_the_same_time_all_arrive(self, stand: NotifierStand) -> None:
        await asyncio.gather(*(stand.working.notify(replace(NOTICE, id=f"ntc-{number}")) for number in range(5)))
        assert {found["id"] for found in await stand.received()} == {f"ntc-{number}" for number in range(5)}

    async def test_a_receiver_that_refuses_is_an_error_that_says_why(self, stand: NotifierStand) -> None:
        with pytest.raises(NotifierError, match=r"\w"):
            await stand.failing.notify(NOTICE)

    async def test_a_receiver_that_never_answers_is_an_error_in_time(self, stand: NotifierStand) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            with pytest.raises(NotifierError, match=r"\w"):
                await stand.stuck.notify(NOTICE)

    async def test_after_an_error_the_next_notice_is_tried_again(self, stand: NotifierStand) -> None:
        for _ in range(2):
            with pytest.raises(NotifierError):
                await stand.failing.notify(NOTICE)

    async def test_closing_twice_does_no_harm(self, stand: NotifierStand) -> None:
        await stand.working.notify(NOTICE)
        await stand.working.close()
        await stand.working.close()
