"""Filters of jobs and runs, the runs that they find, and other forms with an app and a job."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from flask import request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
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
    NO_TIME,
    REQUIRED,
    ConsoleForm,
    DayField,
    TimeField,
    select_choices,
)
from warren.admin_web.language import labels
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import LARGEST
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.retention.clearing import ClearingPreset
from warren.sql.instants import HOUR_MS, moment
from warren.sql.jobs import job_names
from warren.sql.jobs.history import SkipFilter
from warren.sql.listings import error_groups, recent, run_search
from warren.sql.listings.error_groups import ErrorGroups
from warren.sql.listings.job_search import JobFilter, Order
from warren.sql.listings.newest_runs import Place
from warren.sql.listings.run_search import AHEAD_MS, MAX_EXAMINED, RunCount, RunSearch, SweepResult
from warren.sql.registry.apps import ids_by_name
from warren.sql.run_status import FAILURES, OPEN, RunStatus
from warren.sql.runs.run_rows import DetailedRun

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
        self, *args: Any, zone: str, run: DetailedRun | None = None, **kwargs: Any
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


#: Jobs per page.
LINES = 50
_STATES = (ALL, ("enabled", lazy_gettext("enabled")), ("stopped", lazy_gettext("stopped")))
_ORDERS = (
    (Order.NAME, lazy_gettext("app and name")),
    (Order.DUE, lazy_gettext("next run")),
    (Order.NEWEST, lazy_gettext("newest first")),
    (Order.ENDED, lazy_gettext("last end")),
    (Order.TOOK, lazy_gettext("duration")),
    (Order.CHANGE, lazy_gettext("slower than a week ago")),
    (Order.SHARE, lazy_gettext("share of the time between due times")),
)
_SHORT = [Optional(), Length(max=255, message=lazy_gettext("Too long."))]


class JobFilterForm(ConsoleForm):
    app = SelectField(lazy_gettext("App"), default="")
    state = SelectField(lazy_gettext("State"), choices=select_choices(_STATES), default="")
    name = StringField(lazy_gettext("Name"), _SHORT)
    handler = StringField(lazy_gettext("Handler"), _SHORT)
    author = StringField(lazy_gettext("Author"), _SHORT)
    tag = StringField(lazy_gettext("Tag"), _SHORT)
    kind = SelectField(
        lazy_gettext("Kind"),
        choices=select_choices([ALL, ("flow", lazy_gettext("flows only"))]),
        default="",
    )
    favourites = SelectField(
        lazy_gettext("Favourites"),
        choices=select_choices([ALL, ("1", lazy_gettext("favourites only"))]),
        default="",
    )
    order = SelectField(
        lazy_gettext("Sort by"), choices=select_choices(_ORDERS), default=Order.NAME.value
    )

    def set_choices(self, apps: Sequence[str]) -> None:
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
        only_flows=bool(form.kind.data),
        favourites_of=known.user_id if form.favourites.data else None,
        order=Order(form.order.data),
        after=request.args.get("after"),
        limit=LINES + 1,
    )


def _text(field: StringField) -> str | None:
    return (field.data or "").strip() or None


#: The most jobs that a part of a name may match.
MAX_JOBS = 50
#: The most runs whose messages are searched for one page.
SEARCHED = 3_500
_YEARS = range(2000, 2200)
#: The largest time that a DATETIME can hold.
_LAST_MS = 253_402_300_799_000
_PLACE = re.compile(r"[0-9]{1,19}(?:-[0-9]{1,19}){1,4}", re.ASCII)

#: The choice of failures whose due time has not succeeded since.
UNRESOLVED = "unresolved"
#: The choice of runs that are planned for later.
UPCOMING = "upcoming"
#: The choice of runs that are not those of flows' nodes.
OUTSIDE_FLOWS = "outside_flows"
#: Groups of states, by the value of their choice.
GROUPS = {
    "open": OPEN,
    UPCOMING: frozenset({RunStatus.PLANNED}),
    UNRESOLVED: FAILURES,
    "failures": FAILURES,
}
_STATUSES = [
    ALL,
    ("open", lazy_gettext("unfinished")),
    (UPCOMING, lazy_gettext("upcoming")),
    (UNRESOLVED, lazy_gettext("unresolved")),
    ("failures", lazy_gettext("any failure")),
    *((status.value, state.word) for status, state in labels.STATUS.items()),
]
#: The most records of skipped due times between the runs of a page.
MAX_SKIPS = 100
#: Periods relative to now, by the value of their choice.
PERIODS = {
    "hour": lazy_gettext("Last hour"),
    "night": lazy_gettext("Last night (20:00 to 08:00)"),
    "evening": lazy_gettext("Since yesterday 18:00"),
}


class RunFilterForm(RunScopeForm):
    """Asks which runs to show; times are in the viewer's zone.

    `more_jobs`: the name matches more than MAX_JOBS jobs; the others are ignored.
    """

    status = SelectField(lazy_gettext("State"), choices=select_choices(_STATUSES), default="")
    kind = SelectField(
        lazy_gettext("Trigger type"),
        choices=select_choices(
            [ALL, (OUTSIDE_FLOWS, lazy_gettext("all but flow nodes")), *labels.KIND.items()]
        ),
        default="",
    )
    address = StringField(lazy_gettext("Executor"), [Optional(), Length(max=128, message=TOO_LONG)])
    run_date = DayField(lazy_gettext("Run date"), [Optional()])
    text = StringField(lazy_gettext("Message"), [Optional(), Length(max=200, message=TOO_LONG)])
    period = SelectField(
        lazy_gettext("Time"), choices=select_choices([ALL, *PERIODS.items()]), default=""
    )
    since = TimeField(lazy_gettext("Due from"), [Optional()])
    until = TimeField(lazy_gettext("Due before"), [Optional()])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.more_jobs = False

    @property
    def statuses(self) -> frozenset[RunStatus]:
        """The chosen states; none = all."""
        chosen = self.status.data
        if not chosen:
            return frozenset()
        return GROUPS.get(chosen) or frozenset({RunStatus(chosen)})

    @property
    def job_ids(self) -> Sequence[int] | None:
        """The jobs that the name matches if there are several; None = all, or see `job_id`."""
        return self._found if (self.job.data or "").strip() and len(self._found) > 1 else None

    def validate_job(self, field: Field) -> None:
        """Refuse a name that matches no job."""
        if len(self._found) <= 1:
            super().validate_job(field)

    def validate_since(self, field: Field) -> None:
        """Refuse an implausible year."""
        _check_year(field)

    def validate_until(self, field: Field) -> None:
        """Refuse an implausible year, or a time before the start."""
        _check_year(field)
        if self.since.data and field.data and field.data <= self.since.data:
            raise ValidationError(gettext("This is before the start time."))

    def search(self, *, zone: str, now_ms: int, before: Place | None, limit: int) -> RunSearch:
        """Return the search of a valid form, for one page."""
        since_ms, until_ms = period(self.period.data or "", now_ms, zone)
        until_ms = instant_ms(self.until.data, zone) or until_ms
        if until_ms is None and not self.statuses:
            until_ms = now_ms + AHEAD_MS
        since_ms = instant_ms(self.since.data, zone) or since_ms
        if self.status.data == UPCOMING:
            since_ms = max(now_ms, since_ms or 0)
        text = (self.text.data or "").strip() or None
        return RunSearch(
            app_ids=self.app_ids,
            job_id=self.job_id,
            job_ids=self.job_ids,
            statuses=self.statuses,
            kind=self.kind.data if self.kind.data in labels.KIND else None,
            outside_flows=self.kind.data == OUTSIDE_FLOWS,
            address=(self.address.data or "").strip() or None,
            run_date=self.run_date.data,
            text=text,
            unresolved=self.status.data == UNRESOLVED,
            looked_at=SEARCHED if text else MAX_EXAMINED,
            since_ms=since_ms,
            until_ms=until_ms,
            before=before,
            limit=limit,
        )

    def skips(self, search: RunSearch, older: Place | None) -> SkipFilter | None:
        """Return which skipped due times lie between the runs of a page; None = none can match.

        `older` is where the next page of runs begins. Skipped due times have a job and a time, and
        nothing else of a run.
        """
        others = (self.status, self.kind, self.address, self.run_date, self.text)
        if any(field.data for field in others):
            return None
        until_ms = search.before[0] if search.before else search.until_ms
        job_ids = [search.job_id] if search.job_id is not None else search.job_ids
        return SkipFilter(
            app_ids=search.app_ids,
            job_ids=job_ids,
            since_ms=older[0] if older else search.since_ms,
            before=(until_ms, 0) if until_ms is not None else None,
            limit=MAX_SKIPS,
        )

    def _look_up(self, session: Session) -> list[int]:
        """Return the job with this name, else the jobs whose names contain it."""
        job_ids = super()._look_up(session)
        name = (self.job.data or "").strip()
        if job_ids or not name:
            return job_ids
        some = job_names.ids_with(session, name, self._app_ids, limit=MAX_JOBS + 1)
        self.more_jobs = len(some) > MAX_JOBS
        return some[:MAX_JOBS]


def read_query(text: str) -> MultiDict[str, str]:
    """Return the fields of a query string for use in a form; none if it is too long."""
    try:
        return MultiDict(parse_qsl(text[:4_000], max_num_fields=40))
    except ValueError:
        return MultiDict()


def place_of(text: str | None) -> Place | None:
    """Parse the position where a list continues; None if the text is not one."""
    if text is None or not _PLACE.fullmatch(text):
        return None
    place = tuple(int(part) for part in text.split("-"))
    return place if place[0] <= _LAST_MS and max(place) <= LARGEST else None


def instant_ms(time: datetime | None, zone: str) -> int | None:
    """Return a local time in a zone as epoch milliseconds."""
    return int(time.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000) if time else None


def period(name: str, now_ms: int, zone: str) -> tuple[int | None, int | None]:
    """Return start and end of a relative period in epoch milliseconds; None = open."""
    if name == "hour":
        return now_ms - HOUR_MS, None
    now = moment(now_ms, ZoneInfo(zone)).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    yesterday = now - timedelta(days=1)
    known: Mapping[str, tuple[datetime, datetime | None]] = {
        "night": (yesterday.replace(hour=20), now.replace(hour=8)),
        "evening": (yesterday.replace(hour=18), None),
    }
    since, until = known.get(name, (None, None))
    return instant_ms(since, zone), instant_ms(until, zone)


def _check_year(field: Field) -> None:
    if field.data is not None and field.data.year not in _YEARS:
        raise ValidationError(NO_TIME)


#: The most matching runs that are counted or acted on, and the most that are read for that.
MAX_RUNS, MAX_READ = 10_000, 50_000
#: The most failures that the page of errors groups; its files have groups of MAX_RUNS.
MAX_GROUPED = 2_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A filled form, and whether it is valid."""

    form: RunFilterForm
    is_valid: bool


