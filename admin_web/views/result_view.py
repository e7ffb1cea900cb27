"""How a run's page shows its result: as a table, as a tree, or as text."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from warren.broker.messages.values import result_value

#: Results that are nested deeper or have more parts are shown as text. A table has so many columns.
MAX_DEPTH = 12
MAX_PARTS = 2_000
MAX_COLUMNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A part of a tree: its key or number, and its own text or its parts."""

    name: str
    text: str = ""
    parts: tuple["Branch", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """A result: a table with a row for each of its `columns`, else a tree, else `text`."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    tree: tuple[Branch, ...] = ()
    text: str = ""


def result_view(result: str | None, message: str) -> ResultView | None:
    """Return how to show a result; None if there is none, or the message says the same."""
    value = result_value(result)
    if value is None or (isinstance(value, str) and message.startswith(value)):
        return None
    if not isinstance(value, dict | list) or not value:
        return None if _text(value) == message else ResultView(text=_text(value))
    if columns := _columns(value):
        rows = tuple(tuple(_text(row.get(name, "")) for name in columns) for row in value)
        return ResultView(columns=columns, rows=rows)
    if _parts(value, MAX_DEPTH) <= MAX_PARTS:
        return ResultView(tree=tuple(_branches(value)))
    return ResultView(text=result or "")


def _columns(value: Any) -> tuple[str, ...]:
    """Return the columns of a list of flat objects; none if a value is not one."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return ()
    if any(isinstance(cell, dict | list) for row in value for cell in row.values()):
        return ()
    columns = tuple(dict.fromkeys(name for row in value for name in row))
    return columns if len(columns) <= MAX_COLUMNS and len(value) <= MAX_PARTS else ()


def _parts(value: Any, depth: int) -> int:
    """Return how many parts a value has; more than may be shown if it is nested too deep."""
    if not isinstance(value, dict | list):
        return 1
    if not depth:
        return MAX_PARTS + 1
    return 1 + sum(_parts(part, depth - 1) for _, part in _items(value))


def _branches(value: Any) -> Iterable[Branch]:
    for name, part in _items(value):
        if isinstance(part, dict | list) and part:
            yield Branch(name=name, parts=tuple(_branches(part)))
        else:
            yield Branch(name=name, text=_text(part))


def _items(value: dict[str, Any] | list[Any]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return ((str(number), part) for number, part in enumerate(value, start=1))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
