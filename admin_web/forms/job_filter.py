"""The filter form above the list of jobs."""

from collections.abc import Sequence

from flask import request
from flask_babel import lazy_gettext
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web.forms.choices import ALL, select_choices
from warren.admin_web.forms.console_form import ConsoleForm
from warren.admin_web.visitors import Visitor
from warren.sql.listings.job_search import JobFilter, Order

#: Jobs per page.
LINES = 50
_STATES = (ALL, ("enabled", lazy_gettext("enabled")), ("stopped", lazy_gettext("stopped")))
_ORDERS = (
    (Order.NAME, lazy_gettext("app and name")),
    (Order.DUE, lazy_gettext("next run")),
    (Order.NEWEST, lazy_gettext("newest first")),
)
_SHORT = [Optional(), Length(max=255, message=lazy_gettext("Too long."))]


class JobFilterForm(ConsoleForm):
    """Asks which jobs to show."""

    app = SelectField(lazy_gettext("App"), default="")
    state = SelectField(lazy_gettext("State"), choices=select_choices(_STATES), default="")
    name = StringField(lazy_gettext("Name"), _SHORT)
    handler = StringField(lazy_gettext("Handler"), _SHORT)
    author = StringField(lazy_gettext("Author"), _SHORT)
    tag = StringField(lazy_gettext("Tag"), _SHORT)
    favourites = SelectField(
        lazy_gettext("Favourites"),
        choices=select_choices([ALL, ("1", lazy_gettext("favourites only"))]),
        default="",
    )
    order = SelectField(
        lazy_gettext("Sort by"), choices=select_choices(_ORDERS), default=Order.NAME.value
    )

    def set_choices(self, apps: Sequence[str]) -> None:
        """Set the apps to choose from."""
        self.app.choices = select_choices([ALL, *((app, app) for app in apps)])


def wanted(form: JobFilterForm, known: Visitor) -> JobFilter:
    """Return the filter of a valid form; its limit is one more than a page has."""
    return JobFilter(
        app_ids=known.app_ids,
        app=form.app.data or None,
        is_enabled={"enabled": True, "stopped": False}.get(form.state.data or ""),
        name=_text(form.name),
        handler=_text(form.handler),
        author=_text(form.author),
        tag=_text(form.tag),
        favourites_of=known.user_id if form.favourites.data else None,
        order=Order(form.order.data),
        after=request.args.get("after"),
        limit=LINES + 1,
    )


def _text(field: StringField) -> str | None:
    return (field.data or "").strip() or None
