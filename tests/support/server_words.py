"""What tests say to a database server of whatever kind, in its own words."""

import os
import re
from typing import NamedTuple, TypeAlias

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from warren.sql.engine import Database

DatabaseServer: TypeAlias = PrivateMariaDB | PrivatePostgreSQL

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
    no_room: str
    refused_message: str


_MYSQL = _Words(
    connection_id="CONNECTION_ID()",
    kill="KILL {}",
    short_lock_wait="SET SESSION innodb_lock_wait_timeout = 1",
    short_idle="SET SESSION wait_timeout = 1",
    by_key="FORCE INDEX (PRIMARY)",
    no_room="SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1878, MESSAGE_TEXT = 'no temporary file'",
    refused_message="CREATE TRIGGER refusal BEFORE UPDATE ON xxl_job_log FOR EACH ROW"
    " IF NEW.handle_msg = '{}' THEN SIGNAL SQLSTATE '45000'; END IF",
)
_POSTGRESQL = _Words(
    connection_id="pg_backend_pid()",
    kill="SELECT pg_terminate_backend({})",
    short_lock_wait="SET LOCAL lock_timeout = '1s'",
    short_idle="SET LOCAL idle_in_transaction_session_timeout = '1s'",
    by_key="",
    no_room="DO $$ BEGIN RAISE EXCEPTION 'no temporary file' USING ERRCODE = '53100'; END $$",
    refused_message="""DO $do$ BEGIN
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.handle_msg = '{}' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refusal BEFORE UPDATE ON xxl_job_log FOR EACH ROW EXECUTE FUNCTION refuse();
    END $do$""",
)


_SQLITE = _Words(
    connection_id="",
    kill="",
    short_lock_wait="",
    short_idle="",
    by_key="",
    no_room="SELECT id FROM a_table_that_is_gone",
    refused_message="CREATE TRIGGER refusal BEFORE UPDATE ON xxl_job_log"
    " WHEN NEW.handle_msg = '{}' BEGIN SELECT RAISE(ABORT, 'no'); END",
)
_WORDS = {"mysql": _MYSQL, "postgresql": _POSTGRESQL, "sqlite": _SQLITE}


def words_of(database: Database) -> _Words:
    return _WORDS[database.dialect.name]


def fail_for_want_of_room(session: Session, database: Database) -> None:
    """Let a statement fail as when the server cannot write."""
    session.execute(text(words_of(database).no_room))


def refuse_message(database: Database, message: str) -> None:
    """Let each change fail that gives a run this message."""
    refusal = words_of(database).refused_message.format(message)
    database.write(lambda session: session.connection().exec_driver_sql(refusal))


def waits_for_a_lock(session: Session, database: Database) -> bool:
    """Return whether a transaction of this database waits for a row.

    The tables of MariaDB's information_schema would not do: whoever reads them more than ten times
    a second gets the same answer for ever.
    """
    if database.dialect.name == "postgresql":
        asked = "datname = current_database() AND wait_event_type = 'Lock'"
        return (
            session.execute(text(f"SELECT 1 FROM pg_stat_activity WHERE {asked}")).first()
            is not None
        )
    ids = session.execute(
        text("SELECT id FROM information_schema.processlist WHERE db = DATABASE()")
    )
    ours = set(ids.scalars())
    status = session.execute(text("SHOW ENGINE INNODB STATUS")).one().Status
    waiting = re.findall(r"^LOCK WAIT .*\n\w+ thread id (\d+)", status, re.MULTILINE)
    return not ours.isdisjoint(map(int, waiting))


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
