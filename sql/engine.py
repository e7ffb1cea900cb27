"""Connections and units of work, for MariaDB, MySQL and SQLite alike.

A unit of work is a function of a session. It runs in one transaction, and is repeated as a whole
after a deadlock or a lost connection. So it must have no effect outside the session: no message, no
user code. It may also run again after a commit whose answer was lost, so what it inserts needs a
unique key.

If the counter of run ids has gone back, ids that it gave out again are rejected. Then a new epoch
of ids begins, and the unit is repeated once.

While a database is unavailable, callers fail at once instead of waiting. Which server a connection
goes to is decided in `servers`.

MySQL has no INSERT … RETURNING, so the ORM would insert rows one by one to learn their ids. The ids
of audit entries and schedule changes are not needed, so a writing session inserts these together.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import Select, Update, event, insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from warren.sql import epochs
from warren.sql.dialects import dialect
from warren.sql.dialects.database_url import parse_all
from warren.sql.dialects.dialect import Connecting
from warren.sql.dialects.supported import named
from warren.sql.errors import DatabaseUnavailable, RunIdTaken
from warren.sql.models import AuditEntry, History
from warren.sql.servers import Looked, Servers

#: The tables whose rows are inserted together.
_RECORDS = (AuditEntry, History)


class WritingSession(Session):
    """A session that inserts all new rows of each of _RECORDS with one statement per flush."""


@event.listens_for(WritingSession, "before_flush")
def _insert_together(session: WritingSession, _context: object, _instances: object) -> None:
    for record in _RECORDS:
        rows = [row for row in session.new if isinstance(row, record)]
        for row in rows:
            session.expunge(row)
        if rows:
            session.execute(insert(record), [_values(row) for row in rows])


def _values(row: AuditEntry | History) -> dict[str, Any]:
    names = row.__mapper__.column_attrs.keys()
    return {name: getattr(row, name) for name in names if name in row.__dict__}


#: Time between two attempts to reach an unavailable database.
ASK_SECONDS = 0.5


class Outage:
    """After the first failure, callers fail at once, while one thread tries to reach the database.

    Args:
        ask: executes any query; raises if the database does not answer.

    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._words: str | None = None

    def check(self) -> None:
        """Do nothing while the database is available.

        Raises:
            DatabaseUnavailable: it is not; the message is that of the first failure.

        """
        words = self._words
        if words is not None:
            raise DatabaseUnavailable(words)

    def begin(self, error: DatabaseUnavailable) -> None:
        """Consider the database unavailable until it answers again."""
        with self._lock:
            if self._words is not None or self._closing.is_set():
                return
            self._words = str(error)
            threading.Thread(target=self._watch, name="lost database", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that tries to reach the database."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(ASK_SECONDS):
            try:
                self._ask()
            except Exception:  # noqa: BLE001, S112 - any error means that there was no answer
                continue
            break
        self._words = None


class FairLock:
    """A first-come, first-served lock; `threading.Lock` picks any waiting thread.

    A thread that releases it and requests it again queues behind those that already wait.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """How many threads wait for it."""
        return len(self._waiting)

    def __enter__(self) -> None:
        with self._door:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *_error: object) -> None:
        with self._door:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


T = TypeVar("T")

MAX_TRIES = 5
#: A unit of work that has failed for this long is not tried again.
RETRY_SECONDS = 10.0
#: How long a thread waits for a free connection.
POOL_SECONDS = 5.0
ANSWER_SECONDS = 10
#: Connections in the pool for single statements; with `fail_fast` it has at least half as many as
#: the pool for transactions.
AUTOCOMMIT_POOL_SIZE = 2


@dataclass(slots=True)
class SeenIds:
    """The highest run id that this process knows, and how often it saw the counter go back.

    Ids reserved before `turns` has grown may belong to others.
    """

    highest: int = 0
    turns: int = 0


class Database:
    """A database to read from and write to; thread-safe.

    Args:
        url: `mysql+pymysql://user:password@host:port/name`, several of them separated by commas,
            or `sqlite:///path`.
        pool_size: connections kept open, and half as many more when needed; a thread that gets
            none within 5 s fails.
        answer_seconds: how long MySQL or MariaDB may take for one statement before the connection
            is given up.
        statement_seconds: after how long MySQL or MariaDB itself ends a SELECT; 0 = never, and
            then the server continues statements whose callers have given up.
        retry_seconds: a unit of work that has failed for this long is not tried again.
        fail_fast: for processes that answer users. A unit of work fails at once while MySQL or
            MariaDB is known to be unavailable; connections are not checked before use; and the
            server rolls back a writing transaction that is idle for 3 s, which frees its locks.
        for_writing: whether a server that takes no writes is of no use.
        share_writes_with: another database object for the same SQLite file in this process; the
            writers of both take turns.

    Raises:
        ValueError: the URL names an unknown kind of database.

    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        answer_seconds: int = ANSWER_SECONDS,
        statement_seconds: int = 0,
        retry_seconds: float = RETRY_SECONDS,
        fail_fast: bool = False,
        for_writing: bool = True,
        share_writes_with: "Database | None" = None,
    ) -> None:
        urls = parse_all(url)
        self._first_url = urls[0]
        self.dialect = named(urls[0].get_backend_name())
        embedded = self.dialect.is_embedded
        self.seen_ids = SeenIds()
        self._servers: Servers | None = None
        if not embedded:
            self._servers = Servers(
                urls,
                self.dialect,
                for_writing=for_writing,
                on_change=self._leave,
                highest_id=lambda: self.seen_ids.highest,
            )
        how = Connecting(
            pool_size=pool_size,
            pool_seconds=POOL_SECONDS,
            answer_seconds=answer_seconds,
            statement_seconds=statement_seconds,
            fail_fast=fail_fast,
            servers=self._servers,
        )
        self.engine = self.dialect.make_engine(urls, how)
        self._retry_seconds = retry_seconds
        self._outage = Outage(self._ask) if fail_fast and not embedded else None
        self._writing = self.engine.execution_options(warren_writing=True)
        self._autocommit = self.engine
        if not embedded:
            size = max(AUTOCOMMIT_POOL_SIZE, pool_size // 2 if fail_fast else 0)
            autocommit = replace(how, pool_size=size, is_autocommit=True)
            self._autocommit = self.dialect.make_engine(urls, autocommit)
        self._selecting = self._autocommit.execution_options(warren_autocommit=True)
        self._updating = self._autocommit.execution_options(warren_writing=True)
        # Writers of an embedded database queue here, because its own lock is not fair.
        self._write_lock: AbstractContextManager[None] = FairLock() if embedded else nullcontext()
        if share_writes_with is not None and embedded:
            self._write_lock = share_writes_with._write_lock  # noqa: SLF001 - of the same class

    @property
    def url(self) -> URL:
        """The URL of the server in use; before the first connection, the first one."""
        return self._servers.url if self._servers else self._first_url

    @property
    def server(self) -> str:
        """The host and port of the server in use; empty for an embedded database."""
        return self._servers.name if self._servers else ""

    @property
    def epoch(self) -> int:
        """When the newest epoch began that changed servers; 0 = none, or an embedded database."""
        return self._servers.epoch if self._servers else 0

    def note_epochs(self, known: Sequence[epochs.EpochRow]) -> None:
        """Note the epochs of this database, which other processes may have begun."""
        began = [each.began_at for each in known if each.cause in epochs.OF_SERVERS]
        if self._servers is not None and began:
            self._servers.note(max(began))

    def learn_epoch(self, epoch: int, told_by: str) -> None:
        """Leave this server if somebody has seen one of a newer epoch, and say so in the log."""
        if self._servers is None or epoch <= self.epoch:
            return
        self._servers.note(self.read(epochs.newest_of_servers))
        if epoch > self.epoch:
            self._servers.refuse_before(epoch, told_by)

    def meet_server(self, number: str) -> None:
        """Note which server a statement has reached; see `Servers.meet`."""
        if self._servers is not None:
            self._servers.meet(number)

    def watch_servers(self) -> None:
        """Log servers of the list that could be written although another took their place."""
        if self._servers is not None:
            self._servers.watch()

    @property
    def replaced_servers(self) -> tuple[str, ...]:
        """The hosts and ports of those servers, by the last `watch_servers`."""
        return self._servers.replaced if self._servers else ()

    def look_at_servers(self) -> list[tuple[str, Looked, str]]:
        """Ask every server; return its name, what it says, and why it cannot be used if so."""
        if self._servers is None:
            return []
        servers, found = self._servers, self._servers.look_at_all()
        return [(servers.names[each.place], each, servers.why_not(each)) for each in found]

    def write(self, unit: Callable[[Session], T]) -> T:
        """Run a unit of work, commit its transaction, and return its result.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.
            RunIdTaken: a row has an id that was taken before the transaction began.

        """

        def commit() -> T:
            with self._write_lock, WritingSession(self._writing, expire_on_commit=False) as session:
                result = unit(session)
                session.commit()
                return result

        try:
            return self._committed(commit)
        except RunIdTaken as taken:
            self.begin_epoch(epochs.Cause.COUNTER, twice_id=taken.run_id)
        # What takes its ids in the transaction now gets new ones.
        return self._committed(commit)

    def begin_epoch(
        self, cause: epochs.Cause, *, seen_id: int = 0, twice_id: int = 0, told_by: str = ""
    ) -> bool:
        """Begin an epoch of run ids if their counter has gone back; return whether it had.

        See `epochs.begin` for the arguments.
        """
        seen_id = max(seen_id, self.seen_ids.highest)
        begun = self.write(
            lambda session: epochs.begin(
                session, cause, seen_id=seen_id, twice_id=twice_id, told_by=told_by
            )
        )
        if begun is not None or cause is epochs.Cause.COUNTER:
            self.seen_ids.turns += 1
        return begun is not None

    def _committed(self, commit: Callable[[], T]) -> T:
        try:
            return self._retry(commit)
        except DBAPIError as error:
            if not epochs.is_of_counter(error.statement) or not self.dialect.is_id_taken(error):
                raise
            raise RunIdTaken("a run id that was given out belongs to another row") from error

    def read(self, unit: Callable[[Session], T]) -> T:
        """Run a unit of work without committing, and return its result.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def query() -> T:
            with Session(self.engine) as session:
                return unit(session)

        return self._retry(query)

    def read_autocommit(self, unit: Callable[[Session], T]) -> T:
        """Run a unit of work of a few SELECTs without a transaction, and return its result.

        Each SELECT sees what was committed before it. This saves the rollback, which takes as long
        as a SELECT.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def query() -> T:
            with Session(self._selecting) as session:
                return unit(session)

        return self._retry(query)

    def select_one(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, Any]
    ) -> Sequence[Any]:
        """Execute a SELECT without a transaction, and return its only row.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def query() -> Sequence[Any]:
            with self._selecting.connect() as connection:
                return connection.execute(statement, parameters).one()

        return self._retry(query)

    def update_autocommit(self, statement: Update, parameters: Mapping[str, Any]) -> int:
        """Commit a single UPDATE; return how many rows it matched.

        Raises:
            DatabaseUnavailable: the database did not answer, refused us, or kept failing.

        """

        def commit() -> int:
            with self._write_lock, self._updating.begin() as connection:
                return connection.execute(statement, parameters).rowcount

        return self._retry(commit)

    def close(self) -> None:
        """Close every connection."""
        if self._outage is not None:
            self._outage.close()
        self.engine.dispose()
        self._autocommit.dispose()

    def _leave(self) -> None:
        """Give up every connection; those that are busy are closed when they are returned."""
        self.seen_ids.turns += 1  # the reserved ids are the old server's
        self.engine.dispose()
        self._autocommit.dispose()

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
                # Leaving the session always rolls back; error 1205 (lock wait) by itself does not.
                return work()
            except DatabaseUnavailable as refusal:
                if self._outage is not None:
                    self._outage.begin(refusal)
                raise
            except (DBAPIError, PoolTimeout) as error:
                has_tries_left = attempt < MAX_TRIES and time.monotonic() < give_up_at
                if not has_tries_left or not dialect.is_retryable(error, self.dialect):
                    failure = dialect.unavailable(error, self.url, self.dialect)
                    if failure is not None:
                        if self._outage is not None and dialect.is_loss(error, self.dialect):
                            self._outage.begin(failure)
                        raise failure from error
                    raise
            time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - jitter
            attempt += 1
