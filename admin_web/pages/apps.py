"""Apps as pages: which there are, which executors they have, and whom their alarms go to."""

from collections import Counter

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from admin_web.app_forms import AppForm, NewAppForm, form_of
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.visitors import Right, visitor
from scheduler.app_commands import AppInUse
from sql import app_listing, apps, dashboard
from sql.errors import Conflict
from sql.liveness import state
from sql.models import App
from sql.rows import Rows

LINES = 50


class AppPages:
    """Seen by everybody who has the app; changed by administrators."""

    name = "apps"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/apps", Right.VIEW)
    def index(self) -> str:
        """Show the apps by name."""
        rows, online = self._parts.database.read(self._read)
        return render_template(
            "pages/apps.html",
            rows=rows[:LINES],
            online=online,
            next=rows[LINES - 1].App.app_name if len(rows) > LINES else None,
            split=apps.split,
        )

    @route("/apps/new", Right.ADMINISTER)
    def new(self) -> str:
        """Ask for an app that is not there yet."""
        return render_template("pages/apps_edit.html", form=NewAppForm(), app=None)

    @route("/apps/add", Right.ADMINISTER, methods=("POST",))
    def create(self) -> Response | tuple[str, int]:
        """Make an app."""
        form = NewAppForm(request.form)
        if form.validate():
            try:
                self._parts.app_commands(visitor()).add(form.spec(form.app_name.data or ""))
            except Conflict:
                form.app_name.errors = (gettext("There is an app of this name already."),)
            else:
                flash(gettext("The app %(name)s is there.", name=form.app_name.data))
                return redirect(url_for("apps.index"), 303)
        return render_template("pages/apps_edit.html", form=form, app=None), 422

    @route("/apps/<id:app_id>", Right.ADMINISTER)
    def edit(self, app_id: int) -> str:
        """Show what of an app can be changed."""
        app = self._find(app_id)
        return render_template("pages/apps_edit.html", form=form_of(app), app=app)

    @route("/apps/<id:app_id>/change", Right.ADMINISTER, methods=("POST",))
    def change(self, app_id: int) -> Response | tuple[str, int]:
        """Change an app."""
        app = self._find(app_id)
        form = AppForm(request.form)
        if not form.validate():
            return render_template("pages/apps_edit.html", form=form, app=app), 422
        changed = self._parts.app_commands(visitor()).change(app_id, form.spec(app.app_name))
        flash(gettext("Saved.") if changed else gettext("Nothing was different."))
        return redirect(url_for("apps.edit", app_id=app_id), 303)

    @route("/apps/<id:app_id>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, app_id: int) -> Response | tuple[str, int]:
        """Delete an app that nothing needs."""
        app = self._find(app_id)
        try:
            self._parts.app_commands(visitor()).delete(app_id)
        except AppInUse as use:
            form = form_of(app)
            form.complain(_refusal(use))
            return render_template("pages/apps_edit.html", form=form, app=app), 409
        flash(gettext("The app %(name)s is deleted.", name=app.app_name))
        return redirect(url_for("apps.index"), 303)

    def _read(self, session: Session) -> tuple[Rows, Counter[str]]:
        app_ids, now_ms = visitor().app_ids, self._parts.now_ms()
        after = request.args.get("after", "")[:64]
        rows = app_listing.listing(session, app_ids, after=after, limit=LINES + 1)
        online = Counter(
            row.registry_key
            for row in dashboard.executors(session, app_ids)
            if state(row, now_ms) == "alive"
        )
        return rows, online

    def _find(self, app_id: int) -> App:
        return self._parts.database.read(lambda session: app_listing.by_id(session, app_id))


def _refusal(use: AppInUse) -> str:
    """Return what still needs an app, in words."""
    if use.job_count:
        names = ", ".join(use.jobs) + (" …" if use.job_count > len(use.jobs) else "")
        return str(
            gettext(
                "This app has jobs, %(count)s in all: %(names)s. Delete them first.",
                count=use.job_count,
                names=names,
            )
        )
    if use.executors:
        names = ", ".join(use.executors)
        return str(
            gettext("Executors of this app are alive: %(names)s. End them first.", names=names)
        )
    return str(gettext("Runs of this app are not over yet. Wait for their end, or kill them."))
