"""Telling people by a command of the site, which gets each notice as JSON on its standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from relance.notifiers.payloads import payload
from relance.ports.notifiers import Notice, NotifierError

_SHOWN_BYTES = 400
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
"""What a command may know of our environment; not our settings, and no secret that may be in it."""


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
            await self._run(payload(notice))

    async def close(self) -> None:
        """Nothing is held between notices."""

    async def _run(self, data: bytes) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=_environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise NotifierError(f"{self._argv[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._time_limit_s):
                _, errors = await process.communicate(data)
        except TimeoutError as error:
            await _end(process)
            raise NotifierError(f"{self._argv[0]} took longer than {self._time_limit_s:g} s") from error
        except BaseException:
            await _end(process)
            raise
        if process.returncode:
            said = errors[-_SHOWN_BYTES:].decode(errors="replace").strip()
            raise NotifierError(f"{self._argv[0]} ended with exit code {process.returncode}: {said}")


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: ours[name] for name in _PASSED_ON if name in ours}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the command's whole session: a shell's children hold its pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
