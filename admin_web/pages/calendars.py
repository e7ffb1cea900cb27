"""The pages for calendars of working days: all of them, and a year of one."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import NamedTuple

from flask import render_template, request

from warren.admin_web import exports
from warren.admin_web.local_times import weekday_names
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.resources.calendars import Calendar
from warren.scheduler.actor import Right
from warren.scheduler.alarms.watches import STAGES
from warren.scheduler.views.calendar_view import DayView, calendar_views, read_year
from warren.sql.instants import moment

_YEARS = range(1970, 3000)


class Month(NamedTuple):
    """A month of a calendar: its first day, and how many days are before it in its week."""

    first: date
    offset: int
    days: Sequence[DayView]

    @property
    def working(self) -> int:
        """How many working days it has."""
        return sum(day.is_working for day in self.days)


class CalendarPages:
    """For everyone; administrators change calendars on the command line or by the API."""

    name = "calendars"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/calendars", Right.VIEW)
    def index(self) -> object:
        known = visitor()
        views = self._services.database.read(lambda s: calendar_views(s, known.app_ids))
        if exports.is_asked():
            return exports.resources("calendars", Calendar, views)
        today = moment(self._services.now_ms()).date()
        soon = (today + timedelta(days=STAGES[0])).isoformat()
        return render_template("pages/calendars.html", calendars=views, soon=soon)

    @route("/calendars/<name>", Right.VIEW)
    def show(self, name: str) -> str:
        known = visitor()
        this_year = moment(self._services.now_ms()).year
        year = _number(request.args.get("year"), this_year)
        version = _number(request.args.get("version"), 0) or None
        shown = self._services.database.read(
            lambda s: read_year(
                s,
                name,
                year if year in _YEARS else this_year,
                version=version,
                app_ids=known.app_ids,
            )
        )
        return render_template(
            "pages/calendars_show.html",
            shown=shown,
            months=_months(shown.days),
            weekdays=weekday_names(),
            last_year=date.fromisoformat(shown.calendar.until).year,
        )


def _months(days: Sequence[DayView]) -> list[Month]:
    months = []
    for _, of in groupby(days, lambda day: day.date[:7]):
        listed = tuple(of)
        first = date.fromisoformat(listed[0].date)
        months.append(Month(first, first.weekday(), listed))
    return months


def _number(text: str | None, usual: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 9 else usual  # noqa: PLR2004 - any longer one is none
