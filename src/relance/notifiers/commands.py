"""Telling people by a command of the site, which gets each notice as JSON on its standard input."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from relance.notifiers.payloads import payload
from relance.notifiers.runs import run
from relance.ports.notifiers import Notice


class CommandNotifier:
    """Implements `relance.ports.notifiers.Notifier` by running a command, one notice at a time."""

    def __init__(self, argv: Sequence[str], time_limit_s: float = 30.0) -> None:
        """Run `argv`, an argument list; a run that takes longer than its limit is killed with all that it started."""
        if not argv:
            message = "the command of a notifier may not be empty"
            raise ValueError(message)
        self._argv = tuple(argv)
        self._time_limit_s = time_limit_s
        self._turn = asyncio.Lock()

    async def notify(self, notice: Notice) -> None:
        async with self._turn:
            await run(self._argv, payload(notice), self._time_limit_s)

    async def close(self) -> None:
        """Nothing is held between notices."""
