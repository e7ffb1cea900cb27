"""Which errors of a database are worth another try, and what people read about the others."""

import sqlite3
from pathlib import Path

import pymysql
import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from warren.sql.dialects.dialect import is_retryable, is_schema_fault, unavailable
from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.sqlite import SQLite
from warren.sql.dialects.supported import named
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

URL = make_url("mysql+pymysql://warren:hunter2@db:3306/warren?ssl_key_password=hunter2")
SERVER, FILE = MySQL(), SQLite()


def failed(code: int, words: str = "words", *, statement: str | None = "UPDATE t") -> DBAPIError:
    return DBAPIError(statement, (), pymysql.err.OperationalError(code, words))


@pytest.mark.parametrize("code", [1205, 1213, 1020, 3572, 1927, 2006, 2013, 2055, 4031])
def test_what_the_database_asks_to_repeat_is_repeated(code: int) -> None:
    assert is_retryable(failed(code), SERVER)
    assert unavailable(failed(code), URL, SERVER) is not None


@pytest.mark.parametrize(
    "code",
    # Of these, 1 to 6 are errors of files; Warren's code does not name 9999.
    [
        *(1, 3, 5, 6, 1021, 1037, 1040, 1041, 1053, 1054, 1114, 1135, 1142, 1146, 1158, 1161, 1290),
        *(1317, 1665, 1792, 1836, 1878, 1047, 1180, 1197, 3100, 3101, 9999),
    ],
)
def test_a_server_that_works_for_nobody_is_unavailable_at_once(code: int) -> None:
    assert not is_retryable(failed(code), SERVER)
    assert unavailable(failed(code), URL, SERVER) is not None


@pytest.mark.parametrize("code", [1045, 1049, 2003, 9999])
def test_whatever_goes_wrong_without_a_statement_is_the_connection(code: int) -> None:
    error = failed(code, statement=None)

    assert not is_retryable(error, SERVER)
    assert unavailable(error, URL, SERVER) is not None


@pytest.mark.parametrize(("code", "is_fault"), [(1054, True), (1146, True), (1064, False)])
def test_a_server_tells_by_its_code_that_the_schema_is_at_fault(code: int, is_fault: bool) -> None:
    assert is_schema_fault(failed(code), SERVER) is is_fault


_POSTGRESQL_STATES = {
    "again": ["40001", "40P01", "55P03", "25P03", "57P01", "57P02"],
    "unavailable": [
        "42P01",
        "42703",
        "42501",
        "53100",
        "53300",
        "57014",
        "57P03",
        "58030",
        "XX000",
    ],
    "fault": ["22001", "22003", "22P05", "23502", "23505", "42601", "42883", "21000", "25P02"],
}


