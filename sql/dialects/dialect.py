"""The interface to a database; a port to another database is one such class.

Statements outside this folder are written with SQLAlchemy, which omits `FOR UPDATE` and
`SKIP LOCKED` for databases without them. Such a database must allow only one writer at a time.
`tests/integration/sql/dialects/test_conformance.py` holds each dialect to this contract.

Errors of any database are classified: try again, unavailable, or a fault of the statement.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import sqlalchemy
from sqlalchemy import Column, ColumnElement, Connection, Engine, Insert, Table
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import QueryableAttribute
from sqlalchemy.sql import SQLColumnExpression
from sqlalchemy.types import TypeEngine

from warren.sql.dialects.url_forms import UrlForm
from warren.sql.errors import DatabaseUnavailable


def too_old(name: str, version: tuple[int, ...], needed: tuple[int, ...]) -> str | None:
    """Return an error message if `version` is below `needed`; otherwise None."""
    if version >= needed:
        return None
    return f"expected {name} to be {_text(needed)} or newer, got: {_text(version)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says of itself.

    Attributes:
        number: what tells it from the servers that it replicates, or from its replicas, and changes
            when it becomes read-only.
        identity: which server it is; of a cluster whose nodes commit together, the cluster's.
        is_read_only: it refuses writes of ordinary accounts.
        is_replica: it takes changes from another server now.

    """

    number: str
    identity: str
    is_read_only: bool
    is_replica: bool


