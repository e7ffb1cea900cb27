"""The steps of a forward migration; each may be repeated.

MySQL and MariaDB commit each change of a table by itself, so an upgrade that was killed halfway is
made again from its beginning: what exists already is left as it is.
"""

from typing import Any

from alembic import op
from sqlalchemy import Column, inspect


def add_column(table: str, column: Column[Any]) -> None:
    """Add a column at the end of a table; it is nullable, or has a default for existing rows."""
    if column.name not in {found["name"] for found in _look("get_columns", table)}:
        op.add_column(table, column)


def create_table(table: str, *parts: Any, **options: Any) -> None:
    if table not in _look("get_table_names"):
        op.create_table(table, *parts, **options)


def create_index(name: str, table: str, columns: list[str]) -> None:
    if name not in {found["name"] for found in _look("get_indexes", table)}:
        op.create_index(name, table, columns)


def _look(what: str, *of: str) -> list[Any]:
    """Return what an inspector says of the database; nothing for a script that is only written."""
    if op.get_context().as_sql:
        return []
    return list(getattr(inspect(op.get_bind()), what)(*of))
