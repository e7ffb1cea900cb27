"""The dashboard."""

from flask import render_template, request
from sqlalchemy.orm import Session

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.language import job_labels
from warren.admin_web.url_routes import route
from warren.admin_web.views import day_chart
from warren.admin_web.views.day_chart import DayChart
from warren.admin_web.views.overview import Overview, OverviewReader
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right


class DashboardPages:
    """The state of the visitor's apps at a glance."""

    name = "dashboard"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._reader = OverviewReader(services)

    @route("/", Right.VIEW)
    def show(self) -> str | tuple[str, int]:
        """Show the dashboard."""
        known = visitor()
        overview, chart = self._services.database.read(lambda session: self._read(session, known))
        page = render_template(
            "pages/dashboard.html", overview=overview, chart=chart, job_labels=job_labels
        )
        return (page, 422) if chart.form.errors else page

    def _read(self, session: Session, known: Visitor) -> tuple[Overview, DayChart]:
        overview = self._reader.read(session, known)
        today = self._reader.today(overview.now_ms)
        return overview, day_chart.read(session, request.args, today, known.app_ids)
