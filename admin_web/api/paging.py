"""Pages of lists: what a query says of them, the page itself, and where it goes on.

A cursor is a place as an opaque text, bound to the filter of the list that gave it.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec

from admin_web.api.refusals import at_parameter

T = TypeVar("T")
#: Lines of a page where nobody says otherwise, and at most.
USUAL, MOST = 50, 200
_MARK_LENGTH = 12
#: Ids are below this everywhere.
LARGEST_ID = 2**53
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST, description="Lines of a page.")]
Cursor = Annotated[str | None, msgspec.Meta(description="`next` of the page before.")]
Word = Annotated[str, msgspec.Meta(max_length=255)]
Instant = Annotated[
    str, msgspec.Meta(max_length=64, description="ISO 8601 with its offset, or `Z`.")
]


class PageQuery(msgspec.Struct, kw_only=True):
    """A list that needs no more than its place."""

    limit: Limit = USUAL
    cursor: Cursor = None


def page(
    kind: Any,
    query: Any,
    rows: Sequence[T],
    told: Callable[[T], Any],
    place: Callable[[T], Any],
) -> Any:
    """Return a page of rows, of which one more than its limit was read."""
    shown = rows[: query.limit]
    more = cursor(query, place(shown[-1])) if len(rows) > query.limit else None
    return kind(items=[told(row) for row in shown], next=more)


def instant_ms(name: str, text: str | None) -> int | None:
    """Return an instant of a query in epoch milliseconds.

    Raises:
        Refusal: it is not an instant, has no offset, or is out of range.

    """
    if text is None:
        return None
    try:
        # A plus in a query means a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if found.tzinfo is None:
            raise at_parameter(name, f"expected an instant with its offset, got: {text[:64]!r}")
        milliseconds = int(found.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise at_parameter(name, f"expected an ISO 8601 instant, got: {text[:64]!r}") from error
    return max(0, milliseconds)


def cursor(query: msgspec.Struct, place: Any) -> str:
    """Return a text for a place in the list of a query."""
    raw = msgspec.json.encode([_mark(query), place])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def place_of(query: Any, kind: Any) -> Any:
    """Return the place at which a query goes on, of a type; None when it begins.

    Raises:
        Refusal: the text is none of ours, or of a list with another filter.

    """
    text = query.cursor
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        mark, place = msgspec.json.decode(raw, type=tuple[str, kind])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise at_parameter("cursor", "expected what `next` of a page said") from error
    if isinstance(place, int) and not 0 <= place < LARGEST_ID:
        raise at_parameter("cursor", "expected what `next` of a page said")
    if mark != _mark(query):
        raise at_parameter("cursor", "it belongs to a list with another filter")
    return place


def _mark(query: msgspec.Struct) -> str:
    given = msgspec.structs.asdict(query) | {"cursor": None, "limit": None}
    raw = msgspec.json.encode([type(query).__name__, given])
    return hashlib.sha256(raw).hexdigest()[:_MARK_LENGTH]
