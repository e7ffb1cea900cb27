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
    return f"{request.path}{query_string(**places) or '?'}"


def query_string(**places: object) -> str:
    """Return the filter of this list with its `?`, changed in places; empty for no filter."""
    query = request.args.to_dict() | places
    found = urlencode({name: at for name, at in query.items() if at not in (None, "")})
    return f"?{found}" if found else ""
