"""What tests say to a database server of whatever kind, in its own words."""

import os
from typing import NamedTuple

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from warren.sql.engine import Database

#: Whether the tests use PostgreSQL wherever they would use MariaDB.
ON_POSTGRESQL = os.environ.get("TEST_DATABASE") == "postgresql"
#: Marks what looks at MariaDB's or MySQL's own ways.
only_mysql = pytest.mark.skipif(ON_POSTGRESQL, reason="about MariaDB and MySQL")


class _Words(NamedTuple):
    connection_id: str
    kill: str
    short_lock_wait: str
    short_idle: str
    by_key: str


_MYSQL = _Words(
    connection_id="CONNECTION_ID()",
    kill="KILL {}",
    short_lock_wait="SET SESSION innodb_lock_wait_timeout = 1",
    short_idle="SET SESSION wait_timeout = 1",
    by_key="FORCE INDEX (PRIMARY)",
)
_POSTGRESQL = _Words(
    connection_id="pg_backend_pid()",
    kill="SELECT pg_terminate_backend({})",
    short_lock_wait="SET LOCAL lock_timeout = '1s'",
    short_idle="SET LOCAL idle_in_transaction_session_timeout = '1s'",
    by_key="",
)


def words_of(database: Database) -> _Words:
    return {"mysql": _MYSQL, "postgresql": _POSTGRESQL}[database.dialect.name]


def connection_id(session: Session, database: Database) -> int:
    """Return the server's number of a connection."""
    ask = text(f"SELECT {words_of(database).connection_id}")
    return int(session.execute(ask).scalar_one())


def kill(database: Database, number: int) -> None:
    """Let the server end a connection."""
    with database.engine.connect() as other:
        other.exec_driver_sql(words_of(database).kill.format(number))


def wait_briefly(session: Session, database: Database) -> None:
    """Let the transaction wait for locks for one second at most."""
    session.execute(text(words_of(database).short_lock_wait))
