"""The incidents page: broken expectations, since when, and who has acknowledged them."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response

from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import came_from
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.expectations.expectations import Rule
from warren.scheduler.problems import ProblemKind, Refused
from warren.sql.alarms import incidents
from warren.sql.instants import HOUR_MS

LINES = 50
#: What is wrong, by rule.
BROKEN = {
    Rule.START_WITHIN: lazy_gettext("not started in time"),
    Rule.FINISH_BY: lazy_gettext("not succeeded in time"),
    Rule.LONGEST: lazy_gettext("runs too long"),
    Rule.SUCCESS_EVERY: lazy_gettext("no success for too long"),
    Rule.WAITING: lazy_gettext("runs wait too long"),
}
#: For how many hours an acknowledged incident may stay silent; 0 = until it closes.
SILENT_HOURS = (0, 1, 4, 24)


class IncidentPages:
    """Incidents of the visitor's apps, for everybody; operators acknowledge them."""

    name = "incidents"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/incidents", Right.VIEW)
    def index(self) -> str:
        """Show open incidents, or all of them, newest first."""
        every = request.args.get("all") == "1"
        listed = self._services.database.read(
            lambda session: incidents.listing(
                session,
                app_ids=visitor().app_ids,
                only_open=not every,
                limit=LINES + 1,
                before_id=id_argument("before"),
            )
        )
        return render_template(
            "pages/incidents.html",
            incidents=listed[:LINES],
            older=listed[LINES - 1].id if len(listed) > LINES else None,
            every=every,
            broken=BROKEN,
            hours=SILENT_HOURS,
        )

    @route(
        "/incidents/<id:incident_id>/ack", Right.OPERATE, methods=("POST",), form="incidents.index"
    )
    def ack(self, incident_id: int) -> Response:
        """Acknowledge an open incident, with a note and for some hours."""
        hours = request.form.get("hours", 0, type=int)
        until_ms = self._services.now_ms() + hours * HOUR_MS if hours in SILENT_HOURS[1:] else None
        note = request.form.get("note", "").strip()
        commands = self._services.commands(visitor().actor).incidents
        try:
            commands.acknowledge(incident_id, note=note, until_ms=until_ms)
        except Refused as refused:
            if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
                raise
            for problem in refused.problems:
                flash(problem_text(problem), "error")
        else:
            flash(gettext("Incident %(id)s is acknowledged.", id=incident_id))
        return redirect(came_from() or url_for("incidents.index"), 303)
