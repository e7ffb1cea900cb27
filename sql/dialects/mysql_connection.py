"""A connection to MariaDB or MySQL that ends no transaction where none can be open.

One may be open from the first statement on, until it is ended, unless the server commits each
statement by itself. SQLAlchemy sends a ROLLBACK after each COMMIT too, which costs as much as it.
"""

from typing import Any

import pymysql.connections
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.engine import URL

_DRIVER = "lean"


class LeanConnection(pymysql.connections.Connection):
    """See above."""

    #: Also after an error: the server may have begun a transaction before it.
    _may_be_open = False

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Send a statement."""
        self._may_be_open = not self.autocommit_mode
        return super().query(sql, unbuffered)

    def commit(self) -> None:
        """Commit, unless each statement was."""
        if not self.autocommit_mode:
            super().commit()
            self._may_be_open = False

    def rollback(self) -> None:
        """Undo what may be open."""
        if self._may_be_open:
            super().rollback()
            self._may_be_open = False


class LeanDialect(MySQLDialect_pymysql):
    """SQLAlchemy's own, with these connections."""

    driver = _DRIVER
    supports_statement_cache = True

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """Return a new connection."""
        return LeanConnection(*arguments, **options)


registry.register(f"mysql.{_DRIVER}", __name__, LeanDialect.__name__)


def lean(url: URL) -> URL:
    """Return the URL by which SQLAlchemy makes such connections."""
    return url.set(drivername=f"mysql+{_DRIVER}")
