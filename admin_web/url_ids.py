"""Ids in URLs: in paths, and as positions in lists."""

from flask import request
from werkzeug.routing import IntegerConverter, Map

#: The largest key of the database.
LARGEST = 2**63 - 1


class IdConverter(IntegerConverter):
    """`<id:run_id>` in a rule: a number that can be a key; anything else is 404."""

    regex = "[0-9]{1,19}"

    def __init__(self, url_map: Map) -> None:
        super().__init__(url_map, max=LARGEST)


def read_id(text: str) -> int | None:
    """Return the id that a text is; None if it cannot be one."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST))
    return int(text) if is_number and 0 < int(text) <= LARGEST else None


def id_argument(name: str) -> int | None:
    """Return an id from the query; None if it is missing or invalid."""
    found = request.args.get(name, type=int)
    return found if found is not None and 0 < found <= LARGEST else None
