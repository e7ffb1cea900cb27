"""Re-runs or kills the ticked runs, or all that match the filter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.forms import bulk
from warren.admin_web.forms.bulk import BulkAction
from warren.admin_web.forms.run_filter import RunFinder, read_query
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.views.bulk_work import BulkWork, Work
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.bulk.bulk import JobPreview
from warren.scheduler.commands.bulk.reruns import Part
from warren.scheduler.commands.commands import Commands

ACTIONS = (BulkAction.RUN_AGAIN, BulkAction.KILL)
Page = Response | str | tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen runs; `is_all` is False if there are more."""

    run_ids: Sequence[int]
    is_all: bool


class BulkRunPages:
    """Bulk actions on the runs of the visitor's apps."""

    name = "bulk_runs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._finder = RunFinder(services)
        self._work = BulkWork(services, _parts)

    @route("/runs/bulk/ask", Right.OPERATE)
    def ask(self) -> Page:
        """Show how many runs are chosen, and ask for confirmation.

        The selection is in the URL, so a sign-in on the way leads back to it.
        """
        now_ms = self._services.now_ms()
        chosen = self._chosen(now_ms)
        if not chosen.run_ids:
            flash(gettext("No run was selected."), "error")
            return redirect(bulk.list_url("runs.index"), 303)
        action = bulk.sent_action(ACTIONS)
        preview = self._preview(chosen) if action is BulkAction.RUN_AGAIN else []
        return render_template(
            "pages/bulk_runs_ask.html",
            action=action,
            preview=preview,
            unknown=len(chosen.run_ids) - sum(line.counts.total() for line in preview),
            chosen=chosen,
            is_about_all=bulk.is_about_all(),
            filter=bulk.sent_filter(),
            key=bulk.fresh_key(),
            asked_at=now_ms,
            back=bulk.list_url("runs.index"),
        )

    @route("/runs/bulk/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Page:
        """Start the work, unless this form was already sent."""
        known, key, asked_at = visitor(), bulk.sent_key(), bulk.sent_number("asked_at")
        if self._work.find(key, known.user_id) is None:
            chosen, action = self._chosen(asked_at), bulk.sent_action(ACTIONS)
            if len(chosen.run_ids) > bulk.sent_number("count"):
                flash(gettext("More runs match now. Please check again."), "error")
                query = bulk.sent_filter()
                again = url_for("bulk_runs.ask", action=action, all=1, filter=query)
                return redirect(again, 303)
            work = Work(
                key=key,
                action=action,
                user_id=known.user_id,
                ids=chosen.run_ids,
                began_at=self._services.now_ms(),
                is_all=chosen.is_all,
            )
            self._work.start(work, known.actor)
        return redirect(url_for("bulk_runs.show", key=key), 303)

    @route("/runs/bulk/work", Right.OPERATE)
    def show(self) -> Page:
        """Show the progress and the result."""
        key = request.args.get("key", "")
        work = self._work.find(key, visitor().user_id)
        return render_template("pages/bulk_runs.html", work=work), 200 if work else 404

    @route("/runs/bulk/resume", Right.OPERATE, methods=("POST",))
    def resume(self) -> Response:
        """Continue work that was interrupted, with the visitor's current rights."""
        key = bulk.sent_key()
        self._work.resume(key, visitor())
        return redirect(url_for("bulk_runs.show", key=key), 303)

    def _preview(self, chosen: Chosen) -> list[JobPreview]:
        commands = self._services.commands(visitor().actor).bulk_runs
        return self._services.database.read(
            lambda session: commands.preview(session, chosen.run_ids)
        )

    def _chosen(self, asked_at: int) -> Chosen:
        if not bulk.is_about_all():
            return Chosen(bulk.ticked_ids(), is_all=True)
        asked = self._finder.ask(read_query(bulk.sent_filter()))
        if not asked.is_valid:
            abort(400)
        # Do not run again what running others again has created since.
        is_again = bulk.sent_action(ACTIONS) is BulkAction.RUN_AGAIN
        swept = self._finder.all(asked, until_ms=asked_at if is_again else None)
        return Chosen(swept.run_ids, swept.is_all)


def _parts(commands: Commands, work: Work) -> Iterator[Part]:
    """Carry out a bulk action on runs, and return the outcomes part by part."""
    if work.action is BulkAction.KILL:
        return commands.bulk_runs.kill(work.ids)
    return commands.bulk_runs.again(work.ids, work.form)
