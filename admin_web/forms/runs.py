"""Forms with an app and a job, such as the one that clears runs."""

import re
from collections.abc import Collection
from typing import Any
from zoneinfo import ZoneInfo

from flask import url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from wtforms import (
    BooleanField,
    Field,
    RadioField,
    SelectField,
    StringField,
    ValidationError,
)
from wtforms.validators import InputRequired, Length, Optional

from warren.admin_web.access.gate import LIVE_HEADER
from warren.admin_web.forms.console_form import (
    ALL,
    REQUIRED,
    ConsoleForm,
    TimeField,
    select_choices,
)
from warren.scheduler.retention.clearing_criteria import ClearingPreset
from warren.sql.instants import moment
from warren.sql.jobs import job_names
from warren.sql.listings import recent
from warren.sql.registry.apps import ids_by_name

TOO_LONG = lazy_gettext("Too long.")
#: XXL-JOB's nine choices, in its order.
CLEARED = {
    ClearingPreset.OLDER_THAN_1_MONTH: lazy_gettext("Older than 1 month"),
    ClearingPreset.OLDER_THAN_3_MONTHS: lazy_gettext("Older than 3 months"),
    ClearingPreset.OLDER_THAN_6_MONTHS: lazy_gettext("Older than 6 months"),
    ClearingPreset.OLDER_THAN_1_YEAR: lazy_gettext("Older than 1 year"),
    ClearingPreset.ALL_BUT_1_000: lazy_gettext("All except the newest 1,000"),
    ClearingPreset.ALL_BUT_10_000: lazy_gettext("All except the newest 10,000"),
    ClearingPreset.ALL_BUT_30_000: lazy_gettext("All except the newest 30,000"),
    ClearingPreset.ALL_BUT_100_000: lazy_gettext("All except the newest 100,000"),
    ClearingPreset.ALL: lazy_gettext("All finished runs"),
}


class RunScopeForm(ConsoleForm):
    """Asks for an app and a job among those that the visitor may see."""

    app = SelectField(lazy_gettext("App"), default="")
    job = StringField(lazy_gettext("Job"), [Optional(), Length(max=255, message=TOO_LONG)])

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
        """Set the apps to choose from, and look up the job in the chosen one."""
        known = ids_by_name(session, app_ids)
        self.app.choices = select_choices([ALL, *((name, name) for name in known)])
        chosen = self.app.data or ""
        self._app_ids = {known[chosen]} if chosen in known else app_ids
        self._found = self._look_up(session)

    @property
    def app_ids(self) -> Collection[int] | None:
        """The chosen app, or all that the visitor may see; None = all."""
        return self._app_ids

    @property
    def app_id(self) -> int | None:
        """The chosen app, if any."""
        return next(iter(self._app_ids)) if self.app.data and self._app_ids else None

    def validate_job(self, field: Field) -> None:
        """Refuse a name that matches no job, or several."""
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
        job_ids = list(job_names.ids_named(session, name, self._app_ids)) if name else []
        if job_ids or not re.fullmatch(r"#?[0-9]{1,9}", name, re.ASCII):
            return job_ids
        job_id = int(name.removeprefix("#"))
        return [job_id] if recent.has_runs(session, job_id, self._app_ids) else []


class ClearForm(RunScopeForm):
    """Asks which runs to clear; users without all apps must choose one or a job."""

    choice = RadioField(
        lazy_gettext("Runs to delete"),
        [InputRequired(lazy_gettext("Choose what to delete."))],
        choices=select_choices((str(int(choice)), text) for choice, text in CLEARED.items()),
    )
    is_sure = BooleanField(
        lazy_gettext("I understand that deleted runs cannot be restored."),
        [InputRequired(lazy_gettext("Confirm to continue."))],
    )


class MoveForm(ConsoleForm):
    """Asks when a planned run is due instead, in the visitor's time zone.

    Args:
        zone: of the time that is entered.
        run: its due time is filled in; None = the form was sent.

    """

    at = TimeField(lazy_gettext("Due"), [InputRequired(REQUIRED)])

    def __init__(
        self, *args: Any, zone: str, run: recent.DetailedRun | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._zone = ZoneInfo(zone)
        if run is not None:
            self.at.data = moment(run.due_at, self._zone)

    @property
    def at_ms(self) -> int | None:
        """The entered time in epoch milliseconds; None if it is none."""
        if not self.validate() or self.at.data is None:
            return None
        return int(self.at.data.replace(tzinfo=self._zone).timestamp() * 1000)
