"""The executors page: state and load of each; draining."""

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from admin_web.console_services import ConsoleServices
from admin_web.exports import lists, tables
from admin_web.forms.choices import select_choices
from admin_web.forms.console_form import ConsoleForm
from admin_web.language import labels
from admin_web.url_routes import route
from admin_web.visitors import Visitor, visitor
from scheduler.actor import Right
from scheduler.resolver import Resolver
from scheduler.views.process_view import ExecutorView, executor_views
from sql.listings import dashboard
from sql.registry import apps

LINES = 100
_ALL = ("", lazy_gettext("all"))


class ExecutorFilterForm(ConsoleForm):
    """Asks which executors to show."""

    app = StringField(lazy_gettext("App"), [Optional(), Length(max=64)])
    address = StringField(lazy_gettext("Address"), [Optional(), Length(max=128)])
    state = SelectField(
        lazy_gettext("State"),
        choices=select_choices(
            [_ALL, *((name, state.word) for name, state in labels.PROCESS.items())]
        ),
        default="",
    )


class ExecutorPages:
    """The executors of the visitor's apps."""

    name = "executors"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/executors", Right.VIEW)
    def index(self) -> Response | str | tuple[str, int]:
        """Show executors by app and address."""
        form = ExecutorFilterForm(request.args)
        if not form.validate():
            return render_template("pages/executors.html", form=form, found=[], next=None), 422
        known, after = visitor(), request.args.get("after", "")
        found = [
            one
            for one in self._services.database.read(lambda session: self._read(session, known))
            if _is_wanted(one, form) and one.key > after
        ]
        if tables.is_asked():
            return lists.views("executors", ExecutorView, found)
        return render_template(
            "pages/executors.html",
            form=form,
            found=found[:LINES],
            next=found[LINES - 1].key if len(found) > LINES else None,
        )

    @route("/executors/drain", Right.OPERATE, methods=("POST",))
    def drain(self) -> Response:
        """Let an executor take nothing new, finish what runs, and end."""
        app, address = request.form.get("app", ""), request.form.get("address", "")
        if not app:
            abort(404)
        executor_id = Resolver(self._services.database).executor(f"{app}/{address}")
        if self._services.commands(visitor().actor).cluster.drain(executor_id):
            flash(gettext("Draining %(address)s. It stops after its last run.", address=address))
        else:
            flash(gettext("%(address)s is already draining.", address=address))
        return redirect(url_for("executors.index"), 303)

    def _read(self, session: Session, known: Visitor) -> list[ExecutorView]:
        rows = dashboard.executors(session, known.app_ids)
        lists = apps.listed_by_name(session, known.app_ids)
        return executor_views(rows, lists, self._services.now_ms())


def _is_wanted(one: ExecutorView, form: ExecutorFilterForm) -> bool:
    return (
        (not form.app.data or one.app == form.app.data)
        and (not form.address.data or form.address.data in one.address)
        and (not form.state.data or one.state == form.state.data)
    )
