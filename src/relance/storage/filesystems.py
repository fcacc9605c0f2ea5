"""On which kind of file system a path lies. SQLite's locks and shared memory do not work over a network."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final

UNKNOWN: Final = "unknown"

OVER_A_NETWORK: Final = frozenset({
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"),
    *("nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "quobyte", "smb3", "smbfs", "vboxsf"),
    *("virtiofs", "wekafs", "acfs", "mmfs", "fhgfs", "beegfs_nodev", "daos", "vastnfs"),
    *("fuse.beegfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.cephfs", "fuse.curlftpfs", "fuse.davfs2", "fuse.dfuse"),
    *("fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.JuiceFS", "fuse.lizardfs", "fuse.moosefs"),
    *("fuse.mfs", "fuse.quobyte", "fuse.rclone", "fuse.s3fs", "fuse.seaweedfs", "fuse.sshfs", "fuse.vmhgfs-fuse"),
    *("fuse.mount-s3", "fuse.blobfuse", "fuse.blobfuse2"),
})  # fmt: skip
"""Types, as /proc/self/mountinfo names them, that several machines can have mounted at once."""

_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that holds `path` (which need not exist yet); `unknown` where it cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return UNKNOWN
    wanted = PurePosixPath(path.resolve())
    found, depth = UNKNOWN, -1
    for line in lines:
        mount_point, kind = _mount(line)
        parts = len(mount_point.parts)
        if parts >= depth and wanted.is_relative_to(mount_point):  # a later mount hides an earlier one
            found, depth = kind, parts
    return found


def _mount(line: str) -> tuple[PurePosixPath, str]:
    """Mount point and type of a line: `id parent dev root POINT options… - TYPE source options` (proc(5))."""
    before, _, after = line.partition(" - ")
    point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), before.split(" ")[4])
    return PurePosixPath(point), after.split(" ")[0]
