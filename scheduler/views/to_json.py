"""Converts views to JSON."""

from collections.abc import Collection
from typing import Any, NamedTuple

from warren.sql.instants import iso


def to_json(view: NamedTuple, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a view, or a row, as a JSON object with its fields in order.

    Fields named `…_at` hold epoch milliseconds and become ISO 8601 in UTC, or null. Tuples become
    lists; a StrEnum stays a string.
    """
    return {
        name: plain(name, value) for name, value in view._asdict().items() if name not in without
    }


def plain(name: str, value: Any) -> Any:
    """Return the JSON value of a field."""
    if name.endswith("_at"):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value
