"""A place of its own that is entered by a prefix, as a container is: a mount namespace, without images or networks.

It needs nothing but util-linux, and root. What enters it hands no environment on, as `kubectl exec` does not.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_START_S = 30.0


class NoPlaceError(Exception):
    """This machine lets us make no place of its own."""


@contextlib.contextmanager
def closed_place(as_account: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """The prefix that enters a new place as an account (see `ssh_servers.as_account`), until the end of the block.

    Raises NoPlaceError.
    """
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise NoPlaceError("unshare and nsenter are not on this machine: install util-linux")
    holder = subprocess.Popen(
        ["unshare", "--mount", "--", "sh", "-c", "echo there; exec sleep infinity"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if holder.stdout is None or holder.stdout.readline() != "there\n":
            raise NoPlaceError(f"no place of its own can be made here: {holder.communicate(timeout=_START_S)[1]}")
        enter = ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--")
        yield (*enter, "env", "-i", f"PATH={_PATH}", *as_account)
    finally:
        holder.kill()
        holder.communicate()
