"""A database that comes to no end: a page that says so, soon, and no statement left there."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from tests.support.console import Clock, Visit, add_user, make_app, signed_in
from tests.support.eventually import eventually
from tests.support.mariadb import SERVER
from tests.support.server_words import ON_POSTGRESQL, DatabaseServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.wiring.console import CONSOLE_POOL
from warren.wiring.web import RETRY_SECONDS

LIMIT_SECONDS = 1


class _Words(NamedTuple):
    """In a server's own words: its limit in seconds, what it says, and what locks and unlocks.

    `at_work` counts what a console is doing in the database.
    """

    limit: str
    says: str
    lock: Sequence[str]
    unlock: str
    at_work: str


def _of_mysql(limit: str, says: str) -> _Words:
    return _Words(
        limit=f"SELECT {limit}",
        says=says,
        lock=["LOCK TABLES xxl_job_info WRITE"],
        unlock="UNLOCK TABLES",
        at_work="SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}'"
        " AND command = 'Query' AND info LIKE '%{}%' AND info NOT LIKE '%processlist%'",
    )


_MARIADB = _of_mysql("@@SESSION.max_statement_time", "max_statement_time exceeded")
_MYSQL = _of_mysql(
    "@@SESSION.max_execution_time / 1000", "maximum statement execution time exceeded"
)
_POSTGRESQL = _Words(
    limit="SELECT EXTRACT(EPOCH FROM CAST(current_setting('statement_timeout') AS interval))",
    says="canceling statement due to statement timeout",
    lock=[
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        "LOCK TABLE xxl_job_info IN ACCESS EXCLUSIVE MODE",
    ],
    unlock="SELECT 1",  # the end of the transaction does it
    at_work="SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '{}' AND state = 'active'"
    " AND query LIKE '%{}%' AND query NOT LIKE '%pg_stat_activity%'",
)
WORDS = _POSTGRESQL if ON_POSTGRESQL else {"mariadbd": _MARIADB, "mysqld": _MYSQL}[SERVER]
ENDLESS = "SELECT SUM(LENGTH(CONCAT(a.x, b.x, c.x))) FROM {0} a, {0} b, {0} c".format(
    "(SELECT column_name AS x FROM information_schema.columns)"
)


@pytest.fixture
def database(mariadb_schema_url: str) -> Iterator[Database]:
    """A console's own connections, with a short limit; a busy server may say so much later."""
    database = Database(
        mariadb_schema_url,
        pool_size=CONSOLE_POOL,
        statement_seconds=LIMIT_SECONDS,
        answer_seconds=60 * LIMIT_SECONDS,
        retry_seconds=RETRY_SECONDS,
        fail_fast=True,
    )
    add_user(database, "admin", Role.ADMINISTRATOR)
    yield database
    database.close()


@pytest.fixture
def admin(database: Database) -> Visit:
    return signed_in(make_app(database, Clock()), "admin")


@pytest.fixture
def other(mariadb_schema_url: str) -> Iterator[Connection]:
    """Somebody else in the same database."""
    database = Database(mariadb_schema_url)
    with database.engine.connect() as connection:
        yield connection
    database.close()


def test_a_statement_that_waits_is_ended_and_the_page_says_so(
    admin: Visit, database: Database, mariadb: DatabaseServer, other: Connection
) -> None:
    for statement in WORDS.lock:
        other.exec_driver_sql(statement)
    began = time.monotonic()

    with capture_logs() as logs:
        answer = admin.get("/jobs")

    spent = time.monotonic() - began
    left = mariadb.execute(WORDS.at_work.format(database.url.database, "xxl_job_info"))
    other.exec_driver_sql(WORDS.unlock)
    other.rollback()
    [line] = [line for line in logs if line["event"] == "page_not_served"]
    assert answer.status_code == 503
    assert "Database unavailable" in answer.text
    assert f"Error number: {line['number']}" in answer.text
    assert WORDS.says in line["error"]
    assert WORDS.says not in answer.text
    assert spent < 60 * LIMIT_SECONDS
    assert left == [(0,)]
    assert eventually(lambda: admin.get("/jobs").status_code == 200)


def test_a_statement_that_computes_is_ended_by_the_server_itself(database: Database) -> None:
    with database.engine.connect() as connection:
        assert limit_of(connection) == LIMIT_SECONDS
        began = time.monotonic()

        with pytest.raises(DBAPIError, match=WORDS.says):
            connection.exec_driver_sql(ENDLESS)

    assert time.monotonic() - began < 60 * LIMIT_SECONDS


def test_schedulers_have_no_such_limit(mariadb_schema_url: str) -> None:
    database = Database(mariadb_schema_url)

    with database.engine.connect() as connection:
        limit = limit_of(connection)

    database.close()
    assert limit == 0


def limit_of(connection: Connection) -> float:
    """Return the limit on a connection's statements, in seconds."""
    return float(connection.exec_driver_sql(WORDS.limit).scalar_one())
