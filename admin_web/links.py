"""Links: the menu, pages of other groups, other positions in the same list."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Flask, current_app, request, url_for
from flask_babel import LazyString, lazy_gettext
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BuildError

from warren.admin_web.access.gate import local_path, parts_of
from warren.admin_web.url_routes import FORMS, below, here, home
from warren.admin_web.visitors import Visitor
from warren.scheduler.actor import Right


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A line of the menu; `icon` is defined in `macros/icons.html`."""

    endpoint: str
    icon: str
    text: LazyString
    right: Right


#: In this order, after the dashboard.
ENTRIES = (
    MenuEntry("jobs.index", "jobs", lazy_gettext("Jobs"), Right.VIEW),
    MenuEntry("runs.index", "runs", lazy_gettext("Runs"), Right.VIEW),
    MenuEntry("timeline.show", "timeline", lazy_gettext("Timeline"), Right.VIEW),
    MenuEntry("backfills.index", "calendar", lazy_gettext("Backfills"), Right.VIEW),
    MenuEntry("incidents.index", "incident", lazy_gettext("Incidents"), Right.VIEW),
    MenuEntry("alarms.index", "bell", lazy_gettext("Alarms"), Right.VIEW),
    MenuEntry("apps.index", "apps", lazy_gettext("Apps"), Right.VIEW),
    MenuEntry("executors.index", "executors", lazy_gettext("Executors"), Right.VIEW),
    MenuEntry("limits.index", "ledger", lazy_gettext("Limits"), Right.VIEW),
    MenuEntry("schedulers.index", "clock", lazy_gettext("Schedulers"), Right.VIEW),
    MenuEntry("calendars.index", "calendar", lazy_gettext("Calendars"), Right.VIEW),
    MenuEntry("ledger.index", "ledger", lazy_gettext("Reconciliation"), Right.VIEW),
    MenuEntry("tokens.index", "key", lazy_gettext("Tokens"), Right.VIEW),
    MenuEntry("users.index", "people", lazy_gettext("Users"), Right.ADMINISTER),
    MenuEntry("audit_log.show", "trail", lazy_gettext("Audit log"), Right.ADMINISTER),
)


def install(app: Flask) -> None:
    """Provide the menu to an app's templates."""
    app.jinja_env.globals["menu_entries"] = menu_entries


def menu_entries(viewer: Visitor) -> list[MenuEntry]:
    """Return the entries that a visitor may open."""
    return [entry for entry in ENTRIES if viewer.may(entry.right)]


def link_to(endpoint: str, **values: Any) -> str:
    """Return the path of a page; empty if this console has no such page."""
    try:
        return url_for(endpoint, **values)
    except BuildError:
        return ""


def same_list(**places: object) -> str:
    """Return the path of this list at another position, with the same filter; None = the beginning.

    Without `url_for`, which would treat query names like `_scheme` as its own options.
    """
    return f"{here()}{query_string(**places) or '?'}"


def query_string(**places: object) -> str:
    """Return this list's filter as a query string with `?`, with these values replaced.

    Empty if there is no filter.
    """
    query = request.args.to_dict() | places
    encoded = urlencode({name: at for name, at in query.items() if at not in (None, "")})
    return f"?{encoded}" if encoded else ""


def came_from() -> str:
    """Return the path of the page with the form that was sent; empty if it cannot be opened.

    If a visitor opened the URL that forms are sent to, it is that form's page.
    """
    if request.method in ("GET", "HEAD"):
        return "" if _opens(here()) else page_of(here())
    page = parts_of(request.referrer or "")
    if page.netloc != request.host:
        return ""
    return page_of(f"{page.path}?{page.query}" if page.query else page.path)


def page_of(target: str) -> str:
    """Return a path that can be opened: the target, or the page whose form is sent there.

    A page that shows a form's errors has the form's URL, which only takes POSTs. Empty if no page
    belongs to the target.
    """
    path = urlsplit(local_path(target)).path
    if _opens(path):
        return local_path(target)
    try:
        inner = below(request.script_root, path)
        endpoint, values = current_app.url_map.bind("").match(inner, method="POST")
    except HTTPException:
        return ""
    if form := current_app.config[FORMS][endpoint]:
        return url_for(form, **values)
    above = path.rpartition("/")[0]
    while above and not _opens(above):
        above = above.rpartition("/")[0]
    return above or home()


def _opens(path: str) -> bool:
    inner = below(request.script_root, path)
    return bool(current_app.url_map.bind("").test(inner or "/", method="GET"))
