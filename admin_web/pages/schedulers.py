"""Schedulers and consoles as a page, and how sending is paused everywhere."""

from flask import flash, redirect, render_template, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from admin_web.parts import Parts
from admin_web.processes import process_of
from admin_web.routes import route
from admin_web.visitors import Right, visitor
from sql import cluster, presence


class SchedulerPages:
    """Seen by everybody; sending is paused by administrators."""

    name = "schedulers"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/schedulers", Right.VIEW)
    def index(self) -> str:
        """Show schedulers and consoles, the broker's health, and who paused sending."""
        rows, pause = self._parts.database.read(
            lambda session: (presence.listing(session, presence.ADMIN), cluster.pause(session))
        )
        now_ms = self._parts.now_ms()
        processes = [process_of(row, now_ms) for row in rows]
        return render_template(
            "pages/schedulers.html",
            schedulers=[one for one in processes if one.app == presence.SCHEDULER],
            consoles=[one for one in processes if one.app == presence.CONSOLE],
            paused_at=pause[0],
            paused_by=pause[1],
            is_broker_up=self._parts.is_broker_up(),
        )

    @route("/schedulers/pause", Right.ADMINISTER, methods=("POST",))
    def pause(self) -> Response:
        """Stop sending runs, everywhere."""
        changed = self._parts.commands(visitor()).pause()
        flash(gettext("Paused.") if changed else gettext("It was paused already."))
        return redirect(url_for("schedulers.index"), 303)

    @route("/schedulers/resume", Right.ADMINISTER, methods=("POST",))
    def resume(self) -> Response:
        """Go on sending runs."""
        changed = self._parts.commands(visitor()).resume()
        flash(gettext("Sending goes on.") if changed else gettext("It was not paused."))
        return redirect(url_for("schedulers.index"), 303)
