from __future__ import annotations

import sqlite3

import pymysql
import pytest
from sqlalchemy.exc import OperationalError

from relance.storage.failures import passes, unusable

PLACE = "database relance on db.example"


def sqlite_failure(name: str) -> OperationalError:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorname = name
    return OperationalError("INSERT …", {"secret": "s3cret"}, error, hide_parameters=True)


def mysql_failure(code: int, words: str = "words", *, lost: bool = False) -> OperationalError:
    error = pymysql.err.OperationalError(code, words)
    return OperationalError("INSERT …", {}, error, hide_parameters=True, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SQLITE_BUSY", "locked by another process"),
        ("SQLITE_BUSY_RECOVERY", "locked by another process"),
        ("SQLITE_FULL", "disk is full"),
        ("SQLITE_READONLY_DBMOVED", "read-only"),
        ("SQLITE_CORRUPT_INDEX", "damaged"),
        ("SQLITE_NOTADB", "not an SQLite database"),
        ("SQLITE_CANTOPEN", "cannot be opened"),
        ("SQLITE_IOERR_FSYNC", "disk reports errors"),
        ("SQLITE_PERM", "may not be used by this account"),
    ],
)
def test_a_failure_of_a_file_is_a_sentence_with_its_remedy(name: str, says: str) -> None:
    sentence = str(unusable(sqlite_failure(name), PLACE))
    assert sentence.startswith(PLACE)
    assert says in sentence
    assert ": " in sentence
    assert "nothing was half-written" in sentence
    assert "s3cret" not in sentence


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1040, "too many connections"),
        (1045, "refused the account or its password"),
        (1049, "does not exist"),
        (1114, "disk or tablespace is full"),
        (1153, "max_allowed_packet"),
        (1290, "read-only"),
        (1665, "binlog_format"),
        (2003, "cannot be reached"),
        (4242, "cannot be used: words"),
    ],
)
def test_a_failure_of_a_server_is_a_sentence_with_its_remedy(code: int, says: str) -> None:
    assert says in str(unusable(mysql_failure(code), PLACE))
    assert not passes(mysql_failure(code))


@pytest.mark.parametrize("code", [1205, 1213, 2006, 2013])
def test_deadlocks_time_outs_and_lost_connections_pass(code: int) -> None:
    assert passes(mysql_failure(code))
    assert "gave up several times" in str(unusable(mysql_failure(code), PLACE))


def test_a_connection_that_the_driver_gave_up_passes() -> None:
    assert passes(mysql_failure(4242, lost=True))


def test_a_failure_without_code_is_told_in_its_own_words() -> None:
    error = OperationalError("SELECT 1", {}, RuntimeError("cable cut"))
    assert "cable cut" in str(unusable(error, PLACE))
    assert not passes(error)
