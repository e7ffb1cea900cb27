"""What a form says that is about many things: which were ticked, or what all of them fit."""

import re
import secrets
from collections.abc import Sequence

from flask import abort, request

from admin_web.url_ids import LARGEST

#: Things that can be ticked on one page.
MOST_TICKED = 200
_UNDO = "-undo"
_KEY = re.compile(rf"[A-Za-z0-9_-]{{22}}(?:{_UNDO})?", re.ASCII)


def fresh_key() -> str:
    """Return what tells one form from every other one."""
    return secrets.token_urlsafe(16)


def undo_key(key: str) -> str:
    """Return the key under which the work of another key is undone, so that it is so once."""
    return key + _UNDO


def sent_key() -> str:
    """Return the key that a form was given; 400 when it has none."""
    key = request.form.get("key", "")
    if not _KEY.fullmatch(key):
        abort(400)
    return key


def ticked_ids() -> Sequence[int]:
    """Return the ids that were ticked, each once."""
    sent = request.form.getlist("id")[:MOST_TICKED]
    ids = (int(text) for text in sent if text.isascii() and text.isdecimal())
    return list(dict.fromkeys(one for one in ids if one <= LARGEST))


def is_about_all() -> bool:
    """Return whether all that fit a filter are meant, not ticked ones or one alone."""
    return request.form.get("all") == "1" and "only" not in request.form


def sent_number(name: str) -> int:
    """Return a number that the page wrote into the form; 400 for anything else."""
    found = request.form.get(name, type=int)
    if found is None or not 0 <= found <= LARGEST:
        abort(400)
    return found
