"""Where the history is kept: a database's URL, read and checked, and how it is named to people."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from relance.ports.histories import StorageUnusableError

FORMS: Final = "write sqlite:////folder/relance.db or mysql+pymysql://user:password@host:3306/database"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlitePlace:
    """A file on this machine."""

    path: Path

    def __str__(self) -> str:
        """The name in messages."""
        return f"database {self.path}"

    @property
    def lock_path(self) -> Path:
        """The file whose lock says that the database is taken."""
        return self.path.with_name(self.path.name + ".lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlPlace:
    """A database on a MySQL or MariaDB server."""

    url: URL = field(repr=False)

    def __str__(self) -> str:
        """The name in messages: no user, no password, no options."""
        port = f":{self.url.port}" if self.url.port else ""
        return f"database {self.url.database} on {self.url.host or 'localhost'}{port}"


def read_place(text: str) -> SqlitePlace | MysqlPlace:
    """The place that a URL names. Raises StorageUnusableError, whose text never repeats the URL."""
    try:
        url = make_url(text)
        kind = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise StorageUnusableError(f"the database URL cannot be read; {FORMS}") from None
    if kind == "sqlite":
        return _sqlite(url)
    if kind in ("mysql", "mariadb"):
        return _mysql(url)
    raise StorageUnusableError(f"{kind} is not a database that Relance can use; {FORMS}")


def _sqlite(url: URL) -> SqlitePlace:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:") or url.query:
        raise StorageUnusableError(
            "SQLite needs the plain path of a file, without options, because several connections share it; "
            "write sqlite:////folder/relance.db (four slashes: an absolute path)"
        )
    return SqlitePlace(path=Path(url.database).expanduser().resolve())


def _mysql(url: URL) -> MysqlPlace:
    if not url.database:
        raise StorageUnusableError(f"the database URL names a server but no database; {FORMS}")
    driver = url.drivername.partition("+")[2] or "pymysql"
    if driver not in ("pymysql", "mysqldb"):
        raise StorageUnusableError(f"the driver {driver} is not supported; {FORMS}")
    return MysqlPlace(url=url.set(drivername=f"mysql+{driver}").update_query_dict({"charset": "utf8mb4"}))
