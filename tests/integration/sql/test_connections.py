"""Connections to MariaDB: which are kept, and which of them are encrypted."""

import ssl
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from sqlalchemy import event, text

from sql.engine import Database
from sql.errors import DatabaseUnavailable


@pytest.fixture(params=[False, True], ids=["patient", "fail_fast"])
def database(mariadb_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with one connection at a time."""
    database = Database(mariadb_url, fail_fast=request.param)
    yield database
    database.close()


def connection_id(database: Database) -> int:
    return database.read(lambda s: int(s.execute(text("SELECT CONNECTION_ID()")).scalar_one()))


def test_a_connection_is_kept_as_long_as_it_is_used_and_no_longer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    first = connection_id(database)

    kept = []
    for _ in range(20):
        now += 1.9
        kept.append(connection_id(database))
    now += 7

    assert set(kept) == {first}
    assert connection_id(database) != first


def test_connections_within_one_machine_read_no_certificates(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = []
    monkeypatch.setattr(ssl, "create_default_context", contexts.append)

    connection_id(database)

    assert contexts == []


@pytest.mark.parametrize(
    ("host", "query", "is_plain"),
    [
        ("127.0.0.1", "", True),
        ("localhost", "", True),
        ("[::1]", "", True),
        ("127.0.0.1", "?ssl_ca=/nowhere/ca.pem", False),
        ("localhost", "?charset=utf8mb4", True),
        ("10.0.0.1", "", False),
        ("db.example.com", "", False),
        ("localhost.example.com", "", False),
    ],
)
def test_only_what_stays_within_this_machine_goes_unencrypted_unasked(
    host: str, query: str, is_plain: bool
) -> None:
    asked: list[dict[str, Any]] = []

    def refuse(
        _dialect: object, _record: object, _args: object, kwargs: dict[str, Any]
    ) -> NoReturn:
        asked.append(kwargs)
        raise ConnectionRefusedError

    database = Database(f"mysql+pymysql://warren:secret@{host}:1/warren{query}", retry_seconds=0)
    event.listen(database.engine, "do_connect", refuse)
    with pytest.raises((DatabaseUnavailable, ConnectionRefusedError)):
        connection_id(database)
    database.close()

    assert asked[0].get("ssl_disabled", False) is is_plain
