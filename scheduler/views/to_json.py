"""The one way in which a view becomes JSON."""

from collections.abc import Collection
from typing import Any, NamedTuple

from sql.instants import iso


def to_json(view: NamedTuple, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a view, or a row that is one, as a JSON object with its fields in their order.

    A field named `…_at` holds epoch milliseconds and becomes ISO 8601 in UTC, null when it has no
    instant. Tuples become lists; a StrEnum is its word.
    """
    return {
        name: plain(name, value) for name, value in view._asdict().items() if name not in without
    }


def plain(name: str, value: Any) -> Any:
    """Return the value of a field as JSON has it."""
    if name.endswith("_at"):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value
