"""What a database must provide to keep Warren's rows; a port to another one is one such class.

Statements outside this folder are written with SQLAlchemy, which leaves out `FOR UPDATE` and
`SKIP LOCKED` where a database has neither. Such a database must admit one writer at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy
from sqlalchemy import Connection, Engine, Insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import QueryableAttribute
from sqlalchemy.types import TypeEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """How a `Database` connects; its docstring explains most of the attributes.

    `is_autocommit`: each statement is committed by itself. An embedded database needs no separate
    connections for this.
    """

    pool_size: int
    pool_seconds: float
    answer_seconds: int
    statement_seconds: int
    fail_fast: bool
    is_autocommit: bool = False

    @property
    def pool(self) -> dict[str, Any]:
        """Return what SQLAlchemy's pool of connections takes."""
        return {
            "pool_size": self.pool_size,
            "max_overflow": self.pool_size // 2,
            "pool_timeout": self.pool_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRule:
    """What `update_rows` does with every row, in SQL.

    Args:
        sets: columns that get the same expression in every row.
        matched: columns that are compared with the given values, not set.

    """

    sets: Mapping[str, str] = field(default_factory=dict)
    matched: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Locking:
    """Which rows `lock_rows` takes, in what order, as SQL; `skips` those that others hold."""

    guard: str
    order: str
    skips: bool = False


class Dialect(Protocol):
    """One kind of database; holds no state and opens nothing by itself."""

    #: What SQLAlchemy calls it.
    name: str
    #: How its URLs begin, with the driver, and what a whole one looks like.
    url_start: str
    url_form: str
    #: A file that this process opens itself: its writers queue here, and no server can be lost.
    is_embedded: bool
    #: How its driver marks the place of a value.
    parameter: str
    #: SQL for its clock in epoch milliseconds, and for 32 or more random characters.
    now_ms: str
    random_id: str
    #: Types of its own for a text of up to 16 MB and for an id that counts up; None = the standard.
    long_text: TypeEngine[str] | None
    auto_id: TypeEngine[int] | None
    #: Options of every table, and those of a table that never gives the id of a deleted row again.
    table_options: Mapping[str, str]
    lasting_id_options: Mapping[str, bool]

    def make_engine(self, url: URL, how: Connecting) -> Engine:
        """Return what makes connections, READ COMMITTED or stricter, and keeps them in a pool.

        A transaction whose connection has the execution option `warren_writing` is going to write;
        one with `warren_autocommit` is a single SELECT, without a transaction around it.
        """

    def version_problem(self, connected: sqlalchemy.Dialect) -> str | None:
        """Return why the server connected to cannot be used, None if it can."""

    def is_retryable(self, error: DBAPIError) -> bool:
        """Whether the same unit of work may succeed when it is tried again now."""

    def is_loss(self, error: DBAPIError) -> bool:
        """Whether the server is gone or stuck for everybody."""

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether the database is at fault and not the statement."""

    def index_hint(self, index: str) -> str | None:
        """Return the words that make a statement use an index, None if there are none.

        The index is a name, `""` = that of the primary key.
        """

    def insert_or_keep(self, model: type[Any], key: QueryableAttribute[Any]) -> Insert:
        """Return an INSERT that leaves a row alone whose key is there; `key` is unique."""

    def insert_or_replace(
        self, model: type[Any], key: QueryableAttribute[Any], column: QueryableAttribute[Any]
    ) -> Insert:
        """Return an INSERT that sets one column of a row whose key is there."""

    def insert_rows(self, table: str, columns: Sequence[str], count: int, key: str) -> str:
        """Return an INSERT of many rows in the driver's own words; a row that is there is kept.

        It must not cut a value that does not fit.
        """

    def update_rows(
        self, table: str, columns: Sequence[str], count: int, key: str, rule: "UpdateRule"
    ) -> str:
        """Return an UPDATE that gives each of many rows values of its own, up to `WHERE`/`AND`.

        The caller adds its guard. It goes from the values to the rows by their primary key and
        locks no others; its row count is of the rows that matched, changed or not.
        """

    def update_alike(self, table: str, columns: Sequence[str], ids: Sequence[int], key: str) -> str:
        """Return an UPDATE that gives many rows the same values, up to `AND`.

        It reaches the rows by their primary key and locks no others.
        """

    def lock_rows(
        self, table: str, columns: Sequence[str], ids: Sequence[int], key: str, how: "Locking"
    ) -> str:
        """Return a SELECT that locks rows, where there are such locks, by their primary key."""

    def lock_upgrade(self, connection: Connection, seconds: int) -> bool:
        """Keep other upgrades of the schema out; False if another was still on after so long."""

    def grants(self, rights: Mapping[str, str], database: str, user: str, host: str) -> list[str]:
        """Return statements that give an account its rights, by table.

        Raises:
            ValueError: a name would need quoting, or the database has no accounts.

        """
