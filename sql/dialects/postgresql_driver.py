"""Connections to PostgreSQL by psycopg, and what SQLAlchemy's dialect lacks for Warren.

psycopg waits for an answer without a limit, so `TimedConnection` gives a connection up that is
silent for too long. Statements have the server's own placeholders, $1 and so on: to find psycopg's
takes it 8 us each, more than all the rest. Text columns are made with the collation of code points.
PostgreSQL stores no NUL, so texts have a visible substitute in its place.
"""

import select
import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg import OperationalError, RawCursor, RawServerCursor
from sqlalchemy import Column, Connection, String
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.engine import URL
from sqlalchemy.types import BigInteger, Double, Integer

_DRIVER = "warren"
#: What a stored text has in place of NUL: the symbol for it.
NUL = "\u2400"
#: Orders texts by code point, in any locale; and one that knows the letters of all scripts.
BY_CODE_POINT, ALL_SCRIPTS = "C", "und-x-icu"


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed if the server is silent for longer than `answer_seconds`."""

    answer_seconds = float("inf")

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait for the end of an exchange with the server.

        Raises:
            OperationalError: nothing came in time.

        """
        return super().wait(self._limited(gen), *arguments, **options)

    def is_stale(self) -> bool:
        """Whether the server has said something unasked, such as good-bye."""
        if self.closed:
            return True
        socket = select.poll()
        socket.register(self.fileno(), select.POLLIN)
        return bool(socket.poll(0))

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = time.monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                # psycopg also wakes up ten times a second when there is nothing: then it is 0.
                ready = yield wanted
                if ready:
                    until = time.monotonic() + self.answer_seconds
                elif time.monotonic() > until:
                    break
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
        self.pgconn.finish()
        raise OperationalError("lost the connection: the answer timed out")


class _Text(String):
    render_bind_cast = True

    def bind_processor(self, _dialect: object) -> Callable[[str | None], str | None]:
        return _without_nul


class _Double(Double[float]):
    """Comes from the driver as it is; SQLAlchemy's own would ask for the type of the answer."""

    def result_processor(self, _dialect: object, _coltype: object) -> None:
        return None


def _without_nul(text: str | None) -> str | None:
    return text.replace("\0", NUL) if text is not None and "\0" in text else text


class _TypeCompiler(PGTypeCompiler):
    """Gives text columns their collation; casts have none."""

    def visit_VARCHAR(self, type_: Any, **options: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        return _collated(super().visit_VARCHAR(type_, **options), **options)

    def visit_TEXT(self, type_: Any, **options: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        return _collated(super().visit_TEXT(type_, **options), **options)


def _collated(words: str, *, type_expression: Any = None, **_options: Any) -> str:
    return f'{words} COLLATE "{BY_CODE_POINT}"' if isinstance(type_expression, Column) else words


class _Compiler(PGCompiler_psycopg):
    """Leaves whole numbers the type that psycopg gives them by their size.

    So a number that is too large for a column is found in no row, as in other databases. INSERTs of
    several rows need the types, for columns in which all values are NULL.
    """

    def render_bind_cast(self, type_: Any, dbapi_type: Any, sqltext: str) -> str:
        is_narrow = isinstance(dbapi_type, Integer) and not isinstance(dbapi_type, BigInteger)
        if is_narrow and not self.isinsert:
            return sqltext
        return str(super().render_bind_cast(type_, dbapi_type, sqltext))


class TimedDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect with these connections; knows what the server says when it connects."""

    driver = _DRIVER
    supports_statement_cache = True
    #: An INSERT of many rows is one statement, not one each.
    use_insertmanyvalues_wo_returning = True
    statement_compiler = _Compiler
    type_compiler_cls = _TypeCompiler
    colspecs = PGDialect_psycopg.colspecs | {String: _Text, Double: _Double}
    #: The encoding of the database, and whether it has the collation of all scripts.
    server_encoding = ""
    has_all_scripts = True
    #: Makes the connections of an engine.
    connect_by: Callable[..., Any] = staticmethod(TimedConnection.connect)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"paramstyle": "numeric_dollar"})

    def connect(self, *arguments: Any, **options: Any) -> Any:
        return self.connect_by(*arguments, **options)

    def on_connect(self) -> Callable[[Any], None]:
        """Return what sets a connection up for this dialect's statements."""
        before: Callable[[Any], None] = super().on_connect()

        def set_up(connection: Any) -> None:
            before(connection)
            connection.cursor_factory = RawCursor
            connection.server_cursor_factory = RawServerCursor

        return set_up

    def initialize(self, connection: Connection) -> None:
        """Ask what the parameters of the connection do not tell."""
        super().initialize(connection)
        self.server_encoding = self._parameter(connection, "server_encoding")
        known = "SELECT EXISTS (SELECT FROM pg_collation WHERE collname = $1)"
        self.has_all_scripts = bool(connection.exec_driver_sql(known, (ALL_SCRIPTS,)).scalar())

    def _parameter(self, connection: Connection, name: str) -> str:
        driver: Any = connection.connection.driver_connection
        return str(driver.info.parameter_status(name) or "")


registry.register(f"postgresql.{_DRIVER}", __name__, TimedDialect.__name__)


def timed(url: URL) -> URL:
    """Return the URL with which SQLAlchemy makes such connections."""
    return url.set(drivername=f"postgresql+{_DRIVER}", query={})
