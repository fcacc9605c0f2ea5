"""Which file systems are reached over a network, by the kernel's table of mounts."""

from __future__ import annotations

import os
from pathlib import Path

_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "panfs", "smb3", "wekafs",
})  # fmt: skip
_TABLE = Path("/proc/self/mountinfo")


def network_devices(table: str) -> frozenset[int]:
    """The device numbers in a `mountinfo` table whose file system is a network's, or one in user space."""
    found = set()
    for line in table.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split(" ", 1)[0]
        if len(fields) > 2 and (kind in _NETWORK or kind.startswith("fuse")):  # noqa: PLR2004 - id, parent, device
            major, _, minor = fields[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def read_network_devices() -> frozenset[int]:
    """The devices of this machine's network file systems; empty where the kernel does not tell."""
    try:
        return network_devices(_TABLE.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return frozenset()
