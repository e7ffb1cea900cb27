"""Makes statements use an index, on databases that sometimes choose a worse one."""

from typing import Any, TypeVar

from sqlalchemy import Select, Update

from warren.sql.dialects.supported import SUPPORTED

Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

#: Stands for the index of the primary key, which has no name.
PRIMARY_KEY = ""


def use_index(query: Query, model: type[Any], index: str) -> Query:
    """Return the query with hints to read a table by an index."""
    for dialect in SUPPORTED:
        if words := dialect.index_hint(index):
            query = query.with_hint(model, words, dialect.name)
    return query


def update_by_index(statement: Update, index: str) -> Update:
    """Return the UPDATE with hints to find its rows by an index."""
    for dialect in SUPPORTED:
        if words := dialect.index_hint(index):
            statement = statement.with_hint(words, dialect_name=dialect.name)
    return statement
