"""Asks until when somebody looks after jobs, and notes it."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.language.labels import problem_text
from warren.admin_web.local_times import duration
from warren.admin_web.pages.bulk import ticked_ids
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.alarm_commands import MAX_REASON_LENGTH
from warren.scheduler.problems import Problem
from warren.scheduler.views.board_view import job_state
from warren.sql.board import listing
from warren.sql.instants import DAY_MS, HOUR_MS

#: How long a mute may last, by the word of its choice.
SPANS = {"1h": HOUR_MS, "4h": 4 * HOUR_MS, "1d": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
DEFAULT = "1d"


class MutePages:
    """Mutes of the jobs of the visitor's apps."""

    name = "mutes"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/mutes/ask", Right.OPERATE)
    def ask(self) -> str | Response:
        """Ask until when; the jobs are in the URL, so a sign-in on the way leads back to it."""
        known, now_ms = visitor(), self._services.now_ms()
        rows = self._services.database.read(
            lambda session: listing.of_jobs(session, ticked_ids()).values()
        )
        jobs = [
            job_state(row, now_ms) for row in rows if known.actor.knows_job(row.app_id, row.job_id)
        ]
        if not jobs:
            flash(gettext("No job was selected."), "error")
            return redirect(url_for("board.show"), 303)
        return render_template(
            "pages/mutes_ask.html",
            jobs=jobs,
            spans=SPANS,
            span_words=duration,
            chosen=DEFAULT,
            longest=MAX_REASON_LENGTH,
        )

    @route("/mutes", Right.OPERATE, methods=("POST",), form="board.show")
    def start(self) -> Response:
        """Mute the jobs, or end their mutes."""
        commands = self._services.commands(visitor().actor).mutes
        job_ids = ticked_ids()
        span = SPANS.get(request.form.get("span", ""), SPANS[DEFAULT])
        until_ms = self._services.now_ms() + span
        try:
            for job_id in job_ids:
                if "end" in request.form:
                    commands.unmute(job_id)
                else:
                    commands.mute(
                        job_id,
                        until_ms=until_ms,
                        why=request.form.get("why", "").strip(),
                        silent=request.form.get("silent") == "1",
                    )
        except Problem as problem:
            flash(problem_text(problem), "error")
            return redirect(url_for("mutes.ask", id=job_ids), 303)
        if "end" in request.form:
            flash(gettext("Ended."))
        else:
            flash(gettext("Acknowledged: %(n)s.", n=len(job_ids)))
        return redirect(url_for("board.show"), 303)
