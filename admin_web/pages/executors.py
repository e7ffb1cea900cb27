"""The pages for executors (state, load, draining) and for schedulers and consoles."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import charts, exports
from warren.admin_web.charts import LoadChart
from warren.admin_web.forms.console_form import ALL, AppFilterForm, select_choices
from warren.admin_web.language import labels
from warren.admin_web.links import came_from
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.reasons import Reason
from warren.scheduler.actor import Right
from warren.scheduler.names import Resolver
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import Blockers
from warren.scheduler.views.process_view import (
    ExecutorView,
    NodeView,
    executor_views,
    node_view,
    read_catalogues,
    read_schedulers,
)
from warren.sql.epochs import all_epochs
from warren.sql.instants import DAY_MS
from warren.sql.listings import app_listing, dashboard, run_search
from warren.sql.listings.run_search import RunSearch
from warren.sql.registry import apps, pauses, presence
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import DetailedRun

#: How long the page tells of a new epoch of run ids.
EPOCH_DAYS = 7


class SchedulerPages:
    name = "schedulers"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/schedulers", Right.VIEW)
    def index(self) -> str | Response:
        """Show schedulers and consoles, whether the broker is connected, and new epochs of ids."""
        now_ms = self._services.now_ms()
        rows, paused, epochs = self._services.database.read(
            lambda session: (
                presence.listing(session, presence.ADMIN),
                pauses.of(session, EVERY_APP, now_ms),
                all_epochs(session, since_ms=now_ms - EPOCH_DAYS * DAY_MS),
            )
        )

        def nodes(app: str) -> list[NodeView]:
            return [node_view(row, now_ms) for row in rows if row.app == app]

        if exports.is_asked():
            listed = [node_view(row, now_ms) for row in rows]
            return exports.views("schedulers", NodeView, listed)
        return render_template(
            "pages/schedulers.html",
            schedulers=nodes(presence.SCHEDULER),
            consoles=nodes(presence.CONSOLE),
            epochs=epochs,
            is_paused=paused is not None,
            is_broker_up=self._services.is_broker_up(),
        )


LINES = 100
#: How many lost runs an executor's page lists, and how far back.
LOST_LINES, LOST_DAYS = 100, 7


class ExecutorFilterForm(AppFilterForm):
    address = StringField(lazy_gettext("Address"), [Optional(), Length(max=128)])
    state = SelectField(
        lazy_gettext("State"),
        choices=select_choices(
            [ALL, *((name, state.word) for name, state in labels.PROCESS.items())]
        ),
        default="",
    )
    order = SelectField(
        lazy_gettext("Sort by"),
        choices=select_choices(
            [
                ("name", lazy_gettext("app and address")),
                ("slots", lazy_gettext("busiest slots first")),
                ("cpu", lazy_gettext("highest CPU first")),
                ("memory", lazy_gettext("highest memory first")),
                ("waiting", lazy_gettext("most waiting first")),
                ("heard", lazy_gettext("longest silent first")),
            ]
        ),
        default="name",
    )


#: Sort keys; the sort is stable, so equal ones stay in order of app and address.
ORDERS: Mapping[str, Callable[[ExecutorView], Any]] = {
    "name": lambda view: view.key,
    "slots": lambda view: -view.running / view.slots if view.slots else 1,
    "cpu": lambda view: -view.cpu_percent,
    "memory": lambda view: -view.memory_percent,
    "waiting": lambda view: -view.waiting,
    "heard": lambda view: view.beat_at,
}
Histories = dict[int, str]


class ExecutorPages:
    """The executors of the visitor's apps."""

    name = "executors"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/executors", Right.VIEW)
    def index(self) -> Response | str | tuple[str, int]:
        """Show executors in the chosen order, with their load over the last hour."""
        form, known = ExecutorFilterForm(request.args), visitor()
        form.set_apps(
            self._services.database.read(partial(apps.ids_by_name, app_ids=known.app_ids))
        )
        if not form.validate():
            return render_template("pages/executors.html", form=form, found=[], next=None), 422
        after = request.args.get("after", "")
        now_ms = self._services.now_ms()

        def read(
            session: Session,
        ) -> tuple[list[ExecutorView], dict[str, int], Histories, Blockers]:
            views, ids = self._read(session, known)
            fitting = filter(partial(_is_wanted, form=form), views)
            in_order = sorted(fitting, key=ORDERS[form.order.data or "name"])
            # Stable, so those that are gone come first, in the same order.
            wanted = sorted(in_order, key=lambda view: view.state is not ProcessState.SILENT)
            listed = _after(wanted, after)
            shown = [ids[executor.key] for executor in listed[:LINES] if executor.key in ids]
            hour = charts.last_hour(session, shown, now_ms)
            return listed, ids, hour, self._blockers(session, known)

        listed, ids, hour, why = self._services.database.read(read)
        if exports.is_asked():
            return exports.views("executors", ExecutorView, listed)
        return render_template(
            "pages/executors.html",
            form=form,
            found=listed[:LINES],
            ids=ids,
            hour=hour,
            blockers_of=why.of_executor_itself,
            next=listed[LINES - 1].key if len(listed) > LINES else None,
        )

    @route("/executors/<id:executor_id>", Right.VIEW)
    def show(self, executor_id: int) -> str:
        """Show an executor: its load over the last hour and day, and its handlers."""
        known, now_ms = visitor(), self._services.now_ms()

        def read(
            session: Session,
        ) -> tuple[ExecutorView, list[LoadChart], list[Reason], list[DetailedRun]]:
            views, ids = self._read(session, known)
            listed = [executor for executor in views if ids.get(executor.key) == executor_id]
            if not listed:
                abort(404)
            [view] = listed
            started = app_listing.started_jobs(session, view.app, limit=blockers.MAX_JOBS + 1)
            why = self._blockers(session, known).of_executor(view, started)
            lost = self._lost(session, view, known)
            return view, charts.load_charts(session, executor_id, now_ms), why, lost

        view, loads, why, lost = self._services.database.read(read)
        return render_template(
            "pages/executors_show.html", one=view, charts=loads, blockers=why, lost=lost
        )

    @route("/executors/drain", Right.OPERATE, methods=("POST",))
    def drain(self) -> Response:
        """Drain an executor: it takes no new runs, finishes the running ones and exits."""
        app, address = request.form.get("app", ""), request.form.get("address", "")
        if not app:
            abort(404)
        executor_id = Resolver(self._services.database).executor(f"{app}/{address}")
        if self._services.commands(visitor().actor).cluster.drain(executor_id):
            flash(gettext("Draining %(address)s. It stops after its last run.", address=address))
        else:
            flash(gettext("%(address)s is already draining.", address=address))
        return redirect(came_from() or url_for("executors.index"), 303)

    def _lost(self, session: Session, view: ExecutorView, known: Visitor) -> list[DetailedRun]:
        """Return the newest unresolved runs that were lost with an executor."""
        ids = apps.ids_by_name(session, known.app_ids)
        wanted = RunSearch(
            app_ids=[ids.get(view.app, 0)],
            statuses=frozenset({RunStatus.LOST}),
            address=view.address,
            unresolved=True,
            since_ms=self._services.now_ms() - LOST_DAYS * DAY_MS,
            limit=LOST_LINES,
        )
        return [*run_search.page(session, wanted).runs]

    def _blockers(self, session: Session, known: Visitor) -> Blockers:
        now_ms, format_time = self._services.now_ms(), self._times.format
        return blockers.read(session, known.app_ids, now_ms=now_ms, format_time=format_time)

    def _read(self, session: Session, known: Visitor) -> tuple[list[ExecutorView], dict[str, int]]:
        """Return executors by app and address, and the ids of those that have registered."""
        rows = dashboard.executors(session, known.app_ids)
        lists = apps.listed_by_name(session, known.app_ids)
        ids = {f"{row.app}/{row.address}": row.id for row in rows}
        catalogues = read_catalogues(session, rows)
        now_ms = self._services.now_ms()
        away = read_schedulers(session, now_ms).unreachable
        return executor_views(rows, lists, now_ms, catalogues, away), ids


def _after(executors: list[ExecutorView], key: str) -> list[ExecutorView]:
    """Return the executors after the one with this key; all of them if there is none."""
    places = (place for place, executor in enumerate(executors) if executor.key == key)
    return executors[next(places, -1) + 1 :]


def _is_wanted(executor_view: ExecutorView, form: ExecutorFilterForm) -> bool:
    return (
        (not form.app.data or executor_view.app == form.app.data)
        and (not form.address.data or form.address.data in executor_view.address)
        and (not form.state.data or executor_view.state == form.state.data)
    )
