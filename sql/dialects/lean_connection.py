"""Connections to MariaDB and MySQL with less overhead.

SQLAlchemy sends a ROLLBACK even after a COMMIT, which takes as long as the COMMIT. A transaction
can be open only after a statement, and never in autocommit mode, so `LeanConnection` leaves out
the others. It also remembers how the server describes a column: PyMySQL parses the description of
each column of each answer in Python, a tenth of what a call of the API costs.
"""

from typing import Any

import pymysql.connections
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.engine import URL

_DRIVER = "lean"
#: The most columns that a connection remembers; about 1 kB each.
COLUMNS_LIMIT = 500


class LeanConnection(pymysql.connections.Connection):
    """A connection that sends COMMIT and ROLLBACK only if a transaction may be open."""

    #: Stays set after an error, because the server may have begun a transaction before it.
    _may_be_open = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._columns: dict[tuple[bytes, str], FieldDescriptorPacket] = {}
        super().__init__(*arguments, **options)

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Send a statement."""
        self._may_be_open = not self.autocommit_mode
        return super().query(sql, unbuffered)

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

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        # Private to PyMySQL: without a call from there, nothing is remembered.
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

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """Return a new connection."""
        return LeanConnection(*arguments, **options)


registry.register(f"mysql.{_DRIVER}", __name__, LeanDialect.__name__)


def lean(url: URL) -> URL:
    """Return the URL with which SQLAlchemy makes such connections."""
    return url.set(drivername=f"mysql+{_DRIVER}")
