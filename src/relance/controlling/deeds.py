"""The watchdog's spool as the controller reads it: what it did is handed to the server, and never done again.

The watchdog writes a deed before its command goes out. So what a look shows of it is in the spool when the spool is
read after the look; and a requeue of ours waits for one of the watchdog's that may be under way (design 11).
"""

from __future__ import annotations

from pathlib import Path

from relance.domain.deeds import (
    DEED_SUFFIX,
    SPOOL_FOLDER,
    TOLD_SUFFIX,
    DeedState,
    WatchdogDeed,
    read_deed,
    under_way,
)
from relance.domain.keys import AttemptKey
from relance.ports.backends import Backend, BackendRefusedError
from relance.ports.clocks import Clock


class Deeds:
    """One cluster's spool, as far as it is not told yet."""

    def __init__(self, backend: Backend, folder: Path, clock: Clock) -> None:
        """Take the controller's folder; where no watchdog ever ran there is no spool."""
        self._backend = backend
        self._folder = folder / SPOOL_FOLDER
        self._clock = clock
        self._told: dict[str, DeedState] = {}

    async def flush(self) -> str:
        """Tell the server what is new; gives what is wrong, empty when nothing is. Raises BackendUnavailableError."""
        try:
            paths = sorted(self._folder.glob(f"*{DEED_SUFFIX}"))
        except OSError as error:
            return f"the watchdog's spool {self._folder} cannot be read: {error.strerror}"
        problems = [await self._tell(path) for path in paths]
        return "; ".join(problem for problem in problems if problem)

    def in_the_way(self, attempt: AttemptKey) -> str:
        """Why a requeue of this attempt waits; empty when the watchdog is not about to requeue or release it.

        A folder that cannot be read is taken for such a deed; a file that cannot be understood is none, as the watchdog
        itself does nothing beside one.
        """
        try:
            found = [_deed(path) for path in self._folder.glob(f"*{DEED_SUFFIX}")]
        except OSError as error:
            return f"the watchdog's spool {self._folder} cannot be read: {error.strerror}"
        deed = under_way((item for item in found if item is not None), attempt, self._clock.now())
        return "" if deed is None else f"the watchdog's {deed.verb.value} of it may be under way"

    async def _tell(self, path: Path) -> str:
        """Hand over one deed. One that the server refuses will not be taken the next time either: it counts as told."""
        try:
            deed = _deed(path)
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if deed is None:
            return f"{path} cannot be understood: what the watchdog did there is not in the history"
        problem = ""
        if self._told.get(deed.id) is not deed.state:
            try:
                await self._backend.record_deed(deed)
            except BackendRefusedError as error:
                problem = f"the server refuses deed {deed.id} of the watchdog: {error}"
            self._told[deed.id] = deed.state
        if deed.state.is_final:
            del self._told[deed.id]
            return problem or _mark_told(path)
        return problem


def _mark_told(path: Path) -> str:
    try:
        path.replace(path.with_suffix(TOLD_SUFFIX))
    except OSError as error:
        return f"{path} cannot be renamed: {error.strerror}"
    return ""


def _deed(path: Path) -> WatchdogDeed | None:
    return read_deed(path.read_text(encoding="utf-8", errors="replace"))
