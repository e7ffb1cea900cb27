"""The list of backfills, and one of them: its dates as a grid, its progress, and what steers it."""

from collections.abc import Callable

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.backfills.grid import FILLED, STATES, months
from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import came_from
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.business_day.backfills import BackfillCommands
from warren.scheduler.problems import ProblemKind, Refused
from warren.scheduler.views.backfill_view import backfill_view, filled_ticks
from warren.sql.listings import backfills
from warren.sql.listings.backfills import BackfillFilter

LINES = 50


class BackfillPages:
    """Backfills of the visitor's apps, for everybody; operators steer them."""

    name = "backfills"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/backfills", Right.VIEW)
    def index(self) -> str:
        """Show backfills, newest first."""
        wanted = BackfillFilter(
            app_ids=visitor().app_ids,
            job_id=id_argument("job"),
            before_id=id_argument("before"),
            limit=LINES + 1,
        )
        now_ms = self._services.now_ms()
        rows = self._services.database.read(lambda session: backfills.listing(session, wanted))
        return render_template(
            "pages/backfills.html",
            rows=[(row, backfill_view(row, now_ms=now_ms)) for row in rows[:LINES]],
            older=rows[LINES - 1].backfill.id if len(rows) > LINES else None,
            states=STATES,
        )

    @route("/backfills/<id:backfill_id>", Right.VIEW)
    def show(self, backfill_id: int) -> str:
        """Show a backfill."""
        app_ids, database = visitor().app_ids, self._services.database
        listed = database.read(
            lambda session: backfills.show(session, backfill_id, app_ids=app_ids)
        )
        ticks = database.read(lambda session: filled_ticks(session, listed.backfill))
        return render_template(
            "pages/backfills_show.html",
            listed=listed,
            backfill=listed.backfill,
            view=backfill_view(listed, now_ms=self._services.now_ms(), ticks=ticks),
            months=months(ticks),
            states=STATES,
            filled=FILLED,
        )

    @route("/backfills/<id:backfill_id>/pause", Right.OPERATE, methods=("POST",))
    def pause(self, backfill_id: int) -> Response:
        """Let a backfill plan no more runs until it is resumed."""
        words = gettext("Backfill %(id)s is paused.", id=backfill_id)
        return self._steer(backfill_id, words, self._commands.pause)

    @route("/backfills/<id:backfill_id>/resume", Right.OPERATE, methods=("POST",))
    def resume(self, backfill_id: int) -> Response:
        """Let a paused backfill go on."""
        words = gettext("Backfill %(id)s goes on.", id=backfill_id)
        return self._steer(backfill_id, words, self._commands.resume)

    @route("/backfills/<id:backfill_id>/cancel", Right.OPERATE, methods=("POST",))
    def cancel(self, backfill_id: int) -> Response:
        """Let a backfill plan no more runs, and end its open ones if asked."""
        kill = request.form.get("kill") == "1"
        words = gettext("Backfill %(id)s is cancelled.", id=backfill_id)
        return self._steer(
            backfill_id, words, lambda its_id: self._commands.cancel(its_id, kill=kill)
        )

    @property
    def _commands(self) -> BackfillCommands:
        return self._services.commands(visitor().actor).backfills

    def _steer(self, backfill_id: int, words: str, act: Callable[[int], object]) -> Response:
        try:
            act(backfill_id)
        except Refused as refused:
            if any(problem.code.kind is ProblemKind.UNKNOWN for problem in refused.problems):
                raise
            for problem in refused.problems:
                flash(problem_text(problem), "error")
        else:
            flash(words)
        back = came_from() or url_for("backfills.show", backfill_id=backfill_id)
        return redirect(back, 303)
