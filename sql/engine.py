"""Connections and units of work, for MariaDB, MySQL and SQLite alike.

A unit of work is a function of a session. It runs in one transaction and is retried whole when the
database asks for it, so it must have no effect outside the session: no message, no user code.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import pymysql
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sql.errors import DatabaseUnavailable

T = TypeVar("T")

#: MySQL's and MariaDB's codes after which the same unit of work may succeed: lock wait (1205),
#: deadlock (1213), changed since read (1020), NOWAIT (3572), connection lost (2006, 2013, 2055,
#: 4031). 1205 leaves the transaction open, so every error rolls back.
RETRIED_CODES = frozenset({1205, 1213, 1020, 3572, 2006, 2013, 2055, 4031})
#: Refused passwords, unknown databases and unknown users: trying again does not help.
HOPELESS_CODES = frozenset({1044, 1045, 1049, 1698})
TRIES = 5

_SESSION_SETTINGS = (
    "SET SESSION wait_timeout = 15, innodb_lock_wait_timeout = 4, time_zone = '+00:00'"
)


class Database:
    """A database to read from and write to; safe to share between threads.

    Args:
        url: `mysql+pymysql://user:password@host:port/name` or `sqlite:///path`.
        pool_size: connections kept; threads that want one wait up to 5 s.

    Raises:
        ValueError: the URL is of another kind.

    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self.url = _parse(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url) if self.is_sqlite else _mysql_engine(url, pool_size)
        self._writing = self.engine.execution_options(warren_writing=True)
        # Threads of one process queue here, in order; SQLite's own wait is a lottery.
        self._turn = threading.Lock() if self.is_sqlite else nullcontext()

    def write(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned, after its transaction was committed.

        Raises:
            DatabaseUnavailable: the database did not answer, or failed five times.

        """
        return self._retry(self._writing, unit, self._turn)

    def read(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned; nothing that it changes is kept."""
        return self._retry(self.engine, unit, nullcontext())

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _retry(self, engine: Engine, unit: Callable[[Session], T], turn: Any) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                with turn, Session(engine, expire_on_commit=False) as session, session.begin():
                    return unit(session)
            except (DBAPIError, PoolTimeout) as error:
                if attempt == TRIES or not _may_succeed_later(error):
                    raise _translated(error, self.url) from error
            time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - jitter
        raise AssertionError("unreachable")


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ValueError(f"expected a database URL, got: {url!r}") from error
    if parsed.drivername not in ("mysql+pymysql", "sqlite"):
        raise ValueError(
            "expected the database URL to begin with mysql+pymysql:// or sqlite:///, "
            f"got: {parsed.drivername}://"
        )
    return parsed


def _mysql_engine(url: str, pool_size: int) -> Engine:
    return create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=pool_size,
        max_overflow=5,
        pool_timeout=5,
        pool_pre_ping=True,
        pool_recycle=10,
        connect_args={
            "connect_timeout": 5,
            "read_timeout": 10,
            "write_timeout": 10,
            "charset": "utf8mb4",
            "init_command": _SESSION_SETTINGS,
        },
    )


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": 5.0, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # The driver's own idea of transactions starts them too late and without IMMEDIATE.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("warren_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _code(error: DBAPIError) -> int:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def _may_succeed_later(error: DBAPIError | PoolTimeout) -> bool:
    if isinstance(error, PoolTimeout):
        return False
    if isinstance(error.orig, sqlite3.OperationalError):
        return "locked" in str(error.orig) or "busy" in str(error.orig)
    return error.connection_invalidated or _code(error) in RETRIED_CODES


def _translated(error: DBAPIError | PoolTimeout, url: URL) -> Exception:
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable("cannot use the database: every connection is taken")
    broken = isinstance(error.orig, pymysql.err.OperationalError | sqlite3.OperationalError)
    if not broken and not isinstance(error.orig, pymysql.err.InternalError):
        return error
    where = url.render_as_string(hide_password=True)
    return DatabaseUnavailable(f"cannot use the database {where}: {_words(error)}")


def _words(error: DBAPIError) -> str:
    arguments = getattr(error.orig, "args", ())
    return " ".join(str(arguments[-1] if arguments else error.orig).split())
