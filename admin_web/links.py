"""Links to pages of other groups, and to other places in the same list."""

from typing import Any
from urllib.parse import urlencode

from flask import request, url_for
from werkzeug.routing import BuildError


def link_to(endpoint: str, **values: Any) -> str:
    """Return the path of a page, empty when this console has no such page."""
    try:
        return url_for(endpoint, **values)
    except BuildError:
        return ""


def same_list(**places: object) -> str:
    """Return the path of this list with the same filter at another place; None = its beginning.

    Not by `url_for`: it would take names of the query, like `_scheme`, for its own.
    """
    query = request.args.to_dict() | places
    return f"{request.path}?{urlencode({name: at for name, at in query.items() if at is not None})}"
