"""Connections to MariaDB and MySQL with less overhead.

SQLAlchemy sends a ROLLBACK even after a COMMIT, which takes as long as the COMMIT. A transaction
can be open only after a statement, and never in autocommit mode, so `LeanConnection` leaves out
the others. It also remembers how the server describes columns: PyMySQL reads and parses the
description of each column of each answer in Python, a fifth of what a call of the API costs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pymysql.connections
from pymysql.connections import MySQLResult
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.engine import URL

_DRIVER = "lean"
#: The most columns that a connection remembers; about 1 kB each.
COLUMNS_LIMIT = 500
#: The most answers that a connection remembers, and the most with the same number of columns.
ANSWERS_LIMIT, ALIKE_LIMIT = 50, 8


class Columns(NamedTuple):
    """The columns of an answer: the server's packets, and what PyMySQL makes of them."""

    raw: bytes
    fields: Sequence[Any]
    converters: Sequence[Any]
    description: Sequence[Any]


class LeanResult(MySQLResult):
    """An answer whose columns are not parsed again if the same packets came before.

    This relies on PyMySQL's private API: if PyMySQL stops calling it, nothing is cached.
    """

    connection: Any
    field_count: int

    def _get_descriptions(self) -> None:
        connection, count = self.connection, self.field_count
        try:
            # What has arrived of the answer; it stays to be read.
            ahead = bytes(connection._rfile.peek())  # noqa: SLF001
        except OSError:
            ahead = b""  # PyMySQL gives the connection up when it reads
        for known in connection.known_columns(count):
            # The packets are numbered, so they match only in the same place as before.
            if ahead.startswith(known.raw) and known.raw[3] == connection._next_seq_id:  # noqa: SLF001
                connection._rfile.read(len(known.raw))  # noqa: SLF001
                connection._next_seq_id = (connection._next_seq_id + count) % 256  # noqa: SLF001
                _, self.fields, self.converters, self.description = known
                connection._read_packet()  # noqa: SLF001 - the end of the columns
                return
        super()._get_descriptions()  # type: ignore[misc]
        size = sum(4 + len(field.get_all_data()) for field in self.fields)
        if size <= len(ahead):
            raw = ahead[:size]
            connection.remember(Columns(raw, self.fields, self.converters, self.description))


class LeanConnection(pymysql.connections.Connection):
    """A connection that sends COMMIT and ROLLBACK only if a transaction may be open."""

    #: Stays set after an error, because the server may have begun a transaction before it.
    _may_be_open = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._columns: dict[tuple[bytes, str], FieldDescriptorPacket] = {}
        self._answers: dict[int, list[Columns]] = {}
        super().__init__(*arguments, **options)

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Send a statement."""
        self._may_be_open = not self.autocommit_mode
        return super().query(sql, unbuffered)

    def escape(self, obj: Any, mapping: Any = None) -> Any:
        """Return a value as SQL; most are whole numbers or NULL, which need no encoder."""
        if obj is None:
            return "NULL"
        return str(obj) if type(obj) is int else super().escape(obj, mapping)

    def commit(self) -> None:
        """Commit, unless in autocommit mode."""
        if not self.autocommit_mode:
            super().commit()
            self._may_be_open = False

    def rollback(self) -> None:
        """Roll back a transaction that may be open."""
        if self._may_be_open:
            super().rollback()
            self._may_be_open = False

    def known_columns(self, count: int) -> Sequence[Columns]:
        """Return what is remembered of answers with so many columns."""
        return self._answers.get(count, ())

    def remember(self, columns: Columns) -> None:
        if sum(map(len, self._answers.values())) >= ANSWERS_LIMIT:
            self._answers.clear()
        alike = self._answers.setdefault(len(columns.fields), [])
        alike.insert(0, columns)
        del alike[ALIKE_LIMIT:]

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)  # type: ignore[misc]
        self._result: Any = None
        result: Any = LeanResult(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        # PyMySQL's private API: if it is not called, nothing is cached.
        is_column = packet_type is FieldDescriptorPacket
        return super()._read_packet(self._column if is_column else packet_type)  # type: ignore[no-untyped-call]

    def _column(self, data: bytes, encoding: str) -> FieldDescriptorPacket:
        """Return a parsed description; it is only read, so several answers may share it."""
        column = self._columns.get((data, encoding))
        if column is None:
            if len(self._columns) >= COLUMNS_LIMIT:
                self._columns.clear()
            column = self._columns[data, encoding] = FieldDescriptorPacket(data, encoding)
        return column


class LeanDialect(MySQLDialect_pymysql):
    """SQLAlchemy's dialect with these connections."""

    driver = _DRIVER
    supports_statement_cache = True
    #: Makes the connections of an engine.
    connect_by: Callable[..., Any] = staticmethod(LeanConnection)

    def connect(self, *arguments: Any, **options: Any) -> Any:
        return self.connect_by(*arguments, **options)

    def on_connect(self) -> Any:
        """Return nothing to do: SQLAlchemy would repeat the SET NAMES of PyMySQL."""
        return None


registry.register(f"mysql.{_DRIVER}", __name__, LeanDialect.__name__)


def lean(url: URL) -> URL:
    """Return the URL with which SQLAlchemy makes such connections."""
    return url.set(drivername=f"mysql+{_DRIVER}")
