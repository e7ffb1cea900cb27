"""Statements that SQLite and PostgreSQL share: INSERT … ON CONFLICT, UPDATE … FROM (VALUES …)."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Insert
from sqlalchemy.orm import QueryableAttribute

from warren.sql.dialects.dialect import Columns, UpdateRule


class OnConflict:
    """Part of a `Dialect` whose database has these statements.

    `_insert` makes SQLAlchemy's INSERT for it.
    """

    parameter: str
    _insert: Callable[[type[Any]], Any]

    def insert_or_ignore(self, model: type[Any], _key: QueryableAttribute[Any]) -> Insert:
        """Return ON CONFLICT DO NOTHING, which applies to any unique key."""
        insert: Insert = self._insert(model).on_conflict_do_nothing()
        return insert

    def insert_or_replace(
        self, model: type[Any], key: QueryableAttribute[Any], column: QueryableAttribute[Any]
    ) -> Insert:
        """Return ON CONFLICT DO UPDATE, which must name the key."""
        name = str(column.expression.key)
        insert = self._insert(model)
        replacing: Insert = insert.on_conflict_do_update(
            index_elements=[key], set_={name: insert.excluded[name]}
        )
        return replacing

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
        names = ", ".join(column.name for column in columns)
        rows = ", ".join([self._row(columns)] * count)
        named = f"({', '.join(column.name for column in same)}) " if same else ""
        into = f"{key.table.name} ({names}) VALUES {rows}"
        return f"INSERT INTO {into} ON CONFLICT {named}DO NOTHING"

    def update_rows(self, columns: Columns, count: int, key: Column[Any], rule: UpdateRule) -> str:
        """Start with UPDATE, not WITH, because otherwise SQLite's driver does not count rows."""
        table = key.table.name
        sources = {column.name: f"v.column{number}" for number, column in enumerate(columns, 1)}
        matched = (key.name, *rule.matched)
        sets = {name: value for name, value in sources.items() if name not in matched} | rule.sets
        changes = ", ".join(f"{name} = {value}" for name, value in sets.items())
        rows = ", ".join([self._first_row(columns), *[self._row(columns)] * (count - 1)])
        matches = "".join(f"{table}.{name} = {sources[name]} AND " for name in matched)
        return f"UPDATE {table} SET {changes} FROM (VALUES {rows}) AS v WHERE {matches}"  # noqa: S608 - constants of ours

    def update_alike(self, columns: Columns, ids: Sequence[int], key: Column[Any]) -> str:
        """Return a plain UPDATE; the planner uses the primary key by itself."""
        sets = ", ".join(f"{column.name} = {self.parameter}" for column in columns)
        listed = ",".join(map(str, ids))
        return f"UPDATE {key.table.name} SET {sets} WHERE {key.name} IN ({listed}) AND "  # noqa: S608 - constants and numbers of ours

    def _first_row(self, columns: Columns) -> str:
        """Return the placeholders of the first of several rows of values."""
        return self._row(columns)

    def _row(self, columns: Columns) -> str:
        return f"({', '.join([self.parameter] * len(columns))})"
