"""Conversations that are kept: whoever has answered greets again, and is asked the next thing at once.

Beginning one costs a process here and three there, some tenths of a second on a busy host; a command may follow the
read of its job by less than a second, and a queue may be looked at several times a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from weakref import WeakKeyDictionary

from relance.slurm.processes import Conversation, Heard, Manners, open_conversation

_GOOD_FOR_S = 30.0
"""One that was not asked for so long is ended: the other side waits for a minute at most."""
_MOST = 6
"""So many are kept; what is asked beside them gets one of its own. sshd serves ten on a connection by default."""


class Sessions:
    """The conversations with one host that wait to be asked, in one event loop."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], manners: Manners) -> None:
        """Take how one is begun; none is yet."""
        self._argv = argv
        self._environment = environment
        self._manners = manners
        self._waiting: list[Conversation] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, request: Callable[[float, float], bytes], *, time_limit_s: float, max_bytes: int) -> Heard:
        """Ask one that waits, or one that is begun now; as `Conversation.ask`."""
        opened = self._take() or await open_conversation(self._argv, self._environment, self._manners)
        if isinstance(opened, Heard):
            return opened
        heard = await opened.ask(request, time_limit_s=time_limit_s, max_bytes=max_bytes)
        if opened.lives and len(self._waiting) < _MOST:
            self._waiting.append(opened)
            asyncio.get_running_loop().call_later(_GOOD_FOR_S, self._end_old)
        else:
            self._end(opened)
        return heard

    async def drop(self) -> None:
        """End all that wait."""
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*self._ending, *(each.drop() for each in waiting))

    def _take(self) -> Conversation | None:
        """The one that was asked last; those that ended are put away."""
        while self._waiting:
            found = self._waiting.pop()
            if found.lives and found.age_s < _GOOD_FOR_S:
                return found
            self._end(found)
        return None

    def _end_old(self) -> None:
        old = [each for each in self._waiting if not each.lives or each.age_s >= _GOOD_FOR_S]
        self._waiting = [each for each in self._waiting if each not in old]
        for each in old:
            self._end(each)

    def _end(self, conversation: Conversation) -> None:
        ending: Coroutine[None, None, None] = conversation.drop()
        task = asyncio.get_running_loop().create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


_SESSIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Hashable, tuple[str, ...]], Sessions]] = (
    WeakKeyDictionary()
)
"""By event loop, as a process belongs to the one that started it; then by host and the command that reaches it."""


def sessions_of(way: tuple[Hashable, tuple[str, ...]], environment: Mapping[str, str], manners: Manners) -> Sessions:
    """The conversations with a host, begun by this argument list, in this event loop."""
    known = _SESSIONS.setdefault(asyncio.get_running_loop(), {})
    if way not in known:
        known[way] = Sessions(way[1], environment, manners)
    return known[way]


async def drop_sessions(host: Hashable) -> None:
    """End all that wait with a host in this event loop."""
    known = _SESSIONS.get(asyncio.get_running_loop(), {})
    for way in [each for each in known if each[0] == host]:
        await known.pop(way).drop()
