from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError

from relance.storage.writers import Writer


class RefusedError(Exception):
    pass


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path / 'a.db'}")

    @event.listens_for(made, "connect")
    def _on_connect(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None

    @event.listens_for(made, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with made.begin() as connection:
        connection.execute(text("CREATE TABLE t (x PRIMARY KEY)"))
    yield made
    made.dispose()


@pytest.fixture
def commits(engine: Engine) -> list[int]:
    counted: list[int] = []
    event.listen(engine, "commit", lambda _: counted.append(1))
    return counted


@pytest.fixture
def writer(engine: Engine) -> Iterator[Writer]:
    made = Writer(engine)
    yield made
    made.close()


def put(value: int) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": value})
        return value

    return work


def put_and_refuse(connection: Connection) -> None:
    connection.execute(text("INSERT INTO t VALUES (99)"))
    raise RefusedError


def fail(connection: Connection) -> None:
    connection.execute(text("INSERT INTO nowhere VALUES (1)"))


def together(writer: Writer, *works: Callable[[Connection], Any]) -> list[Future[Any]]:
    """Submit works while the writer is kept busy, so that all of them are waiting when it comes to them."""
    go_on = threading.Event()
    blocker = writer.submit(lambda _: go_on.wait(60))
    futures = [writer.submit(work) for work in works]
    go_on.set()
    blocker.result(60)
    return futures


def stored(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT x FROM t ORDER BY x")))


def test_what_waits_together_is_committed_together(writer: Writer, engine: Engine, commits: list[int]) -> None:
    futures = together(writer, *(put(number) for number in range(10)))
    assert [future.result(60) for future in futures] == list(range(10))
    assert stored(engine) == list(range(10))
    assert len(commits) == 2  # the one that kept it busy, and the ten


def test_what_is_refused_is_rolled_back_alone(writer: Writer, engine: Engine) -> None:
    first, refused, last = together(writer, put(1), put_and_refuse, put(2))
    assert (first.result(60), last.result(60)) == (1, 2)
    with pytest.raises(RefusedError):
        refused.result(60)
    assert stored(engine) == [1, 2]


def test_after_an_error_of_the_database_each_is_tried_alone(writer: Writer, engine: Engine, commits: list[int]) -> None:
    first, failed, last = together(writer, put(1), fail, put(2))
    assert (first.result(60), last.result(60)) == (1, 2)
    with pytest.raises(OperationalError):
        failed.result(60)
    assert stored(engine) == [1, 2]
    assert len(commits) == 3


def test_what_nobody_waits_for_any_more_is_not_begun(writer: Writer, engine: Engine) -> None:
    go_on = threading.Event()
    writer.submit(lambda _: go_on.wait(60))
    unwanted, wanted = writer.submit(put(1)), writer.submit(put(2))
    assert unwanted.cancel()
    go_on.set()
    assert wanted.result(60) == 2
    assert stored(engine) == [2]


def test_the_commit_is_told_before_the_result_is_given(writer: Writer, engine: Engine) -> None:
    told: list[tuple[int, list[int]]] = []
    future = writer.submit(put(1), lambda value: told.append((value, stored(engine))))
    assert future.result(60) == 1
    assert told == [(1, [1])]


def test_closed_it_has_finished_what_waited(engine: Engine) -> None:
    writer = Writer(engine)
    futures = [writer.submit(put(number)) for number in range(5)]
    writer.close()
    writer.close()
    assert [future.result(0) for future in futures] == list(range(5))
