"""What forms for bulk actions send: ticked ids, or a filter that all targets match."""

import re
import secrets
from collections.abc import Collection, Sequence
from enum import StrEnum

from flask import abort, request, url_for

from warren.admin_web.url_routes import LARGEST, read_id

#: The most rows that can be ticked on one page.
MAX_TICKED = 200
#: The most characters of a filter.
MAX_FILTER_LENGTH = 4_000
_UNDO = "-undo"
_KEY = re.compile(rf"[A-Za-z0-9_-]{{22}}(?:{_UNDO})?", re.ASCII)


class BulkAction(StrEnum):
    """What to do with all chosen jobs or runs; forms send these values."""

    START = "start"
    STOP = "stop"
    UNDO_STOP = "undo"
    TRIGGER = "trigger"
    DELETE = "delete"
    RUN_AGAIN = "again"
    KILL = "kill"


def fresh_key() -> str:
    """Return a new random key for a form."""
    return secrets.token_urlsafe(16)


def undo_key(key: str) -> str:
    """Return the key for undoing the work of another key; equal keys make undoing idempotent."""
    return key + _UNDO


def sent_key() -> str:
    """Return the key of the submitted form; abort with 400 if it has none."""
    key = request.form.get("key", "")
    if not _KEY.fullmatch(key):
        abort(400)
    return key


def ticked_ids() -> Sequence[int]:
    """Return the ticked ids without duplicates."""
    sent = request.values.getlist("id")[:MAX_TICKED]
    ids = (read_id(text) for text in sent)
    return list(dict.fromkeys(id_ for id_ in ids if id_ is not None))


def is_about_all() -> bool:
    """Return whether the form means everything that matches a filter."""
    return request.values.get("all") == "1" and "only" not in request.values


def sent_filter() -> str:
    """Return the filter of the list that the form came from, as a query string."""
    query = request.values.get("filter", "")[:MAX_FILTER_LENGTH]
    return query if query.isprintable() else ""


def sent_action(allowed: Collection[BulkAction]) -> BulkAction:
    """Return the requested action; abort with 400 or, for a page, 404 if it is not allowed."""
    action = request.values.get("action", "")
    if action not in allowed:
        abort(400 if request.method == "POST" else 404)
    return BulkAction(action)


def list_url(endpoint: str) -> str:
    """Return the URL of a list with the filter in the request."""
    query = sent_filter()
    return url_for(endpoint) + (f"?{query}" if query else "")


def sent_number(name: str) -> int:
    """Return a number that the page wrote into the form; abort with 400 if it is not valid."""
    number = request.form.get(name, type=int)
    if number is None or not 0 <= number <= LARGEST:
        abort(400)
    return number
