"""Pausing and resuming dispatch, of the whole cluster or of one app."""

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.forms.pauses import PauseForm
from warren.admin_web.links import came_from
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.cluster import PauseOutcome
from warren.sql.models import App
from warren.sql.registry import pauses
from warren.sql.registry.pauses import EVERY_APP, PauseRow


class PausePages:
    """Administrators pause the cluster; operators pause their apps."""

    name = "pauses"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/schedulers/pause/ask", Right.ADMINISTER)
    def ask(self) -> str:
        """Show the form to pause the cluster."""
        return self._show(None)

    @route("/schedulers/pause", Right.ADMINISTER, methods=("POST",))
    def pause(self) -> Response | tuple[str, int]:
        """Stop sending runs, everywhere."""
        return self._pause(None)

    @route("/schedulers/resume", Right.ADMINISTER, methods=("POST",))
    def resume(self) -> Response:
        """Resume sending runs."""
        changed = self._services.commands(visitor().actor).cluster.resume()
        flash(gettext("Dispatch resumed.") if changed else gettext("Dispatch was not paused."))
        return redirect(came_from() or _place(None), 303)

    @route("/apps/<id:app_id>/pause/ask", Right.OPERATE)
    def ask_app(self, app_id: int) -> str:
        """Show the form to pause an app."""
        return self._show(self._app(app_id))

    @route("/apps/<id:app_id>/pause", Right.OPERATE, methods=("POST",))
    def pause_app(self, app_id: int) -> Response | tuple[str, int]:
        """Stop sending runs of an app."""
        return self._pause(self._app(app_id))

    @route("/apps/<id:app_id>/resume", Right.OPERATE, methods=("POST",))
    def resume_app(self, app_id: int) -> Response:
        """Resume sending runs of an app."""
        app = self._app(app_id)
        changed = self._services.commands(visitor().actor).cluster.resume(app.id)
        if changed:
            flash(gettext("App %(name)s resumed.", name=app.name))
        else:
            flash(gettext("App %(name)s was not paused.", name=app.name))
        return redirect(came_from() or _place(app), 303)

    def _app(self, app_id: int) -> App:
        if not visitor().actor.knows(app_id):
            abort(404)
        found = self._services.database.read(lambda session: session.get(App, app_id))
        return found or abort(404)

    def _form(self) -> PauseForm:
        return PauseForm(request.form, now_ms=self._services.now_ms(), zone=self._times.zone())

    def _present(self, app: App | None) -> PauseRow | None:
        def read(session: Session) -> PauseRow | None:
            return pauses.of(session, app.id if app else EVERY_APP, self._services.now_ms())

        return self._services.database.read(read)

    def _show(self, app: App | None) -> str:
        form, present = self._form(), self._present(app)
        if present:
            form.show(present)
        return _page(form, app, is_paused=present is not None)

    def _pause(self, app: App | None) -> Response | tuple[str, int]:
        form = self._form()
        if not form.validate():
            return _page(form, app, is_paused=self._present(app) is not None), 422
        outcome = self._services.commands(visitor().actor).cluster.pause(
            app.id if app else EVERY_APP, reason=form.reason.data or "", until_ms=form.until_ms
        )
        flash(_outcome_text(outcome, app))
        return redirect(_place(app), 303)


def _page(form: PauseForm, app: App | None, *, is_paused: bool) -> str:
    return render_template(
        "pages/pauses_form.html", form=form, app=app, is_paused=is_paused, back=_place(app)
    )


def _place(app: App | None) -> str:
    return url_for("apps.index") if app else url_for("schedulers.index")


def _outcome_text(outcome: PauseOutcome, app: App | None) -> str:
    if outcome is PauseOutcome.ALREADY:
        return str(gettext("Nothing to save."))
    if outcome is PauseOutcome.CHANGED:
        return str(gettext("Saved."))
    if app:
        return str(gettext("App %(name)s paused.", name=app.name))
    return str(gettext("Dispatch paused."))
