"""The page of due runs that are not sent yet: what they wait for, and since when."""

from typing import NamedTuple

from flask import render_template, request
from sqlalchemy.orm import Session

from warren.admin_web.forms.console_form import AppFilterForm
from warren.admin_web.forms.run_filter import place_of
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.reasons import Reason
from warren.scheduler.actor import Right
from warren.scheduler.views import blockers, limit_view
from warren.sql import limits
from warren.sql.registry.apps import ids_by_name
from warren.sql.runs.run_rows import DetailedRun

LINES = 100


class WaitingRun(NamedTuple):
    """A run, and what it waits for; nothing = it is about to be sent."""

    run: DetailedRun
    waits_for: list[Reason]


class QueuePages:
    """The queue of the visitor's apps."""

    name = "queue"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/queue", Right.VIEW)
    def index(self) -> str:
        """Show due runs that are not sent yet, the longest waiting first."""
        form, known = AppFilterForm(request.args), visitor()
        waiting = self._services.database.read(lambda session: self._read(session, known, form))
        last = waiting[LINES - 1].run if len(waiting) > LINES else None
        return render_template(
            "pages/queue.html",
            form=form,
            waiting=waiting[:LINES],
            further=f"{last.due_at}-{last.id}" if last else "",
        )

    def _read(self, session: Session, known: Visitor, form: AppFilterForm) -> list[WaitingRun]:
        now_ms = self._services.now_ms()
        app_ids = ids_by_name(session, known.app_ids)
        form.set_apps(app_ids)
        place = place_of(request.args.get("after"))
        rows = limits.queue(
            session,
            [app_ids.get(form.app.data, 0)] if form.app.data else known.app_ids,
            None,
            now_ms=now_ms,
            most=LINES + 1,
            after=(place[0], place[1]) if place else None,
        )
        waits = limit_view.waits_for(session, rows, known.actor, now_ms=now_ms)
        why = blockers.read(session, known.app_ids, now_ms=now_ms, format_time=self._times.format)
        return [WaitingRun(run, waits.get(run.id) or why.of_job(run.app or "")) for run in rows]
