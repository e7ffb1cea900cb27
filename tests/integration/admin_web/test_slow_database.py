"""A database that comes to no end: a page that says so, soon, and no statement left there."""

import time
from collections.abc import Iterator

import pymysql
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from tests.support.console import Clock, Visit, add_user, make_app, signed_in
from tests.support.eventually import eventually
from tests.support.mariadb import SERVER, PrivateMariaDB
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.wiring.console import CONSOLE_POOL
from warren.wiring.web import RETRY_SECONDS

LIMIT_SECONDS = 1
#: The server's variable for the limit, how many of its units are a second, and what it says.
VARIABLE, UNITS, SAYS = {
    "mariadbd": ("max_statement_time", 1, "max_statement_time exceeded"),
    "mysqld": ("max_execution_time", 1_000, "maximum statement execution time exceeded"),
}[SERVER]
ENDLESS = "SELECT SUM(LENGTH(CONCAT(a.x, b.x, c.x))) FROM {0} a, {0} b, {0} c".format(
    "(SELECT column_name AS x FROM information_schema.columns)"
)
#: What this console is doing in the database.
_AT_WORK = (
    "SELECT COUNT(*) FROM information_schema.processlist "
    "WHERE db = '{}' AND command = 'Query' AND info LIKE '%{}%' AND info NOT LIKE '%processlist%'"
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
def other(database: Database) -> Iterator["pymysql.Connection[pymysql.cursors.Cursor]"]:
    """Somebody else in the same database."""
    url = database.url
    connection = pymysql.connect(
        host=url.host,
        port=url.port or 0,
        user=url.username,
        password=url.password or "",
        database=url.database,
    )
    yield connection
    connection.close()


def test_a_statement_that_waits_is_ended_and_the_page_says_so(
    admin: Visit,
    database: Database,
    mariadb: PrivateMariaDB,
    other: "pymysql.Connection[pymysql.cursors.Cursor]",
) -> None:
    with other.cursor() as cursor:
        cursor.execute("LOCK TABLES xxl_job_info WRITE")
        began = time.monotonic()

        with capture_logs() as logs:
            answer = admin.get("/jobs")

        spent = time.monotonic() - began
        left = mariadb.execute(_AT_WORK.format(database.url.database, "xxl_job_info"))
        cursor.execute("UNLOCK TABLES")
    [line] = [line for line in logs if line["event"] == "page_not_served"]
    assert answer.status_code == 503
    assert "Database unavailable" in answer.text
    assert f"Error number: {line['number']}" in answer.text
    assert SAYS in line["error"]
    assert SAYS not in answer.text
    assert spent < 60 * LIMIT_SECONDS
    assert left == [(0,)]
    assert eventually(lambda: admin.get("/jobs").status_code == 200)


def test_a_statement_that_computes_is_ended_by_the_server_itself(database: Database) -> None:
    with database.engine.connect() as connection:
        assert limit_of(connection) == LIMIT_SECONDS
        began = time.monotonic()

        with pytest.raises(DBAPIError, match=SAYS):
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
    [(limit,)] = connection.exec_driver_sql(f"SELECT @@SESSION.{VARIABLE}").all()
    return float(limit) / UNITS
