"""Short forms for tests of histories: append to a stream whatever its version, and see a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from relance.domain.events import Event
from relance.domain.streams import Recorded, Stream
from relance.ports.histories import Append, History
from relance.testing.history_values import NOON

OpenHistory = Callable[[], Awaitable[History]]
Refusal = TypeVar("Refusal", bound=BaseException)


async def append(history: History, stream: Stream, *events: Event, now: datetime = NOON) -> tuple[Recorded, ...]:
    """Append events to a stream at its present version; the timer stays."""
    return await store(history, Append(stream=stream, expected_version=0, events=events, keep_wake=True), now)


async def store(history: History, batch: Append, now: datetime = NOON) -> tuple[Recorded, ...]:
    """Carry out an append at the stream's present version."""
    present = await history.load(batch.stream)
    return await history.append(replace(batch, expected_version=present.version), now)


async def refusal(kind: type[Refusal], asked: Awaitable[object]) -> Refusal:
    """The error with which something is refused. Raises AssertionError when it is done instead."""
    try:
        given = await asked
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, was given {given!r}")
