"""Reads the tables of another program's MySQL or MariaDB database; never writes to it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from warren.sql.dialects.database_url import parse
from warren.sql.dialects.url_forms import MYSQL, form_of
from warren.sql.engine import Database

#: How long the server may take for one statement, which may have to read a large table.
ANSWER_SECONDS = 600
#: Rows fetched by one statement.
PAGE_SIZE = 5_000

#: A row by column names, with all values as text.
Values = Mapping[str, str | None]


class ForeignDatabase:
    """A database of another program.

    Args:
        url: `mysql+pymysql://user@host/name`, without a password.
        password: the user's password.

    Raises:
        ValueError: the URL is of another kind of database.

    """

    def __init__(self, url: str, password: str) -> None:
        parsed = parse(url)
        if form_of(url) is not MYSQL:
            raise ValueError(f"expected a database of MySQL or MariaDB, got: {url[:100]}")
        self.name = str(parsed.database)
        whole = parsed.set(password=password or None).render_as_string(hide_password=False)
        self._database = Database(
            whole, pool_size=1, answer_seconds=ANSWER_SECONDS, for_writing=False
        )

    def close(self) -> None:
        self._database.close()

    def columns(self) -> dict[str, list[str]]:
        """Return the columns, in order, of each table that this user may read."""
        listed = text(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
        )
        columns: dict[str, list[str]] = {}
        for table, column in self._database.read(lambda session: session.execute(listed).all()):
            columns.setdefault(_text(table) or "", []).append(_text(column) or "")
        return columns

    def rows(self, tables: Mapping[str, Sequence[str]]) -> dict[str, list[Values]]:
        """Return all rows of some tables by id, in one snapshot; `tables` has their columns."""

        def unit(session: Session) -> dict[str, list[Values]]:
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            return {
                table: list(_pages(session, table, columns)) for table, columns in tables.items()
            }

        return self._database.read(unit)

    def pages(self, table: str, columns: Sequence[str], after: int) -> Iterator[list[Values]]:
        """Yield the rows of a large table after an id, in lists of up to PAGE_SIZE."""
        while rows := self._page(table, columns, after):
            yield rows
            after = int(rows[-1]["id"] or 0)

    def first_id(self, table: str, column: str, since: datetime) -> int | None:
        """Return the lowest id of the rows whose `column` is at or after `since`; None if none."""
        statement = text(
            f"SELECT MIN(id) FROM {_quoted(table)} "  # noqa: S608 - quoted
            f"WHERE {_quoted(column)} >= :since"
        )
        lowest: int | None = self._database.read(
            lambda session: session.execute(statement, {"since": since}).scalar()
        )
        return lowest

    def _page(self, table: str, columns: Sequence[str], after: int) -> list[Values]:
        return self._database.read(lambda session: _page(session, table, columns, after))

    def rows_unlike(
        self, table: str, columns: Sequence[str], after: int, *, column: str, value: int
    ) -> list[Values]:
        """Return the rows after an id in which a column has another number, by id."""
        names = ", ".join(map(_quoted, columns))
        statement = (
            f"SELECT {names} FROM {_quoted(table)} "  # noqa: S608 - quoted, and numbers of ours
            f"WHERE `id` > {after} AND {_quoted(column)} <> {value} ORDER BY `id`"
        )
        rows = self._database.read(
            lambda session: session.connection().exec_driver_sql(statement).all()
        )
        return [dict(zip(columns, map(_text, row), strict=True)) for row in rows]

    def highest_id(self, table: str) -> int:
        """Return the highest id of a table; 0 if it is empty."""
        statement = text(f"SELECT MAX(id) FROM {_quoted(table)}")  # noqa: S608 - quoted
        highest = self._database.read(lambda session: session.execute(statement).scalar())
        return int(highest or 0)


def _pages(session: Session, table: str, columns: Sequence[str]) -> Iterator[Values]:
    after = -1
    while rows := _page(session, table, columns, after):
        yield from rows
        after = int(rows[-1]["id"] or 0)


def _page(session: Session, table: str, columns: Sequence[str], after: int) -> list[Values]:
    names = ", ".join(map(_quoted, columns))
    rows = session.connection().exec_driver_sql(
        f"SELECT {names} FROM {_quoted(table)} "  # noqa: S608 - quoted, and numbers of ours
        f"WHERE `id` > {after} ORDER BY `id` LIMIT {PAGE_SIZE}"
    )
    return [dict(zip(columns, map(_text, row), strict=True)) for row in rows]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)
