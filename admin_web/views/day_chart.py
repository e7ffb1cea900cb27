"""Runs per day by outcome over a chosen range, from the day report."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

from flask_babel import lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from wtforms import Form, SelectField
from wtforms.validators import Optional

from warren.admin_web.forms.console_form import DayField, select_choices
from warren.scheduler.retention.clearing_criteria import days_between
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts

#: Days in a range at most.
LONGEST_DAYS = 366
CUSTOM = "custom"
#: The number of days, ending today, by the value in the URL.
RANGES = {"1": 1, "7": 7, "30": 30}
USUAL = "7"


@dataclass(frozen=True, slots=True)
class Day:
    """Runs of one day."""

    day: date
    succeeded: int = 0
    failed: int = 0
    open: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a ring: its length and where it begins, in percent of the ring."""

    tone: str
    length: float
    start: float


class RangeForm(Form):
    """Asks for a range of days."""

    range = SelectField(
        lazy_gettext("Days"),
        choices=select_choices(
            [
                ("1", lazy_gettext("Today")),
                ("7", lazy_gettext("7 days")),
                ("30", lazy_gettext("30 days")),
                (CUSTOM, lazy_gettext("Custom")),
            ]
        ),
        default=USUAL,
    )
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])

    def days(self, today: date) -> tuple[date, date] | None:
        """Return the first and last day, or None and show errors if they are not a valid range."""
        if not self.validate():
            return None
        if self.range.data != CUSTOM:
            length = RANGES[self.range.data]
            return today - timedelta(days=length - 1), today
        last = self.until.data or today
        first = self.since.data or last
        if first > last:
            self.since.errors = [lazy_gettext("The start date is after the end date.")]
            return None
        if (last - first).days >= LONGEST_DAYS:
            self.since.errors = [lazy_gettext("Choose at most 366 days.")]
            return None
        return first, last


@dataclass(frozen=True, slots=True)
class DayChart:
    """The form and its days; no days if the form is invalid."""

    form: RangeForm
    days: list[Day]

    @property
    def totals(self) -> Day | None:
        """The sums over all days; None if there are no runs."""
        if not any(day.succeeded or day.failed or day.open for day in self.days):
            return None
        return Day(
            self.days[-1].day,
            sum(day.succeeded for day in self.days),
            sum(day.failed for day in self.days),
            sum(day.open for day in self.days),
        )

    @property
    def ring(self) -> list[Slice]:
        """The shares of the outcomes, one after the other."""
        totals = self.totals
        if totals is None:
            return []
        numbers = {"good": totals.succeeded, "bad": totals.failed, "busy": totals.open}
        whole, start, slices = sum(numbers.values()), 0.0, []
        for tone, number in numbers.items():
            length = round(100 * number / whole, 2)
            slices.append(Slice(tone, length, start))
            start += length
        return slices


def read(
    session: Session, asked: MultiDict[str, str], today: date, app_ids: Collection[int] | None
) -> DayChart:
    """Return the days for a URL's parameters; a day without a report has no runs."""
    form = RangeForm(asked if "range" in asked else None)
    wanted = form.days(today)
    if wanted is None:
        return DayChart(form, [])
    known = day_reports.of_days(session, app_ids, *wanted)
    return DayChart(form, [_day(day, known.get(day, Counts())) for day in days_between(*wanted)])


def _day(day: date, counts: Counts) -> Day:
    return Day(day, counts.succeeded, counts.failed, counts.running)
