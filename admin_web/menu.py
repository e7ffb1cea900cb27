"""The menu: one line for each page group that a visitor may open."""

from dataclasses import dataclass

from flask import Flask
from flask_babel import LazyString, lazy_gettext

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
    MenuEntry("alarms.index", "bell", lazy_gettext("Alarms"), Right.VIEW),
    MenuEntry("apps.index", "apps", lazy_gettext("Apps"), Right.VIEW),
    MenuEntry("executors.index", "executors", lazy_gettext("Executors"), Right.VIEW),
    MenuEntry("schedulers.index", "clock", lazy_gettext("Schedulers"), Right.VIEW),
    MenuEntry("ledger.index", "ledger", lazy_gettext("Reconciliation"), Right.VIEW),
    MenuEntry("incidents.index", "incident", lazy_gettext("Incidents"), Right.VIEW),
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
