"""The first page: how things stand."""

from flask import render_template, request
from sqlalchemy.orm import Session

from admin_web import day_chart
from admin_web.day_chart import DayChart
from admin_web.job_words import schedule_words
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.standing import Standing, StandingReader
from admin_web.visitors import Right, Visitor, visitor


class DashboardPages:
    """How things stand, for the apps of whoever looks."""

    name = "dashboard"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._reader = StandingReader(parts)

    @route("/", Right.VIEW)
    def show(self) -> str | tuple[str, int]:
        """Show how things stand."""
        known = visitor()
        standing, chart = self._parts.database.read(lambda session: self._read(session, known))
        page = render_template(
            "pages/dashboard.html", standing=standing, chart=chart, schedule_words=schedule_words
        )
        return (page, 422) if chart is not None and chart.form.errors else page

    def _read(self, session: Session, known: Visitor) -> tuple[Standing, DayChart | None]:
        standing = self._reader.read(session, known)
        if known.app_ids is not None:  # the day report counts all apps together
            return standing, None
        today = self._reader.today(standing.now_ms)
        return standing, day_chart.read(session, request.args, today)
