"""The page that clears runs and shows the progress."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.forms.runs import CLEARED, ClearForm
from warren.admin_web.url_routes import route
from warren.admin_web.views.clearings import Clearings, ClearingState, Progress
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.retention.clearing_criteria import ClearingPreset, criteria_of
from warren.sql.listings import run_choices


class ClearingPages:
    """For administrators, and for operators within their own apps."""

    name = "clearing"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._clearings = Clearings(services)

    @route("/runs/clear", Right.OPERATE)
    def show(self) -> str:
        """Show the form, and the progress of the current clearing."""
        return self._page(self._form(visitor()))

    @route("/runs/clear/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Response | tuple[str, int]:
        """Start clearing in the background."""
        known = visitor()
        form = self._form(known)
        if not form.validate() or not self._is_allowed(form, known):
            return self._page(form), 422
        choice, now_ms = ClearingPreset(int(form.choice.data)), self._services.now_ms()
        app_id = None if form.job_id is not None else form.app_id
        criteria = criteria_of(choice, now_ms=now_ms, job_id=form.job_id, app_id=app_id)
        progress = Progress(
            choice=choice,
            user_id=known.user_id,
            who=known.name,
            began_at=now_ms,
            app_id=form.app_id,
            app=form.app.data or "",
            job=(form.job.data or "").strip(),
        )
        if not self._clearings.start(known.actor, criteria, progress):
            form.add_error(gettext("Runs are already being cleared. Only one can run at a time."))
            return self._page(form), 409
        flash(gettext("Clearing started."))
        return redirect(url_for("clearing.show"), 303)

    @route("/runs/clear/stop", Right.OPERATE, methods=("POST",))
    def stop(self) -> Response:
        """Stop the current clearing, if the visitor may see it."""
        known, progress = visitor(), self._clearings.progress
        if progress is not None and progress.concerns(known.name, known.app_ids):
            self._clearings.stop()
            flash(gettext("Stopping after the current step. Cleared runs are not restored."))
        return redirect(url_for("clearing.show"), 303)

    def _form(self, known: Visitor) -> ClearForm:
        form = ClearForm(request.form or request.args)
        self._services.database.read(lambda session: form.set_choices(session, known.app_ids))
        return form

    def _is_allowed(self, form: ClearForm, known: Visitor) -> bool:
        """Check that it concerns the visitor's apps; show a problem beside the field."""
        if known.app_ids is None:
            return True
        name = (form.job.data or "").strip()
        if form.job_id is not None:
            found = self._services.database.read(
                lambda session: run_choices.jobs_named(session, name, known.app_ids)
            )
            if form.job_id not in found:
                form.job.errors = [gettext("Job not found.")]
                return False
        elif form.app_id is None:
            form.app.errors = [gettext("Choose one of your apps, or a job.")]
            return False
        return True

    def _page(self, form: ClearForm) -> str:
        known, progress = visitor(), self._clearings.progress
        is_busy = progress is not None and progress.state is ClearingState.RUNNING
        is_known = progress is not None and progress.concerns(known.name, known.app_ids)
        return render_template(
            "pages/clearing.html",
            form=form,
            progress=progress if is_known else None,
            is_busy=is_busy,
            choices=CLEARED,
        )
