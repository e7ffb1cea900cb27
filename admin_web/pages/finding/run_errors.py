"""Failed runs grouped by message, and the number of runs that match a filter."""

from collections.abc import Sequence

from flask import Response, render_template, request

from warren.admin_web import exports
from warren.admin_web.forms.run_filter import MAX_RUNS, PERIODS, RunFinder
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.sql.listings import job_search, run_messages
from warren.sql.listings.error_groups import ErrorGroup, ErrorGroups
from warren.sql.listings.run_search import RunCount

#: Groups on the page; a shorter period shows the rest.
GROUPS = 100


class RunErrorPages:
    """Errors of the visitor's apps."""

    name = "run_errors"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._finder = RunFinder(services)

    @route("/runs/errors", Right.VIEW)
    def show(self) -> Response | str | tuple[str, int]:
        """Show groups of failed runs, the largest first."""
        asked = self._finder.ask(request.args)
        facts = {"form": asked.form, "periods": PERIODS}
        if not asked.is_valid:
            nothing = ErrorGroups(groups=[], runs=0, is_all=True)
            return render_template("pages/runs_errors.html", **facts, groups=[], found=nothing), 422
        error_groups = self._finder.errors(asked)
        if exports.is_asked():
            return self._file(error_groups.groups)
        first = error_groups.groups[:GROUPS]
        lines = self._services.database.read(
            lambda session: run_messages.by_ids(session, [group.newest for group in first])
        )
        by_id = {line.id: line for line in lines}
        groups = [(group, by_id[group.newest]) for group in first if group.newest in by_id]
        hidden = len(error_groups.groups) - len(groups)
        return render_template(
            "pages/runs_errors.html", **facts, groups=groups, hidden=hidden, found=error_groups
        )

    def _file(self, groups: Sequence[ErrorGroup]) -> Response:
        """Export every group."""
        names = self._services.database.read(
            lambda session: job_search.names(
                session, {group.job_id for group in groups}, visitor().app_ids
            )
        )
        rows = (
            {
                "runs": group.count,
                "job_id": group.job_id,
                "job": names.get(group.job_id),
                "message": group.text,
                "first_due_at": group.first_due,
                "last_due_at": group.last_due,
                "newest_run_id": group.newest,
            }
            for group in groups
        )
        columns = ("runs", "job_id", "job", "message", "first_due_at", "last_due_at")
        return exports.answer("errors", (*columns, "newest_run_id"), rows)

    @route("/runs/total", Right.VIEW)
    def total(self) -> str:
        """Return the number of matching runs, up to a limit, as HTML for the runs page."""
        asked = self._finder.ask(request.args)
        nothing = RunCount(number=0, is_all=True)
        run_count = self._finder.count(asked) if asked.is_valid else nothing
        return render_template("pages/runs_total.html", found=run_count, most=MAX_RUNS)
