"""The history of a job: who changed what, a comparison of two versions, a version to restore."""

from functools import partial

from flask import render_template
from werkzeug.wrappers import Response

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.exports import tables
from warren.admin_web.history import changes, job_history
from warren.admin_web.history.changes import values_of
from warren.admin_web.history.job_history import JobHistory
from warren.admin_web.history.record_fields import Names, names_in
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right

#: Versions on the page; the audit log has the others.
LINES = 200
_COLUMNS = ("id", "at", "who", "action", "before", "after")


class JobHistoryPages:
    """The jobs of the visitor's apps, including deleted ones."""

    name = "job_history"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/jobs/<id:job_id>/history", Right.VIEW)
    def show(self, job_id: int) -> str | Response:
        """Show each change, and how two versions differ if they are chosen."""
        known = visitor()
        commands = self._services.commands(known.actor)
        history = self._services.database.read(
            lambda session: job_history.read(session, commands, known, job_id)
        )
        if tables.is_asked():
            return _file(history)
        one, other = history.find(id_argument("from")), history.find(id_argument("to"))
        names = self._names(history)
        compared = None
        if one is not None and other is not None:
            compared = changes.compare(one.record, other.record, names, is_job=True, unlike=True)
        return render_template(
            "pages/job_history.html",
            history=history,
            versions=history.versions[:LINES],
            is_cut=len(history.versions) > LINES,
            compared=compared,
            one=one,
            other=other,
            differences=partial(changes.differences, names=names),
        )

    def _names(self, history: JobHistory) -> Names:
        records = [one.record for one in history.versions]
        return self._services.database.read(
            lambda session: names_in(session, records, visitor(), self._local_times.format)
        )


def _file(history: JobHistory) -> Response:
    rows = (
        {name: getattr(one.entry, name) for name in _COLUMNS}
        | {"before": values_of(one.entry.before), "after": values_of(one.entry.after)}
        for one in history.versions
    )
    return tables.answer(f"job-{history.job_id}-history", _COLUMNS, rows)
