"""The schedulers page: schedulers, consoles, and pausing dispatch."""

from flask import flash, redirect, render_template, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from admin_web.console_services import ConsoleServices
from admin_web.exports import lists, tables
from admin_web.links import came_from
from admin_web.url_routes import route
from admin_web.visitors import visitor
from scheduler.actor import Right
from scheduler.views.process_view import NodeView, node_view
from sql.registry import cluster, presence


class SchedulerPages:
    """Seen by everybody; sending is paused by administrators."""

    name = "schedulers"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/schedulers", Right.VIEW)
    def index(self) -> str | Response:
        """Show schedulers and consoles, the broker's health, and who paused sending."""
        rows, paused_at = self._services.database.read(
            lambda session: (presence.listing(session, presence.ADMIN), cluster.paused_at(session))
        )
        now_ms = self._services.now_ms()

        def nodes(key: str) -> list[NodeView]:
            return [node_view(row, now_ms) for row in rows if row.app == key]

        if tables.is_asked():
            found = [node_view(row, now_ms) for row in rows]
            return lists.views("schedulers", NodeView, found)
        return render_template(
            "pages/schedulers.html",
            schedulers=nodes(presence.SCHEDULER),
            consoles=nodes(presence.CONSOLE),
            paused_at=paused_at,
            is_broker_up=self._services.is_broker_up(),
        )

    @route("/schedulers/pause", Right.ADMINISTER, methods=("POST",))
    def pause(self) -> Response:
        """Stop sending runs, everywhere."""
        changed = self._services.commands(visitor().actor).cluster.pause()
        flash(gettext("Dispatch paused.") if changed else gettext("Dispatch is already paused."))
        return redirect(url_for("schedulers.index"), 303)

    @route("/schedulers/resume", Right.ADMINISTER, methods=("POST",))
    def resume(self) -> Response:
        """Go on sending runs."""
        changed = self._services.commands(visitor().actor).cluster.resume()
        flash(gettext("Dispatch resumed.") if changed else gettext("Dispatch was not paused."))
        return redirect(came_from() or url_for("schedulers.index"), 303)
