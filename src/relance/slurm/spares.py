"""Conversations that were begun ahead: the other side has greeted and waits, so that a command goes out at once.

Beginning one costs a process here and two there, some tenths of a second on a busy host; a command may follow the read
of its job by less than a second. So while commands are asked, a few are kept ready, and none once nobody asks any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from relance.slurm.processes import Conversation, Heard, Manners, open_conversation

_READY = 3
"""A read and a look ask as many things at once."""
_GOOD_FOR_S = 30.0
"""An older one is ended: the other side waits for a minute at most."""


class Spares:
    """The conversations with one host that are ready, in one event loop."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], manners: Manners) -> None:
        """Take how one is begun; none is yet."""
        self._argv = argv
        self._environment = environment
        self._manners = manners
        self._ready: list[Conversation] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming = 0

    async def ask(self, request: Callable[[float, float], bytes], *, time_limit_s: float, max_bytes: int) -> Heard:
        """Ask one that is ready, or one that is begun now; as `Conversation.ask`."""
        ready = self._take()
        opened = ready or await open_conversation(self._argv, self._environment, self._manners)
        if isinstance(opened, Heard):
            return opened
        if ready is not None:
            self._fill()
        heard = await opened.ask(request, time_limit_s=time_limit_s, max_bytes=max_bytes)
        if heard.greeting is not None:
            self._fill()
        return heard

    async def drop(self) -> None:
        """End all that are ready or coming."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ready, self._ready = self._ready, []
        await asyncio.gather(*(each.drop() for each in ready))

    def _take(self) -> Conversation | None:
        """The newest that still waits; those that do not are ended beside."""
        while self._ready:
            found = self._ready.pop()
            if found.waits and found.age_s < _GOOD_FOR_S:
                return found
            self._start(found.drop())
        return None

    def _fill(self) -> None:
        for _ in range(_READY - len(self._ready) - self._coming):
            self._coming += 1
            self._start(self._begin())

    async def _begin(self) -> None:
        """Begin one, and keep it once it has greeted."""
        try:
            opened = await open_conversation(self._argv, self._environment, self._manners)
            if isinstance(opened, Heard):
                return
            is_kept = False
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GOOD_FOR_S):
                        is_kept = await opened.greeted()
            finally:
                if not is_kept:
                    await opened.drop()
            if is_kept:
                self._ready.append(opened)
                asyncio.get_running_loop().call_later(_GOOD_FOR_S, self._end_old)
        finally:
            self._coming -= 1

    def _end_old(self) -> None:
        old = [each for each in self._ready if not each.waits or each.age_s >= _GOOD_FOR_S]
        self._ready = [each for each in self._ready if each not in old]
        for each in old:
            self._start(each.drop())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_SPARES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Hashable, tuple[str, ...]], Spares]] = (
    WeakKeyDictionary()
)
"""By event loop, as a process belongs to the one that started it; then by host and the command that reaches it."""


def spares_of(way: tuple[Hashable, tuple[str, ...]], environment: Mapping[str, str], manners: Manners) -> Spares:
    """The conversations with a host, begun by this argument list, in this event loop."""
    known = _SPARES.setdefault(asyncio.get_running_loop(), {})
    if way not in known:
        known[way] = Spares(way[1], environment, manners)
    return known[way]


async def drop_spares(host: Hashable) -> None:
    """End all that are ready with a host in this event loop."""
    known = _SPARES.get(asyncio.get_running_loop(), {})
    for way in [each for each in known if each[0] == host]:
        await known.pop(way).drop()
