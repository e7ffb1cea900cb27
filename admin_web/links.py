"""Links to pages of other groups, and to other places in the same list."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import current_app, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BuildError

from admin_web.access.gate import local_path
from admin_web.url_routes import FORMS


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
    """Return the path of the page whose form was sent, empty when it cannot be opened again.

    Whoever opens the address that a form is sent to came from that form's page, too.
    """
    if request.method in ("GET", "HEAD"):
        return "" if _opens(request.path) else page_of(request.path)
    page = urlsplit(request.referrer or "")
    if page.netloc != request.host:
        return ""
    return page_of(f"{page.path}?{page.query}" if page.query else page.path)


def page_of(target: str) -> str:
    """Return the path of a page that can be opened: the target, or the page whose form goes there.

    A page that shows what is wrong with a form has the address that only takes the form. Empty for
    what no page has to do with.
    """
    path = urlsplit(local_path(target)).path
    if _opens(path):
        return local_path(target)
    try:
        endpoint, values = current_app.url_map.bind("").match(path, method="POST")
    except HTTPException:
        return ""
    if form := current_app.config[FORMS][endpoint]:
        return url_for(form, **values)
    above = path.rpartition("/")[0]
    while above and not _opens(above):
        above = above.rpartition("/")[0]
    return above or "/"


def _opens(path: str) -> bool:
    return bool(current_app.url_map.bind("").test(path, method="GET"))
