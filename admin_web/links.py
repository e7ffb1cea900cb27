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


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuPage:
    """A page of the menu; only visitors with the right may open it."""

    endpoint: str
    text: LazyString
    right: Right = Right.VIEW

    def is_here(self) -> bool:
        """Whether this is the page, or the page above it."""
        if request.endpoint == self.endpoint:
            return True
        path = url_for(self.endpoint)
        return path != home() and here().startswith(f"{path}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry(MenuPage):
    """A line of the menu.

    Attributes:
        icon: defined in `macros/icons.html`.
        kind: the kind of jobs that the list of jobs is to show.
        beside: pages that belong to it, shown as tabs; the first one that a visitor may open is
            where the entry leads.

    """

    icon: str
    kind: str = ""
    beside: tuple[MenuPage, ...] = ()

    def pages(self, viewer: Visitor) -> list[MenuPage]:
        """Return the pages that a visitor may open; several are shown as tabs."""
        return [page for page in self.beside or (self,) if viewer.may(page.right)]

    def url(self, viewer: Visitor) -> str:
        """Return where the entry leads."""
        return url_for(self.pages(viewer)[0].endpoint, kind=self.kind or None)

    def is_here(self) -> bool:
        """Whether this page, or the page above it, is one of the entry's."""
        if request.endpoint == self.endpoint == "jobs.index":
            return request.args.get("kind", "") == self.kind
        if self.beside:
            return any(page.is_here() for page in self.beside)
        return not self.kind and MenuPage.is_here(self)


@dataclass(frozen=True, slots=True)
class MenuGroup:
    """Entries under a heading."""

    text: LazyString
    entries: tuple[MenuEntry, ...]


_RUNS = (
    MenuPage(endpoint="runs.index", text=lazy_gettext("Runs")),
    MenuPage(endpoint="run_errors.show", text=lazy_gettext("Errors")),
)
_PEOPLE = (
    MenuPage(endpoint="apps.index", text=lazy_gettext("Apps")),
    MenuPage(endpoint="users.index", text=lazy_gettext("Users"), right=Right.ADMINISTER),
    MenuPage(endpoint="tokens.index", text=lazy_gettext("Tokens")),
)
_AUDIT = (
    MenuPage(endpoint="audit_log.show", text=lazy_gettext("Audit log"), right=Right.ADMINISTER),
    MenuPage(endpoint="ledger.index", text=lazy_gettext("Reconciliation")),
)


def _entry(
    endpoint: str, icon: str, text: LazyString, beside: tuple[MenuPage, ...] = (), kind: str = ""
) -> MenuEntry:
    return MenuEntry(endpoint=endpoint, icon=icon, text=text, beside=beside, kind=kind)


GROUPS = (
    MenuGroup(
        lazy_gettext("Watch"),
        (
            _entry("board.show", "gauge", lazy_gettext("Board")),
            _entry("runs.index", "runs", lazy_gettext("Runs"), _RUNS),
            _entry("timeline.show", "timeline", lazy_gettext("Timeline")),
            _entry("incidents.index", "incident", lazy_gettext("Incidents")),
            _entry("queue.index", "queue", lazy_gettext("Queue")),
        ),
    ),
    MenuGroup(
        lazy_gettext("Plan"),
        (
            _entry("jobs.index", "jobs", lazy_gettext("Jobs")),
            _entry("jobs.index", "flow", lazy_gettext("Flows"), kind="flow"),
            _entry("backfills.index", "refill", lazy_gettext("Backfills")),
            _entry("calendars.index", "calendar", lazy_gettext("Calendars")),
            _entry("limits.index", "ledger", lazy_gettext("Limits")),
        ),
    ),
    MenuGroup(
        lazy_gettext("Machines"),
        (
            _entry("executors.index", "executors", lazy_gettext("Executors")),
            _entry("schedulers.index", "clock", lazy_gettext("Schedulers")),
        ),
    ),
    MenuGroup(
        lazy_gettext("Govern"),
        (
            _entry("apps.index", "people", lazy_gettext("Apps & people"), _PEOPLE),
            _entry("alarms.index", "bell", lazy_gettext("Alarms")),
            _entry("ledger.index", "trail", lazy_gettext("Audit"), _AUDIT),
        ),
    ),
)


def install(app: Flask) -> None:
    """Provide the menu to an app's templates."""
    app.jinja_env.globals.update(menu_groups=GROUPS, page_tabs=page_tabs)


def menu_entries() -> list[MenuEntry]:
    """Return the entries of all groups."""
    return [entry for group in GROUPS for entry in group.entries]


def page_tabs(viewer: Visitor) -> list[MenuPage]:
    """Return the pages that this page has beside it, itself included; empty if it has none."""
    for entry in menu_entries():
        if any(page.endpoint == request.endpoint for page in entry.beside):
            return entry.pages(viewer)
    return []


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
