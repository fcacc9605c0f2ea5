"""What our own account may do on the cluster, from accounting."""

from __future__ import annotations

from relance.controllers.slurm.fitness import Rights
from relance.slurm.errors import BadArgumentError, UnreadableError

_LEVELS = {"None": "none", "Operator": "operator", "Administrator": "administrator"}
_COLUMNS = 3


def question(user: str) -> tuple[str, ...]:
    """The command that asks for the admin level of a user and the accounts that it coordinates.

    Raises BadArgumentError for a name that is not fit for a command.
    """
    if not user or not all(sign.isascii() and (sign.isalnum() or sign in "._-") for sign in user) or user[0] == "-":
        raise BadArgumentError(f"Not the name of a user: {user[:80]!r}.", text=user[:200])
    return (
        "sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "user", f"name={user}", "withcoord",
        "format=User,AdminLevel,Coordinators",
    )  # fmt: skip


def parse(output: bytes, user: str, uid: int) -> Rights:
    """The rights in the answer; a user that accounting does not know has none. Raises UnreadableError."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line]
    if not lines:
        return Rights(user=user, uid=uid, admin_level="none", is_known=False)
    cells = lines[0].split("|")
    if len(lines) != 1 or len(cells) != _COLUMNS or cells[0] != user or cells[1] not in _LEVELS:
        raise UnreadableError(f"The rights of {user} cannot be read.", text=lines[0][:200])
    accounts = tuple(account for account in cells[2].split(",") if account)
    return Rights(user=user, uid=uid, admin_level=_LEVELS[cells[1]], coordinates=accounts)
