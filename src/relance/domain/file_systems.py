"""Which file system a path lies on, by its name alone: nobody who decides can look at the mounts of all nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_HOLDERS = frozenset({
    "auto", "fs", "g", "media", "misc", "mnt", "net", "nfs", "p", "shared", "vol", "volumes",
})  # fmt: skip
"""Folders at the root that hold mounts, and are none."""
_LOCAL = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)
"""Folders of the node itself."""
_PATH = re.compile(r"(?<![\w./-])/[\w.+@-]+(?:/[\w.+@-]+)+")
_LONGEST = 64


def file_system_of(path: str, known: Sequence[str] = ()) -> str:
    """The file system of an absolute path; empty where it cannot be told, or is the node's own.

    `known` are mount points as the site names them: the longest that fits counts. Else it is the first folder of the
    path, or the first two where the first one only holds mounts, such as `/mnt/data`.
    """
    fitting = [mount for mount in known if path == mount or path.startswith(f"{mount.rstrip('/')}/")]
    if fitting:
        return max(fitting, key=len)
    parts = [part for part in path.split("/") if part] if path.startswith("/") else []
    if not parts or parts[0] in _LOCAL:
        return ""
    depth = 2 if parts[0] in _HOLDERS else 1
    return ("/" + "/".join(parts[:depth]))[:_LONGEST] if len(parts) >= depth else ""


def file_systems_named(texts: Iterable[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """The file systems of the paths that lines of logs name, in their order."""
    found = (file_system_of(match[0], known) for text in texts for match in _PATH.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name))
