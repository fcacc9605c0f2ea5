from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from sse_starlette import EventSourceResponse, ServerSentEvent

from relance.api import WebSettings
from relance.serving.feeds import Feeds
from relance.serving.problems import ProblemError
from relance.testing import history_values as values
from tests.served.worlds import World, world


def messages(response: EventSourceResponse) -> AsyncIterator[ServerSentEvent]:
    return response.body_iterator  # type: ignore[return-value]


async def next_of(stream: AsyncIterator[ServerSentEvent]) -> ServerSentEvent:
    async with asyncio.timeout(60):
        return await anext(stream)


async def happen(made: World, detail: str) -> None:
    await made.append(values.job_stream("17"), values.change_seen(detail))


async def test_a_stream_begins_at_the_newest_position_and_says_what_has_news() -> None:
    made = await world()
    stream = messages(await Feeds(made.parts).stream(None))
    ready = await next_of(stream)
    assert (ready.event, ready.id) == ("ready", str(await made.history.head()))
    waiting = asyncio.create_task(next_of(stream))
    await asyncio.sleep(0)
    await happen(made, "one")
    message = await waiting
    assert message.id == str(await made.history.head())
    assert json.loads(str(message.data)) == {
        "position": await made.history.head(),
        "stream": str(values.job_stream("17")),
        "version": 9,
        "event": "OutsideChangeSeen",
        "incident_id": None,
    }
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_client_that_comes_again_misses_nothing() -> None:
    made = await world()
    feeds, start = Feeds(made.parts), await made.history.head()
    for number in range(500):
        await happen(made, f"{number}")
    async with aclosing(messages(await feeds.stream(start))) as stream:  # type: ignore[type-var]
        await next_of(stream)
        seen = [(await next_of(stream)).id for _ in range(250)]
    async with aclosing(messages(await feeds.stream(int(seen[-1] or 0)))) as stream:  # type: ignore[type-var]
        await next_of(stream)
        seen += [(await next_of(stream)).id for _ in range(250)]
    assert seen == [str(start + number) for number in range(1, 501)]
    assert feeds.open == 0


async def test_a_position_of_another_database_is_taken_as_the_newest() -> None:
    made = await world()
    async with aclosing(messages(await Feeds(made.parts).stream(10**9))) as stream:  # type: ignore[type-var]
        assert (await next_of(stream)).id == str(await made.history.head())


async def test_there_are_no_more_streams_than_the_site_allows() -> None:
    made = await world(web=WebSettings(streams=1))
    feeds = Feeds(made.parts)
    async with aclosing(messages(await feeds.stream(None))) as stream:  # type: ignore[type-var]
        await next_of(stream)
        with pytest.raises(ProblemError, match="too many"):
            await feeds.stream(None)
    await feeds.stream(None)
