"""The spool: what the watchdog did and would have done, a file each, on the disk before its command goes out.

The controller takes it from there into the history, and renames what the server has (`relance.domain.deeds`). The
watchdog reads it back: what it did before is what its limits count, also after it was killed.
"""

from __future__ import annotations

import contextlib
import os
from datetime import datetime, timedelta
from pathlib import Path

from relance.domain.deeds import DEED_SUFFIX, SPOOL_FOLDER, TOLD_SUFFIX, WatchdogDeed, deed_text, read_deed

MOST_DEEDS = 1000
"""More are not kept: with so many that nobody has taken, nothing is done any more."""
KEEP = timedelta(days=30)
"""What the server has is kept this long, for the limit of requeues of one job."""
_NEW_SUFFIX = ".new"
_LARGEST_BYTES = 64 << 10


class SpoolUnusableError(Exception):
    """The spool cannot be read or written, or is full: then nothing is done. Says what to do."""


class Spool:
    """The spool of one cluster's watchdog, which alone writes to it."""

    def __init__(self, folder: Path) -> None:
        """Take the controller's folder; nothing is touched before the first `open`."""
        self.folder = folder / SPOOL_FOLDER
        self.deeds: dict[str, WatchdogDeed] = {}
        """By id; what `read` found, and what was written since."""
        self._untold: set[str] = set()

    @property
    def untold(self) -> int:
        """How many deeds the server does not have yet."""
        return len(self._untold)

    def read(self, now: datetime) -> None:
        """Read all that is there, and drop what is old. Raises SpoolUnusableError."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            names = sorted(path.name for path in self.folder.iterdir() if path.suffix in (DEED_SUFFIX, TOLD_SUFFIX))
            found = {name: self.deeds.get(Path(name).stem) or self._deed(Path(name).stem) for name in names}
        except OSError as error:
            raise SpoolUnusableError(f"{self.folder} cannot be used: {error.strerror}") from error
        self._untold = {Path(name).stem for name in found if name.endswith(DEED_SUFFIX)}
        self.deeds = {deed.id: deed for deed in found.values()}
        told = sorted((deed.at, name) for name, deed in found.items() if name.endswith(TOLD_SUFFIX))
        surplus = len(found) - MOST_DEEDS // 2
        for place, (at, name) in enumerate(told):
            if place < surplus or now - at > KEEP:
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()
                self.deeds.pop(Path(name).stem, None)

    def write(self, deed: WatchdogDeed) -> None:
        """Put a deed on the disk, over what was said of it before. Raises SpoolUnusableError; then it is not there."""
        if deed.id not in self.deeds and self.untold >= MOST_DEEDS:
            raise SpoolUnusableError(f"{self.folder} is full: {self.untold} deeds that no controller has taken")
        place = self.folder / f"{deed.id}{DEED_SUFFIX}"
        new = place.with_suffix(_NEW_SUFFIX)
        try:
            number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(number, "wb") as file:
                file.write(deed_text(deed).encode("ascii"))
                file.flush()
                os.fsync(number)
            new.replace(place)
            self._sync()
        except OSError as error:
            raise SpoolUnusableError(f"{place} cannot be written: {error.strerror}") from error
        self.deeds[deed.id] = deed
        self._untold.add(deed.id)

    def _deed(self, stem: str) -> WatchdogDeed:
        """A deed from its file, which the controller may just be renaming."""
        path = self.folder / f"{stem}{DEED_SUFFIX}"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            path = path.with_suffix(TOLD_SUFFIX)
            data = path.read_bytes()
        deed = read_deed(data[:_LARGEST_BYTES].decode("utf-8", "replace"))
        if deed is None or deed.id != stem:
            raise SpoolUnusableError(f"{path} cannot be understood: move it away; until then nothing is done")
        return deed

    def _sync(self) -> None:
        number = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)
