"""Reads the tables of somebody else's MySQL or MariaDB, which it never writes to."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from sql.dialects.database_url import parse
from sql.engine import Database

#: How long the server may take for one statement: a large table may have to be read whole.
ANSWER_SECONDS = 600
#: Rows fetched by one statement.
PAGE = 5_000

#: A row by the names of its columns, everything as text.
Values = Mapping[str, str | None]


class ForeignDatabase:
    """A database of another program, read by one transaction that sees a single moment.

    Args:
        url: `mysql+pymysql://user@host/name`, without a password.
        password: of that user.

    Raises:
        ValueError: the URL is of another kind.

    """

    def __init__(self, url: str, password: str) -> None:
        parsed = parse(url)
        if parsed.get_backend_name() != "mysql":
            raise ValueError(f"expected a database of MySQL or MariaDB, got: {url[:100]}")
        self.name = str(parsed.database)
        whole = parsed.set(password=password or None).render_as_string(hide_password=False)
        self._database = Database(whole, pool_size=1, answer_seconds=ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each table that this user may read, in their order."""
        listed = text(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
        )
        found: dict[str, list[str]] = {}
        for table, column in self._database.read(lambda session: session.execute(listed).all()):
            found.setdefault(_text(table) or "", []).append(_text(column) or "")
        return found

    def rows(self, tables: Mapping[str, Sequence[str]]) -> dict[str, list[Values]]:
        """Return all rows of some tables, by their ids; `tables` names the columns of each."""

        def unit(session: Session) -> dict[str, list[Values]]:
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            return {
                table: list(_pages(session, table, columns)) for table, columns in tables.items()
            }

        return self._database.read(unit)

    def pages(self, table: str, columns: Sequence[str], after: int) -> Iterator[list[Values]]:
        """Give the rows of a large table behind an id, some thousand at a time."""
        while rows := self._page(table, columns, after):
            yield rows
            after = int(rows[-1]["id"] or 0)

    def first_id(self, table: str, column: str, since: datetime) -> int | None:
        """Return the lowest id of the rows with an instant since this one, None without any."""
        statement = text(
            f"SELECT MIN(id) FROM {_quoted(table)} "  # noqa: S608 - quoted
            f"WHERE {_quoted(column)} >= :since"
        )
        found: int | None = self._database.read(
            lambda session: session.execute(statement, {"since": since}).scalar()
        )
        return found

    def _page(self, table: str, columns: Sequence[str], after: int) -> list[Values]:
        return self._database.read(lambda session: _page(session, table, columns, after))

    def highest_id(self, table: str) -> int:
        """Return the highest id of a table, 0 of an empty one."""
        statement = text(f"SELECT MAX(id) FROM {_quoted(table)}")  # noqa: S608 - quoted
        found = self._database.read(lambda session: session.execute(statement).scalar())
        return int(found or 0)


def _pages(session: Session, table: str, columns: Sequence[str]) -> Iterator[Values]:
    after = -1
    while rows := _page(session, table, columns, after):
        yield from rows
        after = int(rows[-1]["id"] or 0)


def _page(session: Session, table: str, columns: Sequence[str], after: int) -> list[Values]:
    names = ", ".join(map(_quoted, columns))
    found = session.connection().exec_driver_sql(
        f"SELECT {names} FROM {_quoted(table)} "  # noqa: S608 - quoted, and numbers of ours
        f"WHERE `id` > {after} ORDER BY `id` LIMIT {PAGE}"
    )
    return [dict(zip(columns, map(_text, row), strict=True)) for row in found]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)
