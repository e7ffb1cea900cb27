"""The pages of apps: their executors and alarm targets."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web import exports
from warren.admin_web.alarms.alarm_tests import BUTTON, AlarmTests
from warren.admin_web.exports import ListFiles
from warren.admin_web.forms.apps import AppForm, NewAppForm, form_of
from warren.admin_web.language.labels import problem_text
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.problems import Code, Problem
from warren.sql.listings import app_listing, dashboard
from warren.sql.listings.app_listing import ListedApp
from warren.sql.models import App
from warren.sql.registry import apps, pauses
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import state

LINES = 50


@dataclass(slots=True)
class AppExecutors:
    """How many executors of an app are online, and how many are offline without signing off."""

    online: int = 0
    offline: int = 0

    def badge(self, jobs: int) -> tuple[str, str]:
        """Return the tone and the icon of its badge, for an app with this many jobs."""
        if not self.online:
            return ("bad", "cross") if jobs else ("quiet", "ring")
        return ("warn", "triangle") if self.offline else ("good", "check")


class AppPages:
    """Users who have an app see it; administrators change it."""

    name = "apps"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tests = AlarmTests(services)

    @route("/apps", Right.VIEW)
    def index(self) -> str | Response:
        """Show the apps by name."""
        if exports.is_asked():
            return ListFiles(self._services).apps(visitor().app_ids)
        rows, executors, paused = self._services.database.read(self._read)
        return render_template(
            "pages/apps.html",
            rows=rows[:LINES],
            executors=executors,
            next=rows[LINES - 1].app.name if len(rows) > LINES else None,
            split=apps.split,
            paused=paused,
        )

    @route("/apps/new", Right.ADMINISTER)
    def new(self) -> str:
        """Show the form of a new app."""
        return render_template("pages/apps_edit.html", form=NewAppForm(), app=None)

    @route("/apps/add", Right.ADMINISTER, methods=("POST",), form="apps.new")
    def create(self) -> Response | tuple[str, int]:
        """Create an app."""
        form = NewAppForm(request.form)
        if form.validate():
            try:
                self._services.commands(visitor().actor).apps.add(
                    form.spec(form.app_name.data or "")
                )
            except Problem as problem:
                if problem.code is Code.APP_NAME_TAKEN:
                    form.app_name.errors = (gettext("This app name is taken."),)
                elif problem.code is Code.APP_NAME_RESERVED:
                    form.app_name.errors = (problem_text(problem),)
                else:
                    raise
            else:
                flash(gettext("App %(name)s created.", name=form.app_name.data))
                return redirect(url_for("apps.index"), 303)
        return render_template("pages/apps_edit.html", form=form, app=None), 422

    @route("/apps/<id:app_id>", Right.ADMINISTER)
    def edit(self, app_id: int) -> str:
        """Show the form of an app."""
        app = self._find(app_id)
        return render_template("pages/apps_edit.html", form=form_of(app), app=app)

    @route("/apps/<id:app_id>/change", Right.ADMINISTER, methods=("POST",))
    def change(self, app_id: int) -> Response | tuple[str, int]:
        """Change an app."""
        app = self._find(app_id)
        form = AppForm(request.form)
        if BUTTON in request.form:
            return self._test(form, app), 200
        if not form.validate():
            return render_template("pages/apps_edit.html", form=form, app=app), 422
        changed = self._services.commands(visitor().actor).apps.change(app_id, form.spec(app.name))
        flash(gettext("Saved.") if changed else gettext("Nothing to save."))
        return redirect(url_for("apps.edit", app_id=app_id), 303)

    @route("/apps/<id:app_id>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, app_id: int) -> Response | tuple[str, int]:
        """Delete an app that is no longer used."""
        app = self._find(app_id)
        try:
            self._services.commands(visitor().actor).apps.delete(app_id)
        except Problem as problem:
            if problem.code is not Code.APP_IN_USE:
                raise
            form = form_of(app)
            form.add_error(_refusal(problem.facts))
            return render_template("pages/apps_edit.html", form=form, app=app), 409
        flash(gettext("App %(name)s deleted.", name=app.name))
        return redirect(url_for("apps.index"), 303)

    def _test(self, form: AppForm, app: App) -> str:
        """Send a test to a target that was typed; show the form with the outcome."""
        typed = form.spec(app.name)
        problems = self._tests.send_typed(
            form,
            typed.alarm,
            typed.webhook,
            lambda commands, targets, webhook: commands.test_app(app.id, targets, webhook),
        )
        for problem in problems:
            form.add_error(problem_text(problem))
        return render_template("pages/apps_edit.html", form=form, app=app)

    def _read(
        self, session: Session
    ) -> tuple[list[ListedApp], dict[str, AppExecutors], dict[int, ShownPause]]:
        app_ids, now_ms = visitor().app_ids, self._services.now_ms()
        after = request.args.get("after", "")[:64]
        rows = app_listing.listing(session, app_ids, after=after, limit=LINES + 1)
        executors: dict[str, AppExecutors] = defaultdict(AppExecutors)
        for row in dashboard.executors(session, app_ids):
            if state(row, now_ms).is_online:
                executors[row.app].online += 1
            else:
                executors[row.app].offline += 1
        held = pauses.in_force(session, now_ms, app_ids)
        return rows, executors, {pause.app_id: pause for pause in held}

    def _find(self, app_id: int) -> App:
        return self._services.database.read(lambda session: app_listing.by_id(session, app_id))


def _refusal(use: Mapping[str, Any]) -> str:
    """Return in words why an app cannot be deleted."""
    if use["job_count"]:
        names = ", ".join(use["jobs"]) + (" …" if use["job_count"] > len(use["jobs"]) else "")
        return str(
            gettext(
                "This app still has jobs (%(count)s): %(names)s. Delete them first.",
                count=use["job_count"],
                names=names,
            )
        )
    if use["executors"]:
        names = ", ".join(use["executors"])
        return str(
            gettext(
                "Executors of this app are still online: %(names)s. Stop them first.", names=names
            )
        )
    return str(
        gettext("This app still has unfinished runs. Wait for them to finish, or kill them.")
    )
