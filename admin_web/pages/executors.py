"""Executors as a page: who is online since when, with what load; and how one is drained."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from admin_web import words
from admin_web.forms import ConsoleForm
from admin_web.offers import offered
from admin_web.parts import Parts
from admin_web.processes import Process, executors
from admin_web.routes import route
from admin_web.visitors import Right, Visitor, visitor
from sql import apps, dashboard

LINES = 100
_ALL = ("", lazy_gettext("all"))


class ExecutorFilterForm(ConsoleForm):
    """Asks which executors to show."""

    app = StringField(lazy_gettext("App"), [Optional(), Length(max=64)])
    address = StringField(lazy_gettext("Address"), [Optional(), Length(max=128)])
    state = SelectField(
        lazy_gettext("State"),
        choices=offered([_ALL, *((name, state.word) for name, state in words.PROCESS.items())]),
        default="",
    )


class ExecutorPages:
    """The executors of the visitor's apps."""

    name = "executors"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/executors", Right.VIEW)
    def index(self) -> str | tuple[str, int]:
        """Show executors by app and address."""
        form = ExecutorFilterForm(request.args)
        if not form.validate():
            return render_template("pages/executors.html", form=form, found=[], next=None), 422
        known, after = visitor(), request.args.get("after", "")
        found = [
            one
            for one in self._parts.database.read(lambda session: self._read(session, known))
            if _is_wanted(one, form) and one.key > after
        ]
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
        if self._parts.fleet_commands(visitor()).drain(f"{app}/{address}"):
            flash(gettext("%(address)s drains: it ends when its last run does.", address=address))
        else:
            flash(gettext("%(address)s drains already.", address=address))
        return redirect(url_for("executors.index"), 303)

    def _read(self, session: Session, known: Visitor) -> list[Process]:
        rows = dashboard.executors(session, known.app_ids)
        lists = apps.listed(session)
        by_name = {
            name: lists[app_id]
            for name, app_id in apps.ids_by_name(session).items()
            if app_id in lists and (known.app_ids is None or app_id in known.app_ids)
        }
        return executors(rows, by_name, self._parts.now_ms())


def _is_wanted(one: Process, form: ExecutorFilterForm) -> bool:
    return (
        (not form.app.data or one.app == form.app.data)
        and (not form.address.data or form.address.data in one.address)
        and (not form.state.data or one.state == form.state.data)
    )
