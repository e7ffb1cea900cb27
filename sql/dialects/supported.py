"""The supported databases, with the index hints, column types and table options of each.

A port adds its class to SUPPORTED, or to LAZY if its driver is an extra: then it can have no hints,
types or options of its own.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Select, Text, Update
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from warren.sql.dialects.dialect import Dialect
from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.sqlite import SQLite

SUPPORTED: tuple[Dialect, ...] = (MySQL(), SQLite())
_BY_NAME = {dialect.name: dialect for dialect in SUPPORTED}


def _postgresql() -> Dialect:
    from warren.sql.dialects.postgresql import PostgreSQL  # noqa: PLC0415 - its driver is an extra

    return PostgreSQL()


#: What makes the others, by name.
LAZY: dict[str, Callable[[], Dialect]] = {"postgresql": cache(_postgresql)}

Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

#: Stands for the index of the primary key, which has no name.
PRIMARY_KEY = ""


def named(name: str) -> Dialect:
    """Return the dialect with this SQLAlchemy name.

    Raises:
        ValueError: the database is not supported.
        ModuleNotFoundError: its driver is not installed.

    """
    if known := _BY_NAME.get(name):
        return known
    if name not in LAZY:
        names = ", ".join(sorted({*_BY_NAME, *LAZY}))
        raise ValueError(f"expected a database of {names}, got: {name}")
    return LAZY[name]()


def of(session: Session) -> Dialect:
    """Return the dialect of a session's database."""
    return named(session.get_bind().dialect.name)


def use_index(query: Query, model: type[Any], index: str) -> Query:
    """Return the query with hints to read a table by an index."""
    for dialect in SUPPORTED:
        if hint := dialect.index_hint(index):
            query = query.with_hint(model, hint, dialect.name)
    return query


def update_by_index(statement: Update, index: str) -> Update:
    """Return the UPDATE with hints to find its rows by an index."""
    for dialect in SUPPORTED:
        if hint := dialect.index_hint(index):
            statement = statement.with_hint(hint, dialect_name=dialect.name)
    return statement


def _long_text() -> TypeEngine[str]:
    standard = Text()
    for dialect in SUPPORTED:
        if dialect.long_text is not None:
            standard = standard.with_variant(dialect.long_text, dialect.name)
    return standard


def _auto_id() -> TypeEngine[int]:
    standard = BigInteger()
    for dialect in SUPPORTED:
        if dialect.auto_id is not None:
            standard = standard.with_variant(dialect.auto_id, dialect.name)
    return standard


#: The column types and table options of models and migrations.
LONG_TEXT = _long_text()
AUTO_ID = _auto_id()
TABLE_OPTIONS: dict[str, Any] = {
    name: value for dialect in SUPPORTED for name, value in dialect.table_options.items()
}
#: For tables in which the id of a deleted row is never used again.
LASTING_ID_OPTIONS: dict[str, Any] = {
    name: value for dialect in SUPPORTED for name, value in dialect.lasting_id_options.items()
}