class ServerChoice(Protocol):
    """Chooses the server of each new connection."""

    def connect(self, open_one: Callable[[int], Any]) -> Any:
        """Return a new connection of the driver; `open_one` opens one to a server of the list."""

    def doubt(self) -> None:
        """Look again which server to use: this one was lost, or takes no writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """How a `Database` connects; its docstring explains most of the attributes.

    `is_autocommit`: each statement is committed by itself. An embedded database needs no separate
    connections for this. `servers` is None for one without servers.
    """

    pool_size: int
    pool_seconds: float
    answer_seconds: int
    statement_seconds: int
    fail_fast: bool
    is_autocommit: bool = False
    servers: ServerChoice | None = None

    @property
    def pool(self) -> dict[str, Any]:
        """Return the arguments of SQLAlchemy's connection pool."""
        return {
            "pool_size": self.pool_size,
            "max_overflow": self.pool_size // 2,
            "pool_timeout": self.pool_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRule:
    """What `update_rows` does in the same way in all rows.

    Args:
        sets: columns that get the same SQL expression in every row.
        matched: columns that must equal the given values and are not set.

    """

    sets: dict[str, str] = field(default_factory=dict)
    matched: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Locking:
    """Condition and order of `lock_rows` in SQL; `skips` rows that others have locked."""

    guard: str
    order: str
    skips: bool = False


#: Columns of one table, with their types.
Columns: TypeAlias = Sequence[Column[Any]]


class Dialect(Protocol):
    """A kind of database; it has no state and opens nothing by itself."""

    #: SQLAlchemy's name of it.
    name: str
    #: The form of its URLs.
    url_form: UrlForm
    #: A file that this process opens itself: writers queue in this process, and there is no server.
    is_embedded: bool
    #: Whether the least value of each group is found by jumping along an index from group to group,
    #: and not by reading all of it.
    jumps_to_groups: bool
    #: How a condition is written that only filters rows which are found by something else.
    as_filter: str
    #: SQL for its clock in epoch milliseconds, for 32 or more random characters, and for the
    #: `number` of the connected server.
    now_ms: str
    random_id: str
    server_number: str
    #: SELECT of all indexes but primary keys: table, name, whether it is unique, columns joined by
    #: commas. A name that the database has chosen, and columns that are expressions, are NULL.
    indexes: str
    #: Types for texts of up to 16 MB and for auto-increment ids; None = the standard type.
    long_text: TypeEngine[str] | None
    auto_id: TypeEngine[int] | None
    #: What a stored text has in place of NUL: NUL itself, or a substitute. Binding a value of a
    #: text column, as SQLAlchemy does for its type, must put it there.
    nul: str
    #: Options of every table, and of tables in which the id of a deleted row is never used again.
    #: With them, texts are equal and ordered by code point, in any locale of the server.
    table_options: Mapping[str, str]
    lasting_id_options: Mapping[str, bool]
    #: Statements that end each upgrade of the schema, for what its tables need here only.
    after_upgrade: Sequence[str]

    def make_engine(self, urls: Sequence[URL], how: Connecting) -> Engine:
        """Return an engine with a pool of connections at READ COMMITTED or stricter.

        The URLs are those of one database's servers, see `ServerChoice`; an embedded one has one.
        The execution option `warren_writing` announces a transaction that writes;
        `warren_autocommit` announces SELECTs without a transaction.
        """

    def server_facts(self, connection: Any) -> ServerFacts:
        """Return what the server of a driver's connection says of itself."""

    def version_problem(self, connected: sqlalchemy.Dialect) -> str | None:
        """Return why the connected server cannot be used; None if it can."""

    def is_retryable(self, error: DBAPIError) -> bool:
        """Whether the same unit of work may succeed if it is tried again now."""

    def is_loss(self, error: DBAPIError) -> bool:
        """Whether the server is unreachable or stuck, for all queries."""

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether the database is at fault, not the statement."""

    def is_schema_fault(self, error: DBAPIError) -> bool:
        """Whether a table or column is missing."""

    def is_id_taken(self, error: DBAPIError) -> bool:
        """Whether a row could not be inserted because another one has its primary key."""

    def index_hint(self, index: str) -> str | None:
        """Return the hint that makes a statement use an index; None if the database has none.

        `index` is a name; `""` = the primary key.
        """

    def lower(self, text: ColumnElement[str]) -> ColumnElement[str]:
        """Return the text in lower case, in all scripts."""

    def replace_all(
        self, text: ColumnElement[str], pattern: str, by: str
    ) -> ColumnElement[str | None]:
        """Return the text with each match of a regular expression replaced; NULL stays NULL."""

    def byte_length(self, text: QueryableAttribute[Any]) -> ColumnElement[int]:
        """Return how many bytes a text has in UTF-8; 0 for NULL."""

    def sum_of(self, number: SQLColumnExpression[int]) -> ColumnElement[int]:
        """Return the sum of whole numbers as an `int`; 0 if there are none."""

    def insert_or_ignore(self, model: type[Any], key: QueryableAttribute[Any]) -> Insert:
        """Return an INSERT that keeps an existing row with the same unique `key`."""

    def insert_or_add(self, model: type[Any], column: QueryableAttribute[Any]) -> Insert:
        """Return an INSERT that adds to `column` of an existing row with the same primary key."""

    def places(self, first: int, count: int) -> list[str]:
        """Return the placeholders of values number `first` and so on of a statement."""

    def bind_rows(self, rows: Iterable[Collection[Any]]) -> tuple[Any, ...]:
        """Return what the driver takes for rows of values."""

    def insert_rows(
        self, columns: Columns, count: int, key: Column[Any], same: Columns = ()
    ) -> str:
        """Return an INSERT of many rows, for what `bind_rows` returns; existing rows are kept.

        With `same`, the columns of a unique key, only rows with that key are kept; if a row with
        another one has the primary key, the statement fails with an error that `is_id_taken` knows.

        The columns come with their types, for databases that would not know those of bare values;
        the values are bound as SQLAlchemy does for these types. The statement must not truncate
        values that do not fit.
        """

    def replace_rows(self, columns: Columns, count: int, key: Column[Any]) -> str:
        """Return the same, but existing rows with the same unique key get all other values."""

    def update_rows(self, columns: Columns, count: int, key: Column[Any], rule: UpdateRule) -> str:
        """Return an UPDATE of many rows with their own values, ending in `WHERE` or `AND`.

        It is for what `bind_rows` returns. The columns come with their types, as for `insert_rows`.
        The caller appends its guard. The statement finds rows by primary key and locks no others.
        Its row count includes rows that matched but did not change.
        """

    def update_alike(self, columns: Columns, ids: Sequence[int], key: Column[Any]) -> str:
        """Return an UPDATE of many rows to the same values, ending in `AND`.

        It finds rows by primary key and locks no others.
        """

    def lock_rows(
        self, columns: Columns, ids: Sequence[int], key: Column[Any], how: Locking
    ) -> str:
        """Return a SELECT by primary key that locks rows, if the database has row locks."""

    def skip_given_ids(self, connection: Connection, table: Table) -> None:
        """Make sure that a table's next ids are higher than those of its rows.

        Call it after inserting rows with explicit ids.
        """

    def lock_upgrade(self, connection: Connection, seconds: int) -> bool:
        """Lock out other schema upgrades; return False if another one takes longer than this."""

    def grants(self, rights: Mapping[str, str], database: str, user: str, host: str) -> list[str]:
        """Return the statements that grant an account its rights on each table.

        Raises:
            ValueError: a name would need quoting, or the database has no accounts.

        """


class OnConflict:
    """Statements that SQLite and PostgreSQL share: INSERT … ON CONFLICT, UPDATE … FROM.

    Part of such a `Dialect`; `_insert` makes SQLAlchemy's INSERT for it.
    """

    places: Callable[[int, int], list[str]]
    _insert: Callable[[type[Any]], Any]
    #: Returns a table of so many rows: `v`, with `column1` and so on.
    _table: Callable[[Columns, int], str]

    def insert_or_ignore(self, model: type[Any], _key: QueryableAttribute[Any]) -> Insert:
        """Return ON CONFLICT DO NOTHING, which applies to any unique key."""
        insert: Insert = self._insert(model).on_conflict_do_nothing()
        return insert

    def insert_or_add(self, model: type[Any], column: QueryableAttribute[Any]) -> Insert:
        """Return ON CONFLICT DO UPDATE, which must name the key."""
        name = str(column.expression.key)
        insert = self._insert(model)
        adding: Insert = insert.on_conflict_do_update(
            index_elements=list(model.__mapper__.primary_key),
            set_={name: column + insert.excluded[name]},
        )
        return adding

    def insert_rows(
        self, columns: Columns, count: int, key: Column[Any], same: Columns = ()
    ) -> str:
        """Return ON CONFLICT DO NOTHING, which applies to any unique key, or to the named one."""
        named = f"({', '.join(column.name for column in same)}) " if same else ""
        return f"{self._insert_rows(columns, count, key)} ON CONFLICT {named}DO NOTHING"

    def replace_rows(self, columns: Columns, count: int, key: Column[Any]) -> str:
        """Return ON CONFLICT DO UPDATE, which must name the key."""
        names = (column.name for column in columns if column is not key)
        sets = ", ".join(f"{name} = excluded.{name}" for name in names)
        insert = self._insert_rows(columns, count, key)
        return f"{insert} ON CONFLICT ({key.name}) DO UPDATE SET {sets}"

    def _insert_rows(self, columns: Columns, count: int, key: Column[Any]) -> str:
        names = ", ".join(column.name for column in columns)
        # WHERE, because SQLite would take ON for the beginning of a join.
        rows = f"SELECT * FROM {self._table(columns, count)} WHERE true"  # noqa: S608 - constants of ours
        return f"INSERT INTO {key.table.name} ({names}) {rows}"

    def update_rows(self, columns: Columns, count: int, key: Column[Any], rule: UpdateRule) -> str:
        """Start with UPDATE, not WITH, because otherwise SQLite's driver does not count rows."""
        table = key.table.name
        sources = {column.name: f"v.column{number}" for number, column in enumerate(columns, 1)}
        matched = (key.name, *rule.matched)
        sets = {name: value for name, value in sources.items() if name not in matched} | rule.sets
        changes = ", ".join(f"{name} = {value}" for name, value in sets.items())
        matches = "".join(f"{table}.{name} = {sources[name]} AND " for name in matched)
        return f"UPDATE {table} SET {changes} FROM {self._table(columns, count)} WHERE {matches}"  # noqa: S608 - constants of ours

    def update_alike(self, columns: Columns, ids: Sequence[int], key: Column[Any]) -> str:
        """Return a plain UPDATE; the planner uses the primary key by itself."""
        places = self.places(1, len(columns))
        pairs = zip(columns, places, strict=True)
        sets = ", ".join(f"{column.name} = {place}" for column, place in pairs)
        listed = ",".join(map(str, ids))
        return f"UPDATE {key.table.name} SET {sets} WHERE {key.name} IN ({listed}) AND "  # noqa: S608 - constants and numbers of ours


#: The table in a statement, and the words of an answer that did not come in time.
_TABLE = re.compile(r"(?:INTO|UPDATE|FROM|JOIN)\s+`?([a-z_]\w*)")
_TIMED_OUT = re.compile(r"timed out|timeout exceeded|lock timeout", re.IGNORECASE)


def is_retryable(error: DBAPIError | PoolTimeout, dialect: Dialect) -> bool:
    """Whether the same unit of work may succeed if it is tried again now."""
    return isinstance(error, DBAPIError) and dialect.is_retryable(error)


def is_loss(error: DBAPIError | PoolTimeout, dialect: Dialect) -> bool:
    """Whether the database's server is unreachable or stuck, for all queries."""
    return isinstance(error, DBAPIError) and dialect.is_loss(error)


def is_schema_fault(error: Exception, dialect: Dialect) -> bool:
    """Whether a table or column is missing, according to an error or its cause."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    return isinstance(cause, DBAPIError) and dialect.is_schema_fault(cause)


def check_tls_files(url: URL, names: Sequence[str]) -> None:
    """Raise DatabaseUnavailable for a file that a URL names in an argument and that is of no use.

    The drivers would ask for the passphrase of an encrypted key, where nobody may be.
    """
    for name in names:
        path = Path(str(url.query.get(name, ".")))
        if not os.access(path, os.R_OK):
            fault = "cannot be read" if path.exists() else "does not exist"
        elif name.endswith("key") and path.is_file() and b"ENCRYPTED" in path.read_bytes():
            fault = "is encrypted; expected a key without a passphrase"
        else:
            continue
        raise DatabaseUnavailable(f"{name} of the database URL: {path} {fault}")


def unavailable(
    error: DBAPIError | PoolTimeout, url: URL, dialect: Dialect
) -> DatabaseUnavailable | None:
    """Return a one-line error for an unavailable database; None if the statement is at fault."""
    where = url.set(query={}).render_as_string(hide_password=True)
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable(f"cannot use the database {where}: every connection is taken")
    if not dialect.is_unavailable(error):
        return None
    return DatabaseUnavailable(f"cannot use the database {where}: {_words(error)}")


def _words(error: DBAPIError) -> str:
    """Return what the database or its driver said, and the table that the statement was about."""
    arguments = getattr(error.orig, "args", ())
    # psycopg adds the lines of the statement to what the server said.
    said = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    words = " ".join(str(said or (arguments[-1] if arguments else error.orig)).split())
    table = _TABLE.search(error.statement or "")
    if table is None:
        return words
    hint = " (is it locked, for example by a dump?)" if _TIMED_OUT.search(words) else ""
    return f"{words}, at a statement on {table[1]}{hint}"
