"""The feed of history over server-sent events: each message says that something has news, never what.

A stream holds a position and reads a page of events when its client has taken the last one, so a slow client costs one
page and holds up nobody. `Last-Event-ID` is the position: a client that comes again misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from relance.domain.streams import Recorded
from relance.ports.backends import BackendUnavailableError
from relance.ports.histories import HistoryError
from relance.serving.parts import ServerParts
from relance.serving.problems import TOO_MANY_STREAMS, ProblemError

_PAGE = 200


class Feeds:
    """Opens streams, and no more than the site allows."""

    def __init__(self, parts: ServerParts) -> None:
        """Begin with no stream open."""
        self._parts = parts
        self._open = 0

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._open

    async def stream(self, after: int | None) -> EventSourceResponse:
        """A stream of what comes after a position; None: after the newest. Raises ProblemError when there are too many.

        A position that the history has not reached (another database) is taken as the newest.
        """
        if self._open >= self._parts.web.streams:
            raise ProblemError(TOO_MANY_STREAMS)
        head = await self._parts.history.head()
        start = head if after is None else min(after, head)
        return EventSourceResponse(
            self._messages(start), ping=self._parts.web.ping_s, send_timeout=2 * self._parts.web.ping_s, sep="\n"
        )

    async def _messages(self, position: int) -> AsyncIterator[ServerSentEvent]:
        self._open += 1
        try:
            yield ServerSentEvent(event="ready", id=str(position), data="{}", retry=2000)
            while True:
                page = await self._parts.history.follow(position, _PAGE)
                for recorded in page:
                    position = recorded.position
                    yield nudge(recorded)
                if not page:
                    await self._parts.backend.wait(position, self._parts.web.ping_s)
        except (HistoryError, BackendUnavailableError):
            return  # the client comes again with its last position
        finally:
            self._open -= 1


def nudge(recorded: Recorded) -> ServerSentEvent:
    """The message for one event: where it is, and which incident it belongs to."""
    about = {
        "position": recorded.position,
        "stream": str(recorded.stream),
        "version": recorded.version,
        "event": type(recorded.event).__name__,
        "incident_id": getattr(recorded.event, "incident_id", None),
    }
    return ServerSentEvent(event="recorded", id=str(recorded.position), data=json.dumps(about))
