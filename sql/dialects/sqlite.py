"""SQLite: a file that this process opens; writers wait for each other."""

import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import sqlalchemy
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    Table,
    cast,
    create_engine,
    event,
    func,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import QueryableAttribute
from sqlalchemy.sql import SQLColumnExpression
from sqlalchemy.types import TypeEngine

from warren.sql.dialects import url_forms
from warren.sql.dialects.dialect import (
    Columns,
    Connecting,
    Locking,
    OnConflict,
    ServerFacts,
    too_old,
)

#: The first version with UPDATE ... FROM.
OLDEST = (3, 33)


class SQLite(OnConflict):
    """See `Dialect`; SKIP LOCKED is not needed, because a write first locks the whole file."""

    name = "sqlite"
    url_form = url_forms.SQLITE
    is_embedded = url_form.is_embedded
    jumps_to_groups = False
    as_filter = "{}"
    _insert = staticmethod(sqlite.insert)
    now_ms = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    random_id = "lower(hex(randomblob(16)))"
    server_number = "''"
    indexes = (
        "SELECT t.name, CASE i.origin WHEN 'c' THEN i.name END, i.\"unique\", (SELECT "
        "group_concat(name) FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno)) "
        "FROM sqlite_master AS t, pragma_index_list(t.name) AS i "
        "WHERE t.type = 'table' AND i.origin <> 'pk'"
    )
    long_text: TypeEngine[str] | None = None
    auto_id: TypeEngine[int] | None = Integer()
    nul = "\0"
    table_options: Mapping[str, str] = {}
    lasting_id_options: Mapping[str, bool] = {"sqlite_autoincrement": True}
    after_upgrade: Sequence[str] = ()

    def make_engine(self, urls: Sequence[URL], how: Connecting) -> Engine:
        """Return an engine whose connections wait up to 5 s for another process's lock."""
        engine = create_engine(
            urls[0],
            hide_parameters=True,
            **how.pool,
            connect_args={"timeout": 5.0, "check_same_thread": False},
        )
        event.listen(engine, "connect", _configure)
        event.listen(engine, "begin", _begin)
        return engine

    def server_facts(self, _connection: Any) -> ServerFacts:
        """Return nothing of interest, because there is no server."""
        return ServerFacts(number="", identity="", is_read_only=False, is_replica=False)

    def version_problem(self, _connected: sqlalchemy.Dialect) -> str | None:
        """Check the version of the library in this process."""
        return too_old("SQLite", sqlite3.sqlite_version_info, OLDEST)

    def is_retryable(self, error: DBAPIError) -> bool:
        """Recognize another writer's lock by the driver's message."""
        if not isinstance(error.orig, sqlite3.OperationalError):
            return False
        return "locked" in str(error.orig) or "busy" in str(error.orig)

    def is_loss(self, _error: DBAPIError) -> bool:
        """Return False, because there is no server."""
        return False

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether the file is damaged, full, read-only or locked."""
        damaged = type(error.orig) is sqlite3.DatabaseError
        return damaged or isinstance(error.orig, sqlite3.OperationalError)

    def is_schema_fault(self, error: DBAPIError) -> bool:
        """Recognize a missing table or column by the message: the library has no code for it."""
        return str(error.orig).startswith(("no such table", "no such column"))

    def is_id_taken(self, error: DBAPIError) -> bool:
        """Compare the name of the library's error."""
        return getattr(error.orig, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_PRIMARYKEY"

    def index_hint(self, _index: str) -> str | None:
        """Return None; SQLite's planner needs no hints."""
        return None

    def lower(self, text: ColumnElement[str]) -> ColumnElement[str]:
        """Return a call of our own function: SQLite's handles ASCII only."""
        return func.lower(text)

    def replace_all(
        self, text: ColumnElement[str], pattern: str, by: str
    ) -> ColumnElement[str | None]:
        """Return a call of our own function: SQLite has none."""
        return func.regexp_replace(text, pattern, by)

    def byte_length(self, text: QueryableAttribute[Any]) -> ColumnElement[int]:
        """Return the length of a BLOB; that of a text counts characters."""
        return func.coalesce(func.length(cast(text, LargeBinary)), 0)

    def sum_of(self, number: SQLColumnExpression[int]) -> ColumnElement[int]:
        """Return SUM, which is an integer if the numbers are."""
        return func.coalesce(func.sum(number), 0)

    def places(self, _first: int, count: int) -> list[str]:
        """Return question marks."""
        return ["?"] * count

    def bind_rows(self, rows: Iterable[Collection[Any]]) -> tuple[Any, ...]:
        """Return all values in a row."""
        return tuple(chain.from_iterable(rows))

    def _table(self, columns: Columns, count: int) -> str:
        row = f"({', '.join(self.places(1, len(columns)))})"
        return f"(VALUES {', '.join([row] * count)}) AS v"

    def lock_rows(
        self, columns: Columns, ids: Sequence[int], key: Column[Any], how: Locking
    ) -> str:
        """Return a plain SELECT; a writer has already locked the whole file."""
        names, listed = ", ".join(column.name for column in columns), ",".join(map(str, ids))
        from_ = f"{key.table.name} WHERE {key.name} IN ({listed}) AND {how.guard}"
        return f"SELECT {names} FROM {from_} ORDER BY {how.order}"  # noqa: S608 - constants and numbers of ours

    def skip_given_ids(self, _connection: Connection, _table: Table) -> None:
        """Do nothing: the next id is always higher than those of all rows."""

    def lock_upgrade(self, _connection: Connection, _seconds: int) -> bool:
        """Return True; the transaction itself locks out others."""
        return True

    def grants(
        self, _rights: Mapping[str, str], _database: str, _user: str, _host: str
    ) -> list[str]:
        """Raise ValueError; SQLite has no accounts."""
        raise ValueError("SQLite has no accounts; grants are for MariaDB and MySQL")


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The driver itself would start transactions too late and without IMMEDIATE.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.create_function("regexp_replace", 3, _regexp_replace, deterministic=True)
    # The library's own function handles ASCII only.
    connection.create_function("lower", 1, _lower, deterministic=True)


def _regexp_replace(text: str | None, pattern: str, replacement: str) -> str | None:
    """Replace all matches, as REGEXP_REPLACE of servers does."""
    return None if text is None else re.sub(pattern, replacement, text)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("warren_autocommit", False):
        writing = options.get("warren_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
