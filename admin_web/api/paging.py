"""Pages of lists: the common parameters, the page itself, and the cursor of the next one.

A cursor is an opaque text for a position, valid only for lists with the same filter.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeVar

import msgspec

from warren.admin_web.api.bodies import FieldErrors
from warren.admin_web.api.problem_answers import at_parameter, at_pointer
from warren.resources.operation import LARGEST_ID, MAX_LIMIT
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.run_date import parse_date

T = TypeVar("T")
_MARK_LENGTH = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="Items of a page.")]
Cursor = Annotated[str | None, msgspec.Meta(description="`next` of the previous page.")]


def page(
    kind: Any,
    query: Any,
    rows: Sequence[T],
    to_item: Callable[[T], Any],
    place: Callable[[T], Any],
) -> Any:
    """Return a page of rows, of which one more than the limit was read.

    `to_item` converts a row to an item; `place` returns the position after it.
    """
    shown = rows[: query.limit]
    more = cursor(query, place(shown[-1])) if len(rows) > query.limit else None
    return kind(items=[to_item(row) for row in shown], next=more)


def instant_ms(name: str, text: str | None) -> int | None:
    """Return a time in a query as epoch milliseconds; None if it is not given.

    Raises:
        Refusal: it is not a time, has no offset, or is out of range.

    """
    if text is None:
        return None
    try:
        # In a query, an unescaped plus means a space.
        return _milliseconds(text.replace(" ", "+") if "T" in text else text)
    except ValueError as error:
        raise at_parameter(name, str(error)) from error


def query_day(name: str, text: str | None) -> date | None:
    """Return a date in a query; None if it is not given.

    Raises:
        Refusal: it is no date.

    """
    try:
        return None if text is None else parse_date(text)
    except Problem as problem:
        raise at_parameter(name, str(problem)) from problem


def body_day(pointer: str, text: str | None, wrong: FieldErrors) -> date | None:
    """Return a date in a body; None if it is not given, or is none, which is added to `wrong`."""
    try:
        return None if text is None else parse_date(text)
    except Problem as problem:
        wrong.add(pointer, str(problem))
        return None


def body_instant_ms(pointer: str, text: str | None, wrong: FieldErrors | None = None) -> int | None:
    """Return a time in a body as epoch milliseconds; None if it is not given.

    What is no time is added to `wrong`.

    Raises:
        Refusal: it is no time, and there is no `wrong`.

    """
    try:
        return None if text is None else _milliseconds(text)
    except ValueError as error:
        if wrong is None:
            raise at_pointer(pointer, str(error)) from error
        wrong.add(pointer, str(error))
        return None


def _milliseconds(text: str) -> int:
    """Return an instant as epoch milliseconds; raises ValueError with what was expected."""
    try:
        instant = datetime.fromisoformat(text)
        milliseconds = (instant.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(f"expected an ISO 8601 instant, got: {text[:64]!r}") from None
    if instant.tzinfo is None:
        raise ValueError(f"expected an instant with its offset, got: {text[:64]!r}")
    return max(0, milliseconds)


def cursor(query: msgspec.Struct, place: Any) -> str:
    """Return the cursor of a position in the list of a query."""
    raw = msgspec.json.encode([_mark(query), place])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def place_of(query: Any, kind: Any) -> Any:
    """Return the position where a query continues, as `kind`; None at the beginning.

    Raises:
        Refusal: the cursor is not ours, or belongs to a list with another filter.

    """
    text = query.cursor
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        mark, place = msgspec.json.decode(raw, type=tuple[str, kind])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise at_parameter("cursor", "expected the `next` of an earlier page") from error
    parts = place if isinstance(place, tuple) else (place,)
    if any(isinstance(part, int) and not 0 <= part < LARGEST_ID for part in parts):
        raise at_parameter("cursor", "expected the `next` of an earlier page")
    if mark != _mark(query):
        raise at_parameter("cursor", "it belongs to a list with another filter")
    return place


def _mark(query: msgspec.Struct) -> str:
    given = msgspec.structs.asdict(query) | {"cursor": None, "limit": None}
    raw = msgspec.json.encode([type(query).__name__, given])
    return hashlib.sha256(raw).hexdigest()[:_MARK_LENGTH]
