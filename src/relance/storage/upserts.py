"""Insert or replace, insert or leave: the one thing that SQLite and MySQL spell differently."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import mysql, sqlite

Values = Mapping[str, Any]


def put(connection: Connection, table: Table, *rows: Values) -> None:
    """Write rows; each takes the place of the one with the same primary key."""
    if rows:
        connection.execute(_replacing(connection.dialect.name, table), list(rows))


def put_once(connection: Connection, table: Table, *rows: Values) -> None:
    """Write the rows whose primary or unique key is not there yet."""
    if rows:
        connection.execute(_leaving(connection.dialect.name, table), list(rows))


@cache
def _replacing(dialect: str, table: Table) -> Insert:
    others = [column.name for column in table.columns if not column.primary_key]
    if dialect == "sqlite":
        statement = sqlite.insert(table)
        return statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={name: statement.excluded[name] for name in others}
        )
    insert = mysql.insert(table)
    return insert.on_duplicate_key_update({name: insert.inserted[name] for name in others})


@cache
def _leaving(dialect: str, table: Table) -> Insert:
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    insert = mysql.insert(table)
    kept = next(iter(table.primary_key)).name  # IGNORE would also swallow other errors
    return insert.on_duplicate_key_update({kept: table.c[kept]})
