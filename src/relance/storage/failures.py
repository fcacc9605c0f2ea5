"""What went wrong in the database, in a plain sentence with its remedy, or that trying again is the remedy."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DBAPIError

from relance.ports.histories import StorageUnusableError

NOTHING_LOST: Final = "nothing was half-written and what was stored before is unharmed"

_DEADLOCK: Final = frozenset({1213, 1205, 1020})
"""Deadlock, lock wait time-out, row changed since it was read: the transaction is over and may be tried again."""
_CONNECTION_LOST: Final = frozenset({2006, 2013, 2014, 2055, 1053, 1152, 1158, 1159, 1160, 1161, 1927, 4031})
"""Gone away, lost during query, server shutting down, aborted, network errors, killed."""

_SQLITE: Final = (
    (
        "SQLITE_BUSY",
        "is locked by another process: end it, or wait until it is done (a backup, a shell), and try again",
    ),
    ("SQLITE_LOCKED", "is locked by another connection: end the other program that has it open, and try again"),
    ("SQLITE_FULL", "cannot grow because the disk is full: free some space and start again"),
    ("SQLITE_READONLY", "is read-only for this account: give it the right to write to the file and its folder"),
    ("SQLITE_CORRUPT", "is damaged: stop Relance, keep a copy, and restore a backup (or try `sqlite3 FILE .recover`)"),
    ("SQLITE_NOTADB", "is not an SQLite database: name another file, or restore a backup"),
    ("SQLITE_CANTOPEN", "cannot be opened: see that its folder exists and that this account may write to it"),
    ("SQLITE_IOERR", "cannot be read or written because its disk reports errors: look at the kernel log and the disk"),
    ("SQLITE_PERM", "may not be used by this account: give it the right to write to the file and its folder"),
)
_NO_CONNECTION: Final = {
    1040: "has too many connections: raise max_connections on the server, or stop a program that uses it",
    1044: "may not be used by this account: GRANT ALL ON the database TO the account",
    1045: "refused the account or its password: correct user and password in the URL",
    1049: "does not exist: CREATE DATABASE it on the server",
    1130: "does not let this machine connect: allow the account from this host",
    1698: "refused the account or its password: correct user and password in the URL",
    2002: "cannot be reached: start the server, or correct the address in the URL",
    2003: "cannot be reached: start the server, or correct the address in the URL",
    2005: "cannot be reached because its host name is unknown: correct the address in the URL",
}
_MYSQL: Final = {
    1021: "cannot grow because the server's disk is full: free some space there",
    1030: "cannot be written because the server's disk reports an error (28 means full): look at the server's log",
    1034: "has a damaged table: look at the server's log and restore a backup",
    1114: "cannot grow because the server's disk or tablespace is full: free some space there",
    1142: "does not let this account do what is needed: GRANT ALL ON the database TO the account",
    1153: "refused a statement as too long: raise max_allowed_packet on the server to 64 MiB",
    1290: "is read-only: name the primary server, or end its read-only mode",
    1665: "logs statements, which this isolation does not allow: set binlog_format to ROW or MIXED on the server",
    1836: "is read-only: name the primary server, or end its read-only mode",
}


class RaceLostError(Exception):
    """Another transaction made the same row first: trying again finds it there."""


def passes(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when it is simply tried again.

    After a lost connection that is safe as well: an append that was in fact stored has moved its stream's version, so
    that the second try is a conflict and never a second copy.
    """
    return error.connection_invalidated or _code(error) in _DEADLOCK | _CONNECTION_LOST


def unusable(error: DBAPIError, place: object) -> StorageUnusableError:
    """The sentence for people. It names the place and the remedy, and never an account or password."""
    name, code = getattr(error.orig, "sqlite_errorname", None), _code(error)
    if code in _NO_CONNECTION:
        return StorageUnusableError(f"{place} {_NO_CONNECTION[code]}")
    if name is not None:
        known = next((text for prefix, text in _SQLITE if name.startswith(prefix)), None)
    else:
        known = _MYSQL.get(code)
    if known is not None:
        return StorageUnusableError(f"{place} {known}; {NOTHING_LOST}")
    if passes(error):
        return StorageUnusableError(f"{place} gave up several times ({_words(error)}): try again; {NOTHING_LOST}")
    return StorageUnusableError(f"{place} cannot be used: {_words(error)}; {NOTHING_LOST}")


def _code(error: DBAPIError) -> int:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def _words(error: DBAPIError) -> str:
    arguments = getattr(error.orig, "args", ())
    return str(arguments[-1]) if arguments else type(error.orig).__name__
