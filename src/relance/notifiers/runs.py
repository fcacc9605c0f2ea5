"""Running a command of the site that is told something on its standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from relance.ports.notifiers import NotifierError

_SHOWN_BYTES = 400
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
"""What a command may know of our environment; not our settings, and no secret that may be in it."""


async def run(argv: Sequence[str], data: bytes, time_limit_s: float) -> None:
    """Run `argv`, an argument list, with `data` on its standard input.

    A run that takes longer than its limit is killed with all that it started. Raises NotifierError for that, for a
    command that cannot be run, and for one that ends with another exit code than 0.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise NotifierError(f"{argv[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(time_limit_s):
            _, errors = await process.communicate(data)
    except TimeoutError as error:
        await _end(process)
        raise NotifierError(f"{argv[0]} took longer than {time_limit_s:g} s") from error
    except BaseException:
        await _end(process)
        raise
    if process.returncode:
        said = errors[-_SHOWN_BYTES:].decode(errors="replace").strip()
        raise NotifierError(f"{argv[0]} ended with exit code {process.returncode}: {said}")


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: ours[name] for name in _PASSED_ON if name in ours}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the command's whole session: a shell's children hold its pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