class RunFinder:
    """Finds runs that the visitor may see."""

    def __init__(self, services: ConsoleServices) -> None:
        self._database = services.database
        self._now_ms = services.now_ms
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    def ask(self, query: Mapping[str, str]) -> Asked:
        """Fill the form from a query."""
        form, app_ids = RunFilterForm(query), visitor().app_ids
        self._database.read(lambda session: form.set_choices(session, app_ids))
        return Asked(form, form.validate())

    def search(self, asked: Asked, *, before: Place | None = None, limit: int = 1) -> RunSearch:
        """Return the search that a valid form stands for."""
        zone, now_ms = self._local_times.zone(), self._now_ms()
        return asked.form.search(zone=zone, now_ms=now_ms, before=before, limit=limit)

    def all(self, asked: Asked, *, until_ms: int | None = None) -> SweepResult:
        """Return all runs that match a valid form, up to a limit; those due before `until_ms`."""
        wanted = self.search(asked)
        if until_ms is not None:
            wanted = replace(wanted, until_ms=min(wanted.until_ms or until_ms, until_ms))
        return self._database.read(
            lambda session: run_search.sweep(session, wanted, most=MAX_RUNS, looked_at=MAX_READ)
        )

    def errors(self, asked: Asked, *, most: int) -> ErrorGroups:
        """Return the newest runs that match a valid form, `most` at most, in groups.

        Without a state, these are the failures whose due time has not succeeded since.
        """
        wanted = self.search(asked)
        if not wanted.statuses:
            wanted = replace(wanted, statuses=FAILURES, unresolved=True)
        return self._database.read(
            lambda session: error_groups.read(session, wanted, most=most, looked_at=MAX_READ)
        )

    def count(self, asked: Asked) -> RunCount:
        """Return how many runs match a valid form, up to a limit."""
        wanted = self.search(asked)
        return self._database.read(
            lambda session: run_search.count(session, wanted, most=MAX_RUNS, looked_at=MAX_READ)
        )
