"""The event stream over a real connection: what comes, what a return brings, and what a full house says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from relance.api import WebSettings
from relance.ports.tokens import TokenRole
from relance.testing import history_values as values
from tests.served.servers import serving
from tests.served.worlds import World, secret, world

AUTHORIZED = {"Authorization": f"Bearer {secret(TokenRole.VIEWER)}"}


@asynccontextmanager
async def listening(url: str, **headers: str) -> AsyncIterator[AsyncIterator[str]]:
    async with (
        httpx2.AsyncClient(timeout=60, verify=False) as client,
        client.stream("GET", f"{url}/api/v1/events", headers={**AUTHORIZED, **headers}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield response.aiter_lines()


async def ids(lines: AsyncIterator[str], number: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        async for line in lines:
            if line.startswith("id: "):
                found.append(int(line.removeprefix("id: ")))
            if len(found) == number:
                break
    return found


async def happen(made: World, number: int) -> None:
    for count in range(number):
        await made.append(values.job_stream("17"), values.change_seen(f"{count}"))


async def test_what_happens_while_a_client_is_away_is_there_when_it_returns() -> None:
    made = await world()
    start = await made.history.head()
    async with serving(made) as url:
        async with listening(url) as lines:
            assert await ids(lines, 1) == [start]
            await happen(made, 2)
            assert await ids(lines, 2) == [start + 1, start + 2]
        await happen(made, 3)
        async with listening(url, **{"Last-Event-ID": str(start + 1)}) as lines:
            assert await ids(lines, 5) == [start + 1, start + 2, start + 3, start + 4, start + 5]


async def test_a_quiet_stream_is_kept_open_by_comments() -> None:
    made = await world(web=WebSettings(ping_s=0.05))
    async with serving(made) as url, listening(url) as lines, asyncio.timeout(60):
        while not (await anext(lines)).startswith(": ping"):
            pass


async def test_a_full_house_is_said_and_a_place_that_is_left_is_free_again() -> None:
    made = await world(web=WebSettings(streams=1, ping_s=0.05))
    async with serving(made) as url, httpx2.AsyncClient(timeout=60, headers=AUTHORIZED, verify=False) as client:
        async with listening(url) as lines:
            await ids(lines, 1)
            full = await client.get(f"{url}/api/v1/events")
            assert (full.status_code, full.json()["error"]["code"]) == (503, "too_many_streams")
        async with asyncio.timeout(60):
            while (await client.send(client.build_request("GET", f"{url}/api/v1/events"), stream=True)).is_error:
                pass
