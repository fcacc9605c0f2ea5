"""The schema of the database: made, or brought up to this program, before anything else is done with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from relance.ports.histories import StorageUnusableError

REVISION: Final = "0001"
"""The newest revision in `migrations/versions`; a test holds the two together."""
MIGRATIONS: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "relance_schema"


def migrate(connection: Connection, place: object) -> None:
    """Bring the database to `REVISION`, in the transaction that `connection` is in.

    Raises StorageUnusableError for a database that is newer than this program, or holds something else.
    """
    present = _revision(connection, place)
    if present == REVISION:
        return
    # Alembic takes a third of a second to import, which a database that is up to date need not pay.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present is not None and present not in known:
        raise StorageUnusableError(
            f"{place} was written by a newer Relance (schema {present}; this program knows up to {REVISION}): "
            "install the newer release again, or restore the backup from before the upgrade; nothing was changed"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, REVISION)


def _revision(connection: Connection, place: object) -> str | None:
    """The revision that the database is at; None for an empty one."""
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        revision: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
        return revision
    if tables:
        raise StorageUnusableError(f"{place} holds the tables of another program: name a database of Relance's own")
    return None
