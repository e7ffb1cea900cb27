"""A list as a file, written while it is read, so that long lists take no memory.

Times are ISO 8601 in UTC, and names are those of the API, in every language.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from flask import Response, request

from warren.admin_web.downloads.places import FORMAT, FORMATS
from warren.scheduler.views.to_json import plain

#: Rows of a file at most, rows read before the first is sent, and rows read at a time after that.
MOST, FIRST, AT_ONCE = 10_000, 100, 500
#: Spreadsheets treat a text that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]


def is_asked() -> bool:
    """Return whether the request asks for a list as a file."""
    return request.args.get(FORMAT) in FORMATS


def answer(name: str, columns: Sequence[str], rows: Iterable[Row]) -> Response:
    """Return a list as a file in the requested format; `rows` are read while it is sent.

    That is after the view has returned, so reading them must not depend on the request.
    """
    lines = ({column: _plain(column, row[column]) for column in columns} for row in rows)
    few = islice(lines, MOST)
    is_csv = request.args.get(FORMAT) == "csv"
    text = _csv(columns, few) if is_csv else _json(few)
    kind, mimetype = ("csv", "text/csv") if is_csv else ("json", "application/json")
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return Response(text, mimetype=mimetype, headers=headers)


def pages(read: Callable[[Any, int], tuple[Sequence[Row], Any]]) -> Iterator[Row]:
    """Yield all rows.

    `read` gets the position of a page, None for the first, and its length; it returns the page and
    the position of the next, None at the end.
    """
    place, limit = None, FIRST
    while True:
        rows, place = read(place, limit)
        yield from rows
        if place is None:
            return
        limit = AT_ONCE


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON has it; texts are left as they are."""
    if isinstance(value, str):
        return value
    return plain("entry_at" if name == "at" else name, value)


def _csv(columns: Sequence[str], lines: Iterable[Row]) -> Iterator[str]:
    # Without a byte order mark, spreadsheets assume a legacy encoding.
    yield "\ufeff" + _line(columns)
    for line in lines:
        yield _line([_cell(line[column]) for column in columns])


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _json(lines: Iterable[Row]) -> Iterator[str]:
    start = "[\n"
    for line in lines:
        yield start + json.dumps(line, ensure_ascii=False)
        start = ",\n"
    yield "[]\n" if start == "[\n" else "\n]\n"
