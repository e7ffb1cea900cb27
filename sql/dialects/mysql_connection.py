"""A connection to MariaDB or MySQL that leaves out needless COMMIT and ROLLBACK statements.

SQLAlchemy sends a ROLLBACK even after a COMMIT, which takes as long as the COMMIT. A transaction
can be open only after a statement, and never in autocommit mode.
"""

from typing import Any

import pymysql.connections
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.engine import URL

_DRIVER = "lean"


class LeanConnection(pymysql.connections.Connection):
    """A connection that sends COMMIT and ROLLBACK only if a transaction may be open."""

    #: Stays set after an error, because the server may have begun a transaction before it.
    _may_be_open = False

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
