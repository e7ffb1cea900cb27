"""Acts on all jobs that match a filter: confirms their number, starts, shows the result."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.forms import bulk
from warren.admin_web.forms.bulk import BulkAction
from warren.admin_web.forms.run_filter import JobFilterForm, read_query, wanted
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.views.bulk_work import BulkWork, Work, WorkState
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.bulk.reruns import Part
from warren.scheduler.commands.commands import Commands
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

MAX_JOBS = 10_000
ACTIONS = (BulkAction.START, BulkAction.STOP, BulkAction.TRIGGER, BulkAction.DELETE)
Page = Response | str | tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The jobs that match; `is_all` is False if there are more than MAX_JOBS."""

    job_ids: Sequence[int]
    is_all: bool


class BulkJobPages:
    """Bulk actions on the jobs of the visitor's apps."""

    name = "bulk_jobs"

    def __init__(self, services: ConsoleServices, work: BulkWork) -> None:
        self._services = services
        self._work = work

    @route("/jobs/bulk/ask", Right.OPERATE)
    def ask(self) -> Page:
        """Show how many jobs match the filter, and ask for confirmation.

        The filter is in the URL, so a sign-in on the way leads back to it.
        """
        chosen = _chosen(self._services)
        if not chosen.job_ids:
            flash(gettext("No matching jobs."), "error")
            return redirect(bulk.list_url("jobs.index"), 303)
        return render_template(
            "pages/bulk_jobs_ask.html",
            action=bulk.sent_action(ACTIONS),
            chosen=chosen,
            filter=bulk.sent_filter(),
            key=bulk.fresh_key(),
            back=bulk.list_url("jobs.index"),
        )

    @route("/jobs/bulk/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Page:
        """Start the work, unless this form was already sent."""
        known, key = visitor(), bulk.sent_key()
        if self._work.find(key, known.user_id) is None:
            chosen, action = _chosen(self._services), bulk.sent_action(ACTIONS)
            if len(chosen.job_ids) > bulk.sent_number("count"):
                flash(gettext("More jobs match now. Please check again."), "error")
                return ask_about_all(action)
            work = Work(
                key=key,
                action=action,
                user_id=known.user_id,
                ids=chosen.job_ids,
                began_at=self._services.now_ms(),
                is_all=chosen.is_all,
            )
            self._work.start(work, known.actor)
        return redirect(url_for("bulk_jobs.show", key=key), 303)

    @route("/jobs/bulk/work", Right.OPERATE)
    def show(self) -> Page:
        """Show the progress and the result."""
        key, user_id = request.args.get("key", ""), visitor().user_id
        work, undoing = (
            self._work.find(undo_key, user_id) for undo_key in (key, bulk.undo_key(key))
        )
        page = render_template("pages/bulk_jobs.html", work=work, undoing=undoing)
        return page, 200 if work else 404

    @route("/jobs/bulk/resume", Right.OPERATE, methods=("POST",))
    def resume(self) -> Response:
        """Continue work that was interrupted, with the visitor's current rights."""
        key = bulk.sent_key()
        self._work.resume(key, visitor())
        return redirect(url_for("bulk_jobs.show", key=key), 303)

    @route("/jobs/bulk/undo", Right.OPERATE, methods=("POST",))
    def undo(self) -> Response:
        """Restart the jobs that a bulk stop has stopped; works once."""
        known, key = visitor(), bulk.sent_key()
        stop = self._work.find(key, known.user_id)
        if stop is None or stop.action is not BulkAction.STOP or stop.state is not WorkState.DONE:
            return redirect(url_for("bulk_jobs.show", key=key), 303)
        undo = Work(
            key=bulk.undo_key(key),
            action=BulkAction.UNDO_STOP,
            user_id=known.user_id,
            ids=stop.ids,
            began_at=self._services.now_ms(),
            undone=stop.time,
        )
        if not self._work.start(undo, known.actor):
            flash(gettext("This was undone already. Nothing was started again."), "error")
        return redirect(url_for("bulk_jobs.show", key=undo.key), 303)


def job_parts(commands: Commands, work: Work) -> Iterator[Part]:
    """Carry out a bulk action, and return the outcomes part by part."""
    jobs, ids = commands.bulk_jobs, work.ids
    ways: dict[BulkAction, Callable[[], Iterator[Part]]] = {
        BulkAction.START: lambda: jobs.start(ids),
        BulkAction.STOP: lambda: jobs.stop(ids),
        BulkAction.UNDO_STOP: lambda: jobs.undo_stop(ids, work.undone),
        BulkAction.TRIGGER: lambda: jobs.trigger(ids, work.form),
        BulkAction.DELETE: lambda: jobs.delete(ids),
    }
    return ways[work.action]()


def ask_about_all(action: BulkAction) -> Response:
    """Redirect to the page that asks for confirmation, with the form's filter."""
    return redirect(url_for("bulk_jobs.ask", action=action, filter=bulk.sent_filter()), 303)


def _chosen(services: ConsoleServices) -> Chosen:
    known, form = visitor(), JobFilterForm(read_query(bulk.sent_filter()))
    apps = services.database.read(lambda session: list(ids_by_name(session, known.app_ids)))
    form.set_choices(apps)
    if not form.validate():
        abort(400)
    asked = wanted(form, known)
    job_ids = services.database.read(
        lambda session: job_search.ids(session, asked, most=MAX_JOBS + 1)
    )
    return Chosen(job_ids[:MAX_JOBS], len(job_ids) <= MAX_JOBS)
