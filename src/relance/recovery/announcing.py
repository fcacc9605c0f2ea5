"""Tells people: follows the history and hands each notice to one way of telling. Each way follows at its own pace."""

from __future__ import annotations

import structlog

from relance.domain.records import Record
from relance.domain.streams import Recorded
from relance.ports.clocks import Clock
from relance.ports.histories import History, HistoryError
from relance.ports.notifiers import Notice, Notifier, NotifierError
from relance.recovery.letters import Telling
from relance.recovery.live import Bell
from relance.recovery.notices import notices_for

_PAGE = 200
_IDLE_S = 60.0
_AFTER_FAILURE_S = 5.0
_REMEMBERED = 10_000
_LOG = structlog.get_logger(__name__)


class Announcer:
    """Follows the history for one notifier. A notice that cannot be delivered is logged, and the next one follows."""

    def __init__(self, history: History, notifier: Notifier, clock: Clock, telling: Telling | None = None) -> None:
        """Follow `history` and tell by `notifier` what `telling` makes of it; default: what operators need."""
        self._telling = telling
        self._history = history
        self._notifier = notifier
        self._clock = clock
        self._bell = Bell()
        self._told: dict[str, None] = {}
        self.position = 0
        """Everything up to here was told; a start from here tells nothing twice and leaves nothing out."""
        history.subscribe(self._heard)

    async def run(self, after: int | None = None) -> None:
        """Tell what comes after a position until cancelled; None, or one of another database: after the newest."""
        head = await self._history.head()
        self.position = head if after is None else min(after, head)
        while True:
            try:
                told = await self.turn()
            except HistoryError as error:
                _LOG.warning("cannot follow the history", error=str(error))
                await self._clock.sleep(_AFTER_FAILURE_S)
                continue
            if not told:
                await self._bell.wait(self.position, _IDLE_S)

    async def turn(self) -> int:
        """Tell one page of what is new; gives how many events it had. Raises HistoryError."""
        page = await self._history.follow(self.position, _PAGE)
        for recorded in page:
            await self._tell(recorded)
            self.position = recorded.position
        return len(page)

    async def _tell(self, recorded: Recorded) -> None:
        record = (await self._history.load(recorded.stream)).record
        for notice in await self._notices(recorded, record):
            if notice.id in self._told:
                continue
            self._told[notice.id] = None
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
            try:
                await self._notifier.notify(notice)
            except NotifierError as error:
                _LOG.warning("notice not delivered", notice=notice.id, kind=notice.kind.value, error=str(error))

    async def _notices(self, recorded: Recorded, record: Record) -> tuple[Notice, ...]:
        return notices_for(recorded, record) if self._telling is None else await self._telling(recorded, record)

    def _heard(self, recorded: tuple[Recorded, ...]) -> None:
        if recorded:
            self._bell.ring(recorded[-1].position)
