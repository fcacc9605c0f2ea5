"""The user's cache folder: `$XDG_CACHE_HOME/relance`, else `~/.cache/relance`.

What is in it decides what code does (a compiled database is run as it is), so only what this user alone can have
written is taken from it: folder and file belong to the user, nobody else may write to them, and each file begins with
the hash of what follows. Whatever else goes wrong, a full disk or a folder that cannot be made, costs the time that the
cache would have saved and nothing more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_FILES: Final = 40
"""Older ones go: each change of a rule makes a new one."""
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_HASH_BYTES: Final = hashlib.sha256().digest_size


def default_cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where the user's cache is."""
    env = os.environ if environment is None else environment
    if base := env.get("XDG_CACHE_HOME"):
        return Path(base) / "relance"
    try:
        return Path(env.get("HOME") or "~").expanduser() / ".cache" / "relance"
    except RuntimeError:  # a service without a home has no cache: nothing is there, and nothing can be made there
        return Path(os.devnull) / "relance"


class FolderCache:
    """Keeps files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        try:
            if not self._is_ours():
                return None
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with open(handle, "rb") as file:  # noqa: PTH123 - a file that is open already
                about = os.fstat(handle)
                if not stat.S_ISREG(about.st_mode) or not _only_ours(about) or about.st_size > _MOST_BYTES:
                    return None
                kept = file.read(_MOST_BYTES + 1)
        except OSError:
            return None
        data = kept[_HASH_BYTES:]
        return data if hashlib.sha256(data).digest() == kept[:_HASH_BYTES] else None

    def put(self, name: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(data) + _HASH_BYTES > _MOST_BYTES or not self._is_ours():
                return
            handle, path = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with open(handle, "wb") as file:  # noqa: PTH123 - a file that is open already
                    file.write(hashlib.sha256(data).digest() + data)
                Path(path).replace(self._folder / name)
            except OSError:
                Path(path).unlink(missing_ok=True)
                raise
            self._tidy()

    def _is_ours(self) -> bool:
        about = self._folder.lstat()
        return stat.S_ISDIR(about.st_mode) and _only_ours(about)

    def _tidy(self) -> None:
        """Leave the newest files, and nothing half written."""
        files = sorted(self._folder.iterdir(), key=lambda file: file.lstat().st_mtime, reverse=True)
        for file in files[_MOST_FILES:]:
            file.unlink(missing_ok=True)


def _only_ours(about: os.stat_result) -> bool:
    return about.st_uid == os.geteuid() and not about.st_mode & _OTHERS_WRITE