@pytest.mark.parametrize(
    ("state", "verdict"),
    [(state, verdict) for verdict, states in _POSTGRESQL_STATES.items() for state in states],
)
def test_postgresql_is_judged_by_the_state_of_its_errors(state: str, verdict: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    server = named("postgresql")
    error = DBAPIError("UPDATE t", (), psycopg.errors.lookup(state)("words"))

    assert is_retryable(error, server) is (verdict == "again")
    assert (unavailable(error, URL, server) is None) is (verdict == "fault")
    assert is_schema_fault(error, server) is (state in ("42P01", "42703"))


def test_postgresql_that_cannot_be_reached_is_lost() -> None:
    psycopg = pytest.importorskip("psycopg")
    server = named("postgresql")
    refused = DBAPIError(None, None, psycopg.OperationalError("connection failed: refused"))

    assert server.is_loss(refused)
    assert unavailable(refused, URL, server) is not None


@pytest.mark.parametrize(
    ("words", "is_fault"),
    [
        ("no such table: warren_run", True),
        ("no such column: trace_id", True),
        ("disk I/O error", False),
        ("unable to open database file 'no such table'", False),
    ],
)
def test_a_file_without_a_table_or_column_is_told_from_one_that_cannot_be_used(
    words: str, is_fault: bool
) -> None:
    error = DBAPIError("SELECT 1", (), sqlite3.OperationalError(words))
    failure = unavailable(error, URL, FILE)
    assert failure is not None
    failure.__cause__ = error

    assert is_schema_fault(error, FILE) is is_fault
    assert is_schema_fault(failure, FILE) is is_fault


@pytest.mark.parametrize("code", [1048, 1062, 1064, 1153, 1292, 1366, 1406, 1644, 4025])
def test_a_faulty_statement_does_not_make_the_database_unavailable(code: int) -> None:
    assert not is_retryable(failed(code), SERVER)
    assert unavailable(failed(code), URL, SERVER) is None


@pytest.mark.parametrize(
    ("error", "again", "out_of_order"),
    [
        (sqlite3.OperationalError("database is locked"), True, True),
        (sqlite3.OperationalError("database table is locked"), True, True),
        (sqlite3.OperationalError("disk I/O error"), False, True),
        (sqlite3.OperationalError("attempt to write a readonly database"), False, True),
        (sqlite3.DatabaseError("file is not a database"), False, True),
        (sqlite3.IntegrityError("UNIQUE constraint failed"), False, False),
        (sqlite3.ProgrammingError("Incorrect number of bindings"), False, False),
    ],
)
def test_sqlite_is_judged_by_its_words(
    error: sqlite3.Error, *, again: bool, out_of_order: bool
) -> None:
    wrapped = DBAPIError("UPDATE t", (), error)

    assert is_retryable(wrapped, FILE) == again
    assert (unavailable(wrapped, URL, FILE) is not None) == out_of_order


def test_a_pool_without_a_free_connection_is_not_asked_again() -> None:
    assert not is_retryable(PoolTimeout(), SERVER)
    assert "every connection is taken" in str(unavailable(PoolTimeout(), URL, SERVER))


def test_the_words_are_one_line_that_names_the_database_and_hides_the_password() -> None:
    words = str(unavailable(failed(2013, "lost\n connection"), URL, SERVER))

    assert words == (
        "cannot use the database mysql+pymysql://warren:***@db:3306/warren: lost connection, "
        "at a statement on t"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2013, "Lost connection to MySQL server during query (timed out)"),
        (1205, "Lock wait timeout exceeded; try restarting transaction"),
    ],
)
def test_a_statement_that_waits_too_long_names_its_table(code: int, words: str) -> None:
    statement = (
        "UPDATE (SELECT 1 AS id) v STRAIGHT_JOIN xxl_job_log FORCE INDEX (PRIMARY) SET x = 1"
    )
    failure = unavailable(failed(code, words, statement=statement), URL, SERVER)

    assert str(failure).endswith(
        f"{words}, at a statement on xxl_job_log (is it locked, for example by a dump?)"
    )


@pytest.mark.parametrize("name", ["ca", "capath", "cert", "key"])
def test_a_missing_file_of_tls_is_named_with_its_argument(name: str) -> None:
    with pytest.raises(DatabaseUnavailable) as failure:
        Database(f"mysql+pymysql://u@db/warren?ssl_{name}=/no/such.pem")

    assert str(failure.value) == f"ssl_{name} of the database URL: /no/such.pem does not exist"


@pytest.mark.parametrize(
    ("url", "name"),
    [("mysql+pymysql://u@db/d", "ssl_key"), ("postgresql+psycopg://u@db/d", "sslkey")],
    ids=["MySQL", "PostgreSQL"],
)
@pytest.mark.parametrize("kind", ["ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY"])
def test_an_encrypted_key_is_refused_instead_of_asking_for_its_passphrase(
    tmp_path: Path, url: str, name: str, kind: str
) -> None:
    key = tmp_path / "key.pem"
    key.write_text(f"-----BEGIN {kind}-----\nProc-Type: 4,ENCRYPTED\n")

    with pytest.raises(DatabaseUnavailable) as failure:
        Database(f"{url}?{name}={key}")

    assert str(failure.value) == (
        f"{name} of the database URL: {key} is encrypted; expected a key without a passphrase"
    )
