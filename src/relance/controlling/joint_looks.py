"""One look at the cluster for all who ask at the same time: many transactions at once may not be many looks at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from relance.domain.views import ClusterReport


class JointLook:
    """Shares looks. Everybody gets one that began after they asked, which is what a guard against copies needs."""

    def __init__(self, look: Callable[[], Awaitable[ClusterReport]]) -> None:
        """Take how it is looked; nothing is under way."""
        self._look = look
        self._now: asyncio.Task[ClusterReport] | None = None
        self._next: asyncio.Task[ClusterReport] | None = None

    async def look(self) -> ClusterReport:
        """A look that begins after this call; whoever gives up waiting leaves it to the others.

        Raises what the look raises.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now), name="look")
            self._next.add_done_callback(_taken)
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[ClusterReport] | None) -> ClusterReport:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._now, self._next = self._next, None
        return await self._look()


def _taken(task: asyncio.Task[ClusterReport]) -> None:
    """Nobody may be waiting any more; then its error is nobody's."""
    if not task.cancelled():
        task.exception()
