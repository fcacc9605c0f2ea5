from __future__ import annotations

from sqlalchemy import create_engine, text

from tests.components.mariadb import MariaDbServer


def test_a_database_is_empty_and_speaks_utf8mb4(mariadb_url: str) -> None:
    engine = create_engine(mariadb_url)
    with engine.connect() as connection:
        tables = connection.execute(text("SHOW TABLES")).all()
        charset = connection.execute(text("SELECT @@character_set_database, @@character_set_connection")).one()
    engine.dispose()
    assert tables == []
    assert tuple(charset) == ("utf8mb4", "utf8mb4")


def test_the_server_listens_on_loopback_alone(mariadb_server: MariaDbServer) -> None:
    engine = create_engine(mariadb_server.url("mysql"))
    with engine.connect() as connection:
        address = connection.execute(text("SELECT @@bind_address, @@skip_networking")).one()
    engine.dispose()
    assert tuple(address) == ("127.0.0.1", 0)
