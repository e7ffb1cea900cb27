"""What is done to jobs from the list or their own page: start, stop, trigger, delete."""

from collections.abc import Callable

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, SelectMultipleField, TextAreaField

from admin_web.forms import ConsoleForm
from admin_web.gate import local_path
from admin_web.keys import LARGEST
from admin_web.offers import offered
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.said import said
from admin_web.visitors import Right, visitor
from scheduler.job_rules import check_param
from sql import apps, dashboard, job_search
from sql.errors import NotFound
from sql.models import App
from sql.rows import AnyRow

#: Most jobs that one form acts on.
MOST = 200


class TriggerForm(ConsoleForm):
    """Asks how a job shall run this once."""

    param = TextAreaField(lazy_gettext("Parameter"))
    addresses = SelectMultipleField(lazy_gettext("Executors"), validate_choice=False)


class JobActions:
    """Acts on one job or on the ticked ones; each job is a unit of its own, but for deleting."""

    name = "job_actions"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/jobs/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Response:
        """Let schedules fire."""
        done, wrong = self._each(self._parts.commands(visitor()).start)
        flash(gettext("Started: %(n)s", n=done))
        return self._back(wrong)

    @route("/jobs/stop", Right.OPERATE, methods=("POST",))
    def stop(self) -> Response:
        """Let schedules rest."""
        done, wrong = self._each(self._parts.commands(visitor()).stop)
        flash(gettext("Stopped: %(n)s", n=done))
        return self._back(wrong)

    @route("/jobs/trigger", Right.OPERATE, methods=("POST",))
    def trigger(self) -> Response:
        """Run jobs once, each with its own parameter."""
        commands = self._parts.commands(visitor())
        done, wrong = self._each(lambda name: commands.trigger(name, param=None, addresses=()))
        flash(gettext("Runs planned: %(n)s", n=done))
        return self._back(wrong)

    @route("/jobs/ask-delete", Right.OPERATE, methods=("POST",))
    def ask_delete(self) -> str:
        """Ask whether jobs shall really go."""
        return render_template("pages/jobs_delete.html", jobs=self._chosen(), back=_came_from())

    @route("/jobs/delete", Right.OPERATE, methods=("POST",))
    def delete(self) -> Response:
        """Delete jobs, all or none."""
        try:
            gone = self._parts.job_commands(visitor()).delete(self._chosen())
        except ValueError as error:
            return self._back([said(str(error))])
        flash(gettext("Deleted: %(names)s", names=", ".join(gone)))
        # The page of a job that is gone is no place to go back to.
        return redirect(_came_from(url_for("jobs.index")), 303)

    @route("/jobs/<id:job_id>/trigger", Right.OPERATE)
    def ask_trigger(self, job_id: int) -> str:
        """Ask for the parameter and the executors of one run."""
        job = self._job(job_id)
        form = self._offered(TriggerForm(data={"param": job.executor_param or ""}), job)
        return render_template("pages/jobs_trigger.html", form=form, job=job)

    @route("/jobs/<id:job_id>/trigger/run", Right.OPERATE, methods=("POST",))
    def trigger_one(self, job_id: int) -> Response | tuple[str, int]:
        """Run a job once."""
        job = self._job(job_id)
        form = self._offered(TriggerForm(request.form), job)
        param = (form.param.data or "").replace("\r\n", "\n")
        field: Field = form.param
        try:
            check_param(param)
            field = form.addresses
            run_id = self._parts.commands(visitor()).trigger(
                f"{job.app}/{job.name}", param=param, addresses=form.addresses.data or ()
            )
        except ValueError as error:
            field.errors = (said(str(error)),)
            return render_template("pages/jobs_trigger.html", form=form, job=job), 422
        flash(gettext("Run %(id)s is planned.", id=run_id))
        return redirect(url_for("jobs.show", job_id=job_id), 303)

    def _each(self, act: Callable[[str], object]) -> tuple[int, list[str]]:
        """Act on each chosen job; return how many it changed, and what was wrong with others."""
        done, wrong = 0, []
        for name in self._chosen().values():
            try:
                done += act(name) is not False
            except (ValueError, NotFound) as error:
                wrong.append(said(str(error)))
        return done, wrong

    def _chosen(self) -> dict[int, str]:
        """Return the jobs that a form names, as APP/NAME: `only` is the button of one line."""
        sent = request.form.getlist("only") or request.form.getlist("id")
        wanted = {int(text) for text in sent[:MOST] if text.isdecimal() and int(text) <= LARGEST}
        known = visitor()
        found = self._parts.database.read(
            lambda session: job_search.names(session, wanted, known.app_ids)
        )
        if sent and not found:
            abort(404)
        return found

    def _job(self, job_id: int) -> AnyRow:
        known = visitor()
        return self._parts.database.read(
            lambda session: job_search.show(session, job_id, known.app_ids)
        )

    def _offered(self, form: TriggerForm, job: AnyRow) -> TriggerForm:
        def unit(session: Session) -> list[str]:
            listed = apps.split(session.get_one(App, job.job_group).address_list)
            registered = [
                row.registry_value for row in dashboard.executors(session, [job.job_group])
            ]
            return list(dict.fromkeys([*registered, *listed]))

        form.addresses.choices = offered((one, one) for one in self._parts.database.read(unit))
        return form

    def _back(self, wrong: list[str]) -> Response:
        for words in wrong[:10]:
            flash(words, "error")
        return redirect(_came_from(), 303)


def _came_from(otherwise: str = "") -> str:
    """Return where a form says that it stands, the list when it does not."""
    sent = request.form.get("back", "")
    if not sent.startswith("/jobs"):
        return otherwise or url_for("jobs.index")
    return local_path(sent)
