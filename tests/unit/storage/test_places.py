from __future__ import annotations

from pathlib import Path

import pytest

from relance.ports.histories import StorageUnusableError
from relance.storage.places import MysqlPlace, SqlitePlace, read_place


def test_a_file_is_named_by_its_absolute_path() -> None:
    place = read_place("sqlite:////var/lib/relance/relance.db")
    assert place == SqlitePlace(path=Path("/var/lib/relance/relance.db"))
    assert str(place) == "database /var/lib/relance/relance.db"
    assert isinstance(place, SqlitePlace)
    assert place.lock_path == Path("/var/lib/relance/relance.db.lock")


@pytest.mark.parametrize("scheme", ["mysql+pymysql", "mysql", "mariadb", "mariadb+pymysql"])
def test_a_server_is_named_without_account_and_password(scheme: str) -> None:
    place = read_place(f"{scheme}://ada:s3cr%40t@db.example:3307/relance?ssl_key=/s3cret")
    assert isinstance(place, MysqlPlace)
    assert str(place) == "database relance on db.example:3307"
    assert "s3cr" not in repr(place)
    assert place.url.drivername == "mysql+pymysql"
    assert place.url.password == "s3cr@t"
    assert place.url.query["charset"] == "utf8mb4"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("no url at all s3cret", "cannot be read"),
        ("nosuch://ada:s3cret@db/relance", "nosuch is not a database"),
        ("mysql+pymysql://ada:s3cret@db:port/relance", "cannot be read"),
        ("postgresql://ada:s3cret@db/relance", "postgresql is not a database that Relance can use"),
        ("mysql+pymysql://ada:s3cret@db", "no database"),
        ("mysql+asyncmy://ada:s3cret@db/relance", "driver asyncmy is not supported"),
        ("sqlite://", "plain path of a file"),
        ("sqlite:///:memory:", "plain path of a file"),
        ("sqlite:///file:s3cret?mode=ro&uri=true", "plain path of a file"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str, says: str) -> None:
    with pytest.raises(StorageUnusableError) as refused:
        read_place(url)
    assert says in str(refused.value)
    assert "write " in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
