"""Connections and units of work, for MariaDB, MySQL and SQLite alike.

A unit of work is a function of a session. It runs in one transaction and is retried whole when the
database asks for it, so it must have no effect outside the session: no message, no user code. It
may also run again after a commit whose answer was lost: what it inserts needs a unique key.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sql import failures
from sql.database_url import parse
from sql.outage import Outage
from sql.turns import Turns

T = TypeVar("T")

TRIES = 5
#: No further try begins when a unit of work has failed for this long.
RETRY_SECONDS = 10.0
#: How long a thread waits for one of the connections.
POOL_SECONDS = 5.0
CONNECT_SECONDS = 5
ANSWER_SECONDS = 10

#: A frozen scheduler loses its locks after so long, sooner than others give up what waits for them.
SILENCE_SECONDS = 9
#: And a frozen console after so long: ticks are planned further ahead, so only what is due at once,
#: of a job that it was changing, is late.
WRITING_SILENCE_SECONDS = 3
# Nobody waits for a lock for longer than 4 s at a time. The SQL mode is set because a lax server
# cuts values that do not fit.
_SESSION_SETTINGS = (
    f"SET SESSION wait_timeout = {SILENCE_SECONDS}, innodb_lock_wait_timeout = 4, "
    "time_zone = '+00:00', "
    "sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'"
)
#: Below both, so that the server never closes a connection that is about to be used.
_RECYCLE_SECONDS, _WRITING_RECYCLE_SECONDS = 6, 2


class Database:
    """A database to read from and write to; safe to share between threads.

    Args:
        url: `mysql+pymysql://user:password@host:port/name` or `sqlite:///path`.
        pool_size: connections kept, half as many more when needed; a thread that gets none within
            5 s fails.
        answer_seconds: how long MySQL or MariaDB may take for one statement before we go.
        statement_seconds: after how long MySQL or MariaDB itself ends a SELECT; 0 = never. Without
            it the server goes on with what nobody waits for any more.
        retry_seconds: no further try begins when a unit of work has failed for this long.
        impatient: somebody waits. A unit of work fails at once while MySQL or MariaDB is known to
            be lost, no connection is asked beforehand whether it still lives, and a write that
            says nothing for 3 s is undone by the server, its locks being in others' way.
        beside: another of the same SQLite file in this process; the writers of both take turns.

    Raises:
        ValueError: the URL is of another kind.

    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        answer_seconds: int = ANSWER_SECONDS,
        statement_seconds: int = 0,
        retry_seconds: float = RETRY_SECONDS,
        impatient: bool = False,
        beside: "Database | None" = None,
    ) -> None:
        self.url = parse(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = (
            _sqlite_engine(self.url, pool_size)
            if self.is_sqlite
            else _mysql_engine(self.url, pool_size, answer_seconds, impatient=impatient)
        )
        if statement_seconds and not self.is_sqlite:
            _limit_statements(self.engine, statement_seconds)
        self._retry_seconds = retry_seconds
        self._outage = Outage(self._ask) if impatient and not self.is_sqlite else None
        self._writing = self.engine.execution_options(warren_writing=True)
        # Threads of one process queue here, in order; SQLite's own wait is a lottery.
        self._turns: AbstractContextManager[None] = Turns() if self.is_sqlite else nullcontext()
        if beside is not None and self.is_sqlite:
            self._turns = beside._turns  # noqa: SLF001 - one of its own kind

    def write(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned, after its transaction was committed.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def commit() -> T:
            with self._turns, Session(self._writing, expire_on_commit=False) as session:
                result = unit(session)
                session.commit()
                return result

        return self._retry(commit)

    def read(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned; nothing that it changes is kept.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def look() -> T:
            with Session(self.engine) as session:
                return unit(session)

        return self._retry(look)

    def close(self) -> None:
        """Close every connection."""
        if self._outage is not None:
            self._outage.close()
        self.engine.dispose()

    def _ask(self) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")

    def _retry(self, work: Callable[[], T]) -> T:
        if self._outage is not None:
            self._outage.check()
        give_up_at = time.monotonic() + self._retry_seconds
        attempt = 1
        while True:
            try:
                # Whatever goes wrong, leaving the session rolls back: 1205 alone does not.
                return work()
            except (DBAPIError, PoolTimeout) as error:
                again = attempt < TRIES and time.monotonic() < give_up_at
                if not again or not failures.may_pass(error):
                    if (failure := failures.unavailable(error, self.url)) is not None:
                        if self._outage is not None and failures.is_loss(error):
                            self._outage.begin(failure)
                        raise failure from error
                    raise
            time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - jitter
            attempt += 1


def _mysql_engine(url: URL, pool_size: int, answer_seconds: int, *, impatient: bool) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        pool_size=pool_size,
        max_overflow=pool_size // 2,
        pool_timeout=POOL_SECONDS,
        pool_pre_ping=not impatient,
        pool_recycle=_WRITING_RECYCLE_SECONDS if impatient else _RECYCLE_SECONDS,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": answer_seconds,
            "write_timeout": answer_seconds,
            "charset": "utf8mb4",
            "init_command": _SESSION_SETTINGS,
        },
    )
    if impatient:
        _limit_silence(engine)
    return engine


def _limit_silence(engine: Engine) -> None:
    """Let the server end a connection soon that stands still in a write, and others later."""

    @event.listens_for(engine, "begin")
    def limit(connection: Connection) -> None:
        writing = connection.get_execution_options().get("warren_writing", False)
        seconds = WRITING_SILENCE_SECONDS if writing else SILENCE_SECONDS
        if connection.info.get("wait_timeout", SILENCE_SECONDS) != seconds:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {seconds}")
            connection.info["wait_timeout"] = seconds


def _limit_statements(engine: Engine, seconds: int) -> None:
    """Let the server end each SELECT after so long; both kinds say it in words of their own."""

    @event.listens_for(engine, "connect")
    def limit(connection: Any, _record: object) -> None:
        is_mariadb = "MariaDB" in connection.get_server_info()
        variable, value = (
            ("max_statement_time", seconds)
            if is_mariadb
            else ("max_execution_time", seconds * 1000)
        )
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {variable} = {int(value)}")


def _sqlite_engine(url: URL, pool_size: int) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=pool_size // 2,
        pool_timeout=POOL_SECONDS,
        connect_args={"timeout": 5.0, "check_same_thread": False},
    )

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
