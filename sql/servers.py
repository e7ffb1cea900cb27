"""Chooses the server of each new connection, and refuses one that another has replaced.

The database names the server that it was last written on (`Cluster.server`), and replication copies
that name too. So a server that finds another one's name has been promoted: whoever first connects
to it begins an epoch there, before anything else is written. Processes remember the newest epoch
that they have seen, and executors tell it to schedulers. A server of an older epoch has been
replaced by another one, and is refused even if it can be written.

Of several URLs, the writable server of the newest epoch is used. All servers are asked at the first
connection, and again when a connection was lost or a write refused.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sqlalchemy
import structlog
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from warren.sql import epochs
from warren.sql.dialects.dialect import Dialect, ServerFacts
from warren.sql.dialects.url_forms import SOCKET
from warren.sql.errors import DatabaseUnavailable
from warren.sql.instants import iso

#: How long to wait for the other servers of a list once one is fit for use.
OTHERS_SECONDS = 2.0
#: How long to wait for any answer: a little more than a connection may take.
ANSWER_SECONDS = 8.0
#: After nobody answered, nobody is asked again for this long.
PAUSE_SECONDS = 0.5
#: How often a refused server is logged.
TELL_SECONDS = 60.0

#: The server that was last written on, and the newest epoch that changed servers.
_STATE = (
    "SELECT (SELECT MAX(server) FROM warren_cluster), "  # noqa: S608 - constants of ours
    "(SELECT COALESCE(MAX(began_at), 0) FROM warren_epoch "
    f"WHERE cause IN ({', '.join(repr(str(cause)) for cause in epochs.OF_SERVERS)}))"
)

log = structlog.get_logger()


class Looked(NamedTuple):
    """What a server of the list says about itself and its database.

    `recorded` is the server that was last written on; None = unknown. Without Warren's tables,
    `has_schema` is False. `fault`: why it cannot be asked; then the rest says nothing.
    """

    place: int
    facts: ServerFacts | None
    recorded: str | None = None
    epoch: int = 0
    has_schema: bool = False
    fault: str = ""

    @property
    def is_recorded(self) -> bool:
        """Whether it is the server that its database was last written on."""
        return self.facts is not None and self.recorded == self.facts.identity


class Servers:
    """The servers of one database, as one process knows them; thread-safe.

    Args:
        urls: of the servers.
        dialect: asks them.
        for_writing: whether one that takes no writes is of no use; otherwise no epoch begins.
        on_change: called when every open connection has to be given up.
        highest_id: returns the highest run id that this process has seen.

    """

    def __init__(
        self,
        urls: Sequence[URL],
        dialect: Dialect,
        *,
        for_writing: bool,
        on_change: Callable[[], object],
        highest_id: Callable[[], int],
    ) -> None:
        self.names = [_name(url, dialect.url_form.port) for url in urls]
        self._urls = urls
        self._dialect = dialect
        self._for_writing = for_writing
        self._on_change = on_change
        self._highest_id = highest_id
        self._lock = threading.RLock()
        self._choosing = threading.Lock()
        self._place: int | None = 0 if len(urls) == 1 else None
        self._last_place = 0
        self._open_one: Callable[[int], Any] | None = None
        #: The server in use, and the numbers of it or of its cluster's nodes.
        self._identity: str | None = None
        self._numbers: set[str] = set()
        #: The epoch of the server in use, and the newest one that was seen anywhere.
        self.epoch = 0
        self._seen = 0
        self._seen_by = "this process"
        self._failure = ""
        self._failed_at = self._told_at = self._watch_at = float("-inf")
        #: Servers of the list that have been replaced and can be written, by the last `watch`.
        self.replaced: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The host and port of the server in use."""
        return self.names[self._last_place]

    @property
    def url(self) -> URL:
        """The URL of the server in use."""
        return self._urls[self._last_place]

    def connect(self, open_one: Callable[[int], Any]) -> Any:
        """Return a connection to the right server.

        Raises:
            DatabaseUnavailable: no server may be used; errors of the driver come as they are.

        """
        self._open_one = open_one
        place = self._place
        if place is not None:
            try:
                return self._open(open_one, place)
            except Exception:
                if len(self._urls) == 1:
                    raise
                self.doubt()
        return self._choose(open_one)

    def doubt(self) -> None:
        """Ask all servers of the list again before the next connection is made."""
        if len(self._urls) > 1:
            self._place = None

    def meet(self, number: str) -> None:
        """Record which server an open connection leads to.

        Behind a proxy it may be another one by now, and any may have become read-only.
        """
        if self._numbers and number not in self._numbers:
            self.doubt()
            self._on_change()

    def note(self, epoch: int) -> None:
        """Record the newest epoch of the server in use."""
        with self._lock:
            self.epoch = max(self.epoch, epoch)
            self._see(self.epoch, "this process")

    def refuse_before(self, epoch: int, told_by: str) -> None:
        """Refuse servers of epochs before this one, which somebody else has seen."""
        with self._lock:
            if epoch <= self._seen:
                return
            self._see(epoch, told_by)
            self._numbers.clear()
            self.doubt()
        self._on_change()

    def look_at_all(self) -> list[Looked]:
        """Ask every server of the list, each in a thread, and return what they say in order.

        Before the first connection, there is nothing to say.
        """
        if self._open_one is None:
            return []
        looks = _Looks(self, self._open_one)
        try:
            return looks.wait(None)
        finally:
            looks.close()

    def watch(self) -> None:
        """Look, once a minute, for servers of the list that were `replaced`, and log them."""
        now = time.monotonic()
        if len(self._urls) == 1 or self._open_one is None or now < self._watch_at:
            return
        self._watch_at = now + TELL_SECONDS
        looks = _Looks(self, self._open_one)
        try:
            found = looks.wait(OTHERS_SECONDS)
        finally:
            looks.close()
        old = [
            looked
            for looked in found
            if looked.facts is not None
            and looked.has_schema
            and looked.epoch < self._seen
            and not looked.facts.is_read_only
        ]
        self.replaced = tuple(self.names[looked.place] for looked in old)
        for looked in old:
            self._tell_outdated(looked)

    def why_not(self, looked: Looked) -> str:
        """Return why a server cannot be used; empty if it can."""
        if looked.facts is None:
            return looked.fault
        if looked.epoch < self._seen:
            return self._outdated(looked.epoch)
        if not self._for_writing:
            return ""
        is_one_of_several = len(self._urls) > 1
        if looked.facts.is_read_only and (is_one_of_several or not self._is_known(looked)):
            return "it takes no writes"
        if is_one_of_several and looked.facts.is_replica and not self._is_known(looked):
            return "it is a replica of another server"
        return ""

    def look(self, connection: Any, place: int) -> Looked:
        """Ask the server of an open connection."""
        facts = self._dialect.server_facts(connection)
        try:
            [(recorded, epoch)] = _rows(connection, _STATE)
        except Exception as error:
            if not self._dialect.is_schema_fault(DBAPIError(_STATE, None, error)):
                raise
            return Looked(place, facts)
        finally:
            connection.rollback()
        return Looked(place, facts, recorded, int(epoch), has_schema=True)

    def _open(self, open_one: Callable[[int], Any], place: int) -> Any:
        connection = open_one(place)
        try:
            [(number,)] = _rows(connection, f"SELECT {self._dialect.server_number}")
            if str(number) not in self._numbers:
                self._admit(self.look(connection, place), connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _choose(self, open_one: Callable[[int], Any]) -> Any:
        """Return a connection to the best server of the list."""
        with self._choosing:
            if self._place is not None:  # another thread has chosen meanwhile
                return self._open(open_one, self._place)
            if time.monotonic() - self._failed_at < PAUSE_SECONDS:
                raise DatabaseUnavailable(self._failure)
            looks = _Looks(self, open_one)
            try:
                found = looks.wait(OTHERS_SECONDS)
                fit = [looked for looked in found if not self.why_not(looked)]
                if not fit:
                    self._fail(found)
                best = max(fit, key=self._worth)
                connection = looks.take(best.place)
            finally:
                looks.close()
            try:
                self._admit(best, connection)
            except BaseException:
                connection.close()
                raise
            has_moved, self._last_place = self._last_place != best.place, best.place
            self._place = best.place
        if has_moved:
            self._on_change()
        return connection

    def _worth(self, looked: Looked) -> tuple[Any, ...]:
        is_writable = looked.facts is not None and not looked.facts.is_read_only
        is_last = looked.place == self._last_place
        return looked.epoch, is_writable, looked.is_recorded, is_last, -looked.place

    def _fail(self, found: Sequence[Looked]) -> None:
        said = (f"{self.names[each.place]}: {self.why_not(each)}" for each in found)
        self._failure = f"cannot use any server of the database: {'; '.join(said)}"
        self._failed_at = time.monotonic()
        for each in found:
            if each.facts is not None and each.epoch < self._seen:
                self._tell_outdated(each)
        raise DatabaseUnavailable(self._failure)

    def _admit(self, looked: Looked, connection: Any) -> None:
        """Admit a connection to a server, and begin an epoch if it was promoted."""
        assert looked.facts is not None
        with self._lock:
            if why := self.why_not(looked):
                if looked.epoch < self._seen:
                    self._tell_outdated(looked)
                name = self.names[looked.place]
                raise DatabaseUnavailable(f"cannot use the database server {name}: {why}")
            epoch, identity = looked.epoch, looked.facts.identity
            may_write = self._for_writing and not looked.facts.is_read_only
            if looked.has_schema and may_write and not looked.is_recorded:
                epoch = max(epoch, self._take_over(looked, connection))
            before, self._identity = self._identity, identity
            has_changed = before not in (None, identity)
            if has_changed:
                self._numbers.clear()
                name = self.names[looked.place]
                log.warning("database_server_changed", server=name, now=identity, before=before)
            if looked.has_schema and (may_write or looked.is_recorded or not self._for_writing):
                self._numbers.add(looked.facts.number)
            self.epoch = epoch
            self._see(epoch, "this process")
        if has_changed:
            self._on_change()

    def _take_over(self, looked: Looked, connection: Any) -> int:
        """Record that the database is written on this server now; return its epoch, 0 if none."""
        assert looked.facts is not None
        words = f"{looked.facts.identity} at {self.names[looked.place]}"
        on_this = sqlalchemy.create_engine(
            self._urls[looked.place],
            creator=lambda: connection,
            poolclass=StaticPool,
            isolation_level="READ COMMITTED",
            hide_parameters=True,
        )
        with Session(on_this) as session:
            begun = epochs.take_over(
                session, looked.facts.identity, words, seen_id=self._highest_id()
            )
            session.commit()
        return begun

    def _is_known(self, looked: Looked) -> bool:
        """Return whether there is no promotion to record."""
        return looked.recorded is None or looked.is_recorded

    def _see(self, epoch: int, by: str) -> None:
        if epoch > self._seen:
            self._seen, self._seen_by = epoch, by

    def _outdated(self, epoch: int) -> str:
        own = f"of the epoch of {iso(epoch)}" if epoch else "of the first epoch"
        return (
            f"it is {own}, and {self._seen_by} has seen that of {iso(self._seen)}, so another "
            "server has taken its place; if this is the right one: warren db restored"
        )

    def _tell_outdated(self, looked: Looked) -> None:
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            log.error(
                "database_server_refused",
                server=self.names[looked.place],
                epoch=iso(looked.epoch),
                newest=iso(self._seen),
                seen_by=self._seen_by,
            )


class _Looks:
    """Asks all servers at once; keeps the connections until `close`."""

    def __init__(self, servers: Servers, open_one: Callable[[int], Any]) -> None:
        self._servers = servers
        self._open_one = open_one
        self._lock = threading.Lock()
        self._connections: dict[int, Any] = {}
        self._is_closed = False
        self._answers: queue.SimpleQueue[Looked] = queue.SimpleQueue()
        for place, name in enumerate(servers.names):
            thread = threading.Thread(
                target=self._ask, args=(place,), name=f"database {name}", daemon=True
            )
            thread.start()

    def wait(self, others_seconds: float | None) -> list[Looked]:
        """Return what is known; once one server is usable, wait this long for the others."""
        found: dict[int, Looked] = {}
        until = time.monotonic() + ANSWER_SECONDS
        while len(found) < len(self._servers.names):
            try:
                looked = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            found[looked.place] = looked
            if others_seconds is not None and not self._servers.why_not(looked):
                until = min(until, time.monotonic() + others_seconds)
        silent = "it does not answer in time"
        places = range(len(self._servers.names))
        return [found.get(place) or Looked(place, None, fault=silent) for place in places]

    def take(self, place: int) -> Any:
        """Return a connection, which is not closed with the others."""
        with self._lock:
            return self._connections.pop(place)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    def _ask(self, place: int) -> None:
        connection = None
        try:
            connection = self._open_one(place)
            looked = self._servers.look(connection, place)
        except Exception as error:  # noqa: BLE001 - whatever it is, this server cannot be used
            if connection is not None:
                connection.close()
            arguments = getattr(error, "args", ())
            words = " ".join(str(arguments[-1] if arguments else error).split())
            self._answers.put(Looked(place, None, fault=words))
            return
        with self._lock:
            if not self._is_closed:
                self._connections[place] = connection
                self._answers.put(looked)
                return
        connection.close()


def _name(url: URL, port: int) -> str:
    """Return what names a server in messages; `port` is the usual one."""
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    return str(url.query.get(SOCKET) or f"{host}:{url.port or port}")


def _rows(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
