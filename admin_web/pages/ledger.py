"""The reconciliation page: what happened at every due time of each job, for a range of days."""

from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from flask import Response, render_template, request
from flask_babel import gettext, lazy_gettext
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import exports
from warren.admin_web.forms.console_form import AppFilterForm, DayField, select_choices
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.views.tally_cache import CachedTally, TallyCache, TallyKey
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.audit.tally import COUNTS
from warren.sql.listings import ledger
from warren.sql.listings.ledger import LedgerFilter, LedgerJob
from warren.sql.registry.apps import ids_by_name

LINES = 20
MAX_DAYS = 31
_DAYS = {"1": 1, "7": 7, "30": 30}


class LedgerForm(AppFilterForm):
    """Asks for jobs and days."""

    range = SelectField(
        lazy_gettext("Range"),
        choices=select_choices(
            [
                ("1", lazy_gettext("today")),
                ("7", lazy_gettext("7 days")),
                ("30", lazy_gettext("30 days")),
                ("custom", lazy_gettext("custom")),
            ]
        ),
        default="1",
    )
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])
    name = StringField(lazy_gettext("Job"), [Optional(), Length(max=255)])


class LedgerPages:
    """The jobs of the visitor's apps, for everybody."""

    name = "ledger"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tallies = TallyCache(services.database, services.now_ms, services.cluster_zone)

    @route("/ledger", Right.VIEW)
    def index(self) -> Response | str | tuple[str, int]:
        """Show the tallies of a page of jobs, as far as they have been computed."""
        form, known = LedgerForm(request.args), visitor()
        form.set_apps(self._services.database.read(partial(ids_by_name, app_ids=known.app_ids)))
        if not form.validate() or not _is_range(form, self._today()):
            return render_template("pages/ledger.html", form=form, rows=[], next=None), 422
        wanted = LedgerFilter(
            app_ids=known.app_ids,
            app=form.app.data or None,
            name=form.name.data or None,
            after_id=id_argument("after") or 0,
            limit=LINES + 1,
        )
        tallies = self._services.database.read(lambda session: ledger.jobs(session, wanted))
        after_ms, until_ms = self._bounds(form)
        questions = [TallyKey(job.id, after_ms, until_ms) for job in tallies[:LINES]]
        answers = self._tallies.ask(questions)
        rows = [
            (job, answers[question])
            for job, question in zip(tallies[:LINES], questions, strict=True)
        ]
        if exports.is_asked():
            return exports.answer(
                "reconciliation", ("job_id", "app", "job", *COUNTS), map(_line, rows)
            )
        return render_template(
            "pages/ledger.html",
            form=form,
            rows=rows,
            next=tallies[LINES - 1].id if len(tallies) > LINES else None,
            is_pending=any(answer is None for answer in answers.values()),
            is_complete=all(answer and answer.tally for answer in answers.values()),
            totals=_totals(answers.values()),
        )

    def _bounds(self, form: LedgerForm) -> tuple[int, int | None]:
        """Return the range as (after, until] in milliseconds; None = up to now."""
        if form.range.data == "custom" and form.since.data and form.until.data:
            end = self._midnight_ms(form.until.data + timedelta(days=1))
            return self._midnight_ms(form.since.data) - 1, end - 1
        days = _DAYS.get(form.range.data or "", 1)
        return self._midnight_ms(self._today() - timedelta(days=days - 1)) - 1, None

    def _today(self) -> date:
        zone = ZoneInfo(self._services.timezone)
        return datetime.fromtimestamp(self._services.now_ms() / 1000, zone).date()

    def _midnight_ms(self, day: date) -> int:
        midnight = datetime.combine(day, time(), ZoneInfo(self._services.timezone))
        return int(midnight.timestamp() * 1000)


def _line(row: tuple[LedgerJob, CachedTally | None]) -> dict[str, Any]:
    """Return a job as a row of a file; its counts are None until they are computed."""
    job, answer = row
    tally = answer.tally if answer else None
    counts = {name: getattr(tally, name, None) for name in COUNTS}
    return {"job_id": job.id, "app": job.app, "job": job.name} | counts


def _totals(answers: Iterable[CachedTally | None]) -> Counter[str]:
    """Return the sums of the computed tallies."""
    sums = Counter(dict.fromkeys(COUNTS, 0))
    for answer in answers:
        if answer and answer.tally:
            sums.update({name: getattr(answer.tally, name) for name in COUNTS})
    return sums


def _is_range(form: LedgerForm, today: date) -> bool:
    """Return whether the dates are a valid range; if not, show why beside the field."""
    if form.range.data != "custom":
        return True
    since, until = form.since.data, form.until.data
    if since is None or until is None:
        missing = form.since if since is None else form.until
        missing.errors = [gettext("Choose a date.")]
        return False
    if not timedelta() <= until - since < timedelta(days=MAX_DAYS):
        form.until.errors = [gettext("Choose a range of 1 to 31 days.")]
        return False
    # Future days have nothing to reconcile; the other limits are those of times in the database.
    if since > today or since.year < 1971 or until.year > 9000:  # noqa: PLR2004
        form.since.errors = [gettext("Choose a date.")]
        return False
    return True
