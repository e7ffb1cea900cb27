"""Links to pages of other groups, and to other places in the same list."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import current_app, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BuildError

from admin_web.access.gate import local_path


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


def came_from() -> str:
    """Return the path of the page whose form was sent, empty when it cannot be opened again."""
    page = urlsplit(request.referrer or "")
    path = local_path(page.path)
    if page.netloc != request.host or request.method in ("GET", "HEAD"):
        return ""
    try:
        current_app.url_map.bind("").match(path, method="GET")
    except HTTPException:
        return ""
    return f"{path}?{page.query}" if page.query else path
