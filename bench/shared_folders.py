"""A file system of our own that can be lost and come back: a mount in memory that turns read-only."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_TRY_S = 0.02
_TRIES = 500


class SharedFolder:
    """Mounted while this context lasts. Needs root.

    Args:
        folder: Where it is mounted; made if it is missing. Everybody may enter it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        _must("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "relance-bench", str(self.folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def lose(self) -> None:
        """From now on whoever writes gets EROFS, as after an error of the disks behind it."""
        self._remount("ro")

    def bring_back(self) -> None:
        """It can be written to again; what was in it is there."""
        self._remount("rw")

    def _remount(self, how: str) -> None:
        """The kernel refuses while a file is open for writing, which in a busy folder some file may be."""
        for _ in range(_TRIES):
            done = subprocess.run(
                ["mount", "-o", f"remount,{how}", str(self.folder)], check=False, capture_output=True, text=True
            )
            if done.returncode == 0:
                return
            time.sleep(_TRY_S)
        raise OSError(f"remounting {self.folder} {how} failed {_TRIES} times: {done.stderr.strip()}")


def _must(*argv: str) -> None:
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")
