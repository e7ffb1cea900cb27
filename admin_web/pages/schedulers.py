"""The schedulers page: schedulers and consoles."""

from flask import render_template
from werkzeug.wrappers import Response

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.exports import lists, tables
from warren.admin_web.url_routes import route
from warren.scheduler.actor import Right
from warren.scheduler.views.process_view import NodeView, node_view
from warren.sql.registry import pauses, presence
from warren.sql.registry.pauses import EVERY_APP


class SchedulerPages:
    """For everybody."""

    name = "schedulers"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/schedulers", Right.VIEW)
    def index(self) -> str | Response:
        """Show schedulers and consoles, and whether the broker is connected."""
        now_ms = self._services.now_ms()
        rows, paused = self._services.database.read(
            lambda session: (
                presence.listing(session, presence.ADMIN),
                pauses.of(session, EVERY_APP, now_ms),
            )
        )

        def nodes(app: str) -> list[NodeView]:
            return [node_view(row, now_ms) for row in rows if row.app == app]

        if tables.is_asked():
            found = [node_view(row, now_ms) for row in rows]
            return lists.views("schedulers", NodeView, found)
        return render_template(
            "pages/schedulers.html",
            schedulers=nodes(presence.SCHEDULER),
            consoles=nodes(presence.CONSOLE),
            is_paused=paused is not None,
            is_broker_up=self._services.is_broker_up(),
        )
