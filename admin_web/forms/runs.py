"""The forms that filter runs and clear them."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from flask import url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from wtforms import (
    BooleanField,
    DateTimeLocalField,
    Field,
    RadioField,
    SelectField,
    StringField,
    ValidationError,
)
from wtforms.validators import InputRequired, Length, Optional

from admin_web.access.gate import LIVE_HEADER
from admin_web.forms.choices import select_choices
from admin_web.forms.console_form import ConsoleForm
from admin_web.language import labels
from admin_web.url_ids import LARGEST
from scheduler.retention.clearing import Choice
from sql.listings import run_choices
from sql.listings.dashboard import FAILURES
from sql.listings.run_search import Place
from sql.registry.apps import ids_by_name
from sql.run_status import OPEN, RunStatus

_ALL = ("", lazy_gettext("all"))
_TOO_LONG = lazy_gettext("Too long.")
_YEARS = range(2000, 2200)
#: The largest instant that a DATETIME holds.
_LAST_MS = 253_402_300_799_000
_PLACE = re.compile(r"[0-9]{1,19}(?:-[0-9]{1,19}){1,3}", re.ASCII)

#: States that are chosen together, by the value that stands for them.
GROUPS = {"open": OPEN, "failures": FAILURES}
_STATUSES = [
    _ALL,
    ("open", lazy_gettext("unfinished")),
    ("failures", lazy_gettext("any failure")),
    *((status.value, state.word) for status, state in labels.STATUS.items()),
]
#: XXL-JOB's nine choices, in its order.
CLEARED = {
    Choice.OLDER_THAN_1_MONTH: lazy_gettext("Older than 1 month"),
    Choice.OLDER_THAN_3_MONTHS: lazy_gettext("Older than 3 months"),
    Choice.OLDER_THAN_6_MONTHS: lazy_gettext("Older than 6 months"),
    Choice.OLDER_THAN_1_YEAR: lazy_gettext("Older than 1 year"),
    Choice.ALL_BUT_1_000: lazy_gettext("All except the newest 1,000"),
    Choice.ALL_BUT_10_000: lazy_gettext("All except the newest 10,000"),
    Choice.ALL_BUT_30_000: lazy_gettext("All except the newest 30,000"),
    Choice.ALL_BUT_100_000: lazy_gettext("All except the newest 100,000"),
    Choice.ALL: lazy_gettext("All finished runs"),
}


class RunScopeForm(ConsoleForm):
    """Asks for an app and a job; their choices are those of whoever looks."""

    app = SelectField(lazy_gettext("App"), default="")
    job = StringField(lazy_gettext("Job"), [Optional(), Length(max=255, message=_TOO_LONG)])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._app_ids: Collection[int] | None = None
        self._found: list[int] = []
        self.job_id: int | None = None

        self.job.render_kw = {
            "list": "job-names",
            "autocomplete": "off",
            "spellcheck": "false",
            "hx-get": url_for("runs.job_names"),
            "hx-trigger": "input changed delay:200ms",
            "hx-include": "[name='app']",
            "hx-target": "#job-names",
            "hx-sync": "this:replace",
            "hx-headers": f'{{"{LIVE_HEADER}": "1"}}',
        }

    def set_choices(self, session: Session, app_ids: Collection[int] | None) -> None:
        """Fill in the apps to choose from, and look the job up among them."""
        known = ids_by_name(session, app_ids)
        self.app.choices = select_choices([_ALL, *((name, name) for name in known)])
        chosen = self.app.data or ""
        self._app_ids = {known[chosen]} if chosen in known else app_ids
        self._found = self._look_up(session)

    @property
    def app_ids(self) -> Collection[int] | None:
        """The apps that were asked for, None = all."""
        return self._app_ids

    @property
    def app_id(self) -> int | None:
        """The one app that was chosen."""
        return next(iter(self._app_ids)) if self.app.data and self._app_ids else None

    def validate_job(self, field: Field) -> None:
        """Refuse a name that is no job's, or several jobs'."""
        if not (field.data or "").strip():
            return
        if not self._found:
            raise ValidationError(gettext("Job not found. For a deleted job, enter its ID."))
        if len(self._found) > 1:
            raise ValidationError(
                gettext("Several apps have a job with this name. Choose the app too.")
            )
        self.job_id = self._found[0]

    def _look_up(self, session: Session) -> list[int]:
        name = (self.job.data or "").strip()
        found = list(run_choices.jobs_named(session, name, self._app_ids)) if name else []
        if found or not re.fullmatch(r"#?[0-9]{1,9}", name, re.ASCII):
            return found
        job_id = int(name.removeprefix("#"))
        return [job_id] if run_choices.has_runs(session, job_id, self._app_ids) else []


class RunFilterForm(RunScopeForm):
    """Asks which runs to show; times are in the zone of whoever looks."""

    status = SelectField(lazy_gettext("State"), choices=select_choices(_STATUSES), default="")
    kind = SelectField(
        lazy_gettext("Trigger type"),
        choices=select_choices([_ALL, *labels.KIND.items()]),
        default="",
    )
    address = StringField(
        lazy_gettext("Executor"), [Optional(), Length(max=128, message=_TOO_LONG)]
    )
    since = DateTimeLocalField(lazy_gettext("Due from"), [Optional()])
    until = DateTimeLocalField(lazy_gettext("Due before"), [Optional()])

    @property
    def statuses(self) -> frozenset[RunStatus]:
        """The states that were asked for, none = all."""
        chosen = self.status.data
        if not chosen:
            return frozenset()
        return GROUPS.get(chosen) or frozenset({RunStatus(chosen)})

    def validate_since(self, field: Field) -> None:
        """Refuse a time that no run can have."""
        _check_year(field)

    def validate_until(self, field: Field) -> None:
        """Refuse a time that no run can have, or that lies before the other one."""
        _check_year(field)
        if self.since.data and field.data and field.data <= self.since.data:
            raise ValidationError(gettext("This is before the start time."))

    def show_time_errors(self) -> None:
        """Say in our own words what is wrong with a time that cannot be read."""
        for field in (self.since, self.until):
            if field.errors and field.data is None:
                field.errors = [gettext("Enter a time like 2026-01-31 08:00.")]


class ClearForm(RunScopeForm):
    """Asks which runs to clear; who has not all apps must say whose."""

    choice = RadioField(
        lazy_gettext("Runs to clear"),
        [InputRequired(lazy_gettext("Choose what to clear."))],
        choices=select_choices((str(int(choice)), text) for choice, text in CLEARED.items()),
    )
    is_sure = BooleanField(
        lazy_gettext("I understand that cleared runs cannot be restored."),
        [InputRequired(lazy_gettext("Confirm to continue."))],
    )


def place_of(text: str | None) -> Place | None:
    """Return where a list goes on, None for what is no place."""
    if text is None or not _PLACE.fullmatch(text):
        return None
    place = tuple(int(part) for part in text.split("-"))
    return place if place[0] <= _LAST_MS and max(place) <= LARGEST else None


def instant_ms(moment: datetime | None, zone: str) -> int | None:
    """Return a time of a form, which is one of the viewer's zone."""
    return int(moment.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000) if moment else None


def _check_year(field: Field) -> None:
    if field.data is not None and field.data.year not in _YEARS:
        raise ValidationError(gettext("Enter a time like 2026-01-31 08:00."))
