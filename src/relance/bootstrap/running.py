"""Running roles together in one process until a signal ends them, or one of them fails."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog
import uvloop

from relance.bootstrap.allocators import give_back_early

_LOG = structlog.get_logger(__name__)
_GRACE_S = 10.0

Role = Coroutine[Any, Any, None]


class RoleEndedError(RuntimeError):
    """A role that should run for ever came to an end."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a program on a fast event loop. KeyboardInterrupt ends it quietly."""
    give_back_early()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(main())


async def run_roles(roles: dict[str, Role], close: tuple[Callable[[], Awaitable[None]], ...]) -> None:
    """Run roles until SIGTERM or SIGINT; then cancel them and close what they used, in order.

    When one role ends or fails, the others are ended too and its error is raised: half a program helps nobody.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gc.collect()
    gc.freeze()  # what start-up made lives as long as the process: no need to look at it again
    tasks = {asyncio.create_task(role, name=name) for name, role in roles.items()}
    stopping = asyncio.create_task(stop.wait(), name="signal")
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in {*tasks, stopping}:
            task.cancel()
        await asyncio.wait({*tasks, stopping}, timeout=_GRACE_S)
        for step in close:
            with contextlib.suppress(asyncio.CancelledError):
                await step()
    for task in done - {stopping}:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _LOG.error("role failed", role=task.get_name(), error=str(error))
            raise error
        message = f"{task.get_name()} came to an end"
        raise RoleEndedError(message)
