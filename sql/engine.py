"""Connections and units of work, for MariaDB, MySQL and SQLite alike.

A unit of work is a function of a session. It runs in one transaction and is retried whole when the
database asks for it, so it must have no effect outside the session: no message, no user code. It
may also run again after a commit whose answer was lost: what it inserts needs a unique key.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Select, Update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sql.dialects import failures
from sql.dialects.database_url import parse
from sql.dialects.dialect import Connecting
from sql.dialects.fair_lock import FairLock
from sql.dialects.outage import Outage
from sql.dialects.supported import named

T = TypeVar("T")

TRIES = 5
#: No further try begins when a unit of work has failed for this long.
RETRY_SECONDS = 10.0
#: How long a thread waits for one of the connections.
POOL_SECONDS = 5.0
ANSWER_SECONDS = 10
#: Connections kept for statements without a transaction around them, where nobody waits for them;
#: else it is half as many as for transactions.
ALONE_POOL_SIZE = 2


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
        self.dialect = named(self.url.get_backend_name())
        how = Connecting(
            pool_size=pool_size,
            pool_seconds=POOL_SECONDS,
            answer_seconds=answer_seconds,
            statement_seconds=statement_seconds,
            impatient=impatient,
        )
        self.engine = self.dialect.make_engine(self.url, how)
        self._retry_seconds = retry_seconds
        embedded = self.dialect.is_embedded
        self._outage = Outage(self._ask) if impatient and not embedded else None
        self._writing = self.engine.execution_options(warren_writing=True)
        self._alone = self.engine
        if not embedded:
            size = max(ALONE_POOL_SIZE, pool_size // 2 if impatient else 0)
            alone = replace(how, pool_size=size, is_alone=True)
            self._alone = self.dialect.make_engine(self.url, alone)
        self._glancing = self._alone.execution_options(warren_glancing=True)
        self._changing = self._alone.execution_options(warren_writing=True)
        # Threads queue here in order; an embedded database's own wait is not fair.
        self._write_lock: AbstractContextManager[None] = FairLock() if embedded else nullcontext()
        if beside is not None and embedded:
            self._write_lock = beside._write_lock  # noqa: SLF001 - one of its own kind

    def write(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned, after its transaction was committed.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def commit() -> T:
            with self._write_lock, Session(self._writing, expire_on_commit=False) as session:
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

    def look(self, unit: Callable[[Session], T]) -> T:
        """Return what `unit` returned, without a transaction around its few SELECTs.

        Each sees what is committed by then. It saves the rollback, which costs as much as a SELECT.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def look() -> T:
            with Session(self._glancing) as session:
                return unit(session)

        return self._retry(look)

    def glance(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, Any]
    ) -> Sequence[Any]:
        """Return the only row of a SELECT that needs no transaction around it.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def look() -> Sequence[Any]:
            with self._glancing.connect() as connection:
                return connection.execute(statement, parameters).one()

        return self._retry(look)

    def change(self, statement: Update, parameters: Mapping[str, Any]) -> int:
        """Commit a single UPDATE; return how many rows it matched.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def commit() -> int:
            with self._write_lock, self._changing.begin() as connection:
                return connection.execute(statement, parameters).rowcount

        return self._retry(commit)

    def close(self) -> None:
        """Close every connection."""
        if self._outage is not None:
            self._outage.close()
        self.engine.dispose()
        self._alone.dispose()

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
                if not again or not failures.may_pass(error, self.dialect):
                    failure = failures.unavailable(error, self.url, self.dialect)
                    if failure is not None:
                        if self._outage is not None and failures.is_loss(error, self.dialect):
                            self._outage.begin(failure)
                        raise failure from error
                    raise
            time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - jitter
            attempt += 1
