"""Connections to MariaDB: which are kept, and which of them are encrypted."""

import gc
import io
import socket
import ssl
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

import pytest
from pymysql.err import OperationalError
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from tests.support.server_words import only_mysql
from warren.sql.dialects.lean_connection import COLUMNS_LIMIT, LeanConnection
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

pytestmark = only_mysql


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


@pytest.mark.parametrize("code", [1047, 1290, 1792, 1836, 3100])
def test_every_connection_to_a_server_that_takes_no_writes_is_given_up(
    database: Database, mariadb_url: str, code: int
) -> None:
    refusal = text(f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}")
    this_one = text("SELECT CONNECTION_ID()")
    beside = Database(mariadb_url)

    def ids() -> set[int]:
        found = {connection_id(each) for each in (database, beside)}
        return found | {database.read_autocommit(lambda s: s.execute(this_one).scalar_one())}

    before = ids()

    with pytest.raises(DatabaseUnavailable):
        database.write(lambda session: session.execute(refusal))

    assert len(before) == 3
    assert not before & ids()
    beside.close()


def test_columns_that_come_again_are_read_as_at_first(database: Database) -> None:
    statements = [
        "SELECT 1 AS one, 'text' AS word, 2.5 AS half",
        "SELECT 'text' AS one, NULL AS word, 1 AS half",
        "SELECT CAST('[1]' AS BINARY) AS one",
    ]

    def rows(statement: str) -> list[Any]:
        result = database.read(lambda s: s.execute(text(statement)).mappings().all())
        return [dict(row) for row in result]

    first = [rows(one) for one in statements]

    assert [rows(one) for one in statements] == first
    assert first[0] == [{"one": 1, "word": "text", "half": Decimal("2.5")}]
    assert first[1] == [{"one": "text", "word": None, "half": 1}]
    assert first[2] == [{"one": b"[1]"}]


def test_columns_that_come_again_are_read_all_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = text("SELECT 1 AS one, 'text' AS word, 2.5 AS half, NULL AS nothing")
    rows = database.read(lambda session: [session.execute(ask).one() for _ in range(2)])
    packets: list[type] = []
    read = LeanConnection._read_packet

    def count(connection: LeanConnection, kind: type = MysqlPacket) -> Any:
        packets.append(kind)
        return read(connection, kind)

    monkeypatch.setattr(LeanConnection, "_read_packet", count)

    def look(session: Session) -> Any:
        session.connection()
        packets.clear()
        return session.execute(ask).one()

    assert database.read(look) == rows[0] == rows[1]
    assert set(packets) == {MysqlPacket}


class _Silent(io.RawIOBase):
    """A server that says that an answer has one column, and no more."""

    said = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.said:
            raise TimeoutError("timed out")
        self.said = True
        packet = b"\x01\x00\x00\x01\x01"
        buffer[: len(packet)] = packet
        return len(packet)


def test_an_answer_that_ends_before_its_columns_is_a_lost_connection() -> None:
    connection: Any = LeanConnection(defer_connect=True)
    connection._sock, theirs = socket.socketpair()
    connection._rfile = io.BufferedReader(_Silent())
    connection._next_seq_id, connection._current_timeout = 1, connection._read_timeout

    with theirs, pytest.raises(OperationalError, match="Lost connection"):
        connection._read_query_result()

    assert not connection.open


def test_connection_remembers_a_bounded_number_of_columns(database: Database) -> None:
    def look(session: Session) -> int:
        before = live_columns()
        for number in range(COLUMNS_LIMIT + 10):
            session.execute(text(f"SELECT {number} AS c{number}")).scalar_one()
        return live_columns() - before

    assert 0 < database.read(look) <= COLUMNS_LIMIT


def live_columns() -> int:
    """Return how many descriptions of columns are in memory."""
    gc.collect()
    return sum(isinstance(one, FieldDescriptorPacket) for one in gc.get_objects())


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
        ("127.0.0.1", "?ssl_capath=/", False),
        ("localhost", "?charset=utf8mb4", True),
        ("10.0.0.1", "", False),
        ("db.example.com", "", False),
        ("localhost.example.com", "", False),
    ],
)
def test_only_what_stays_within_this_machine_goes_unencrypted_unasked(
    host: str, query: str, is_plain: bool
) -> None:
    asked = connect_options(f"mysql+pymysql://warren:secret@{host}:1/warren{query}")

    assert asked.get("ssl_disabled", False) is is_plain


@pytest.mark.parametrize("wanted", ["ALL:%40SECLEVEL=0", "aNULL", "AES256-SHA:aNULL:eNULL"])
def test_no_cipher_spares_a_server_its_certificate(wanted: str) -> None:
    url = f"mysql+pymysql://warren@db.example/warren?ssl_capath=/&ssl_cipher={wanted}"
    options = connect_options(url)["ssl"]
    if wanted == "aNULL":
        with pytest.raises(ssl.SSLError, match="No cipher can be selected"):
            LeanConnection(defer_connect=True, ssl=options)
        return

    context = LeanConnection(defer_connect=True, ssl=options).ctx

    assert context.get_ciphers()
    assert not [one for one in context.get_ciphers() if one["auth"] == "auth-null"]
    assert not [one for one in context.get_ciphers() if not one["strength_bits"]]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def connect_options(url: str) -> dict[str, Any]:
    """Return what the driver is asked for when it connects to a database."""
    asked: list[dict[str, Any]] = []

    def refuse(
        _dialect: object, _record: object, _args: object, kwargs: dict[str, Any]
    ) -> NoReturn:
        asked.append(kwargs)
        raise ConnectionRefusedError

    database = Database(url, retry_seconds=0)
    event.listen(database.engine, "do_connect", refuse)
    with pytest.raises((DatabaseUnavailable, ConnectionRefusedError)):
        connection_id(database)
    database.close()
    return asked[0]
