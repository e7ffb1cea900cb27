"""Health and Prometheus metrics, for programs. Neither needs a sign-in."""

import hmac

from flask import Response, abort, jsonify, request

from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.views.metrics import MetricsCollector
from warren.scheduler.actor import Right
from warren.sql.errors import DatabaseUnavailable
from warren.sql.registry import presence
from warren.sql.registry.presence import state


class HealthPages:
    """Health and metrics; without names, addresses or the version."""

    name = "health"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._metrics = MetricsCollector(services)

    @route("/healthz", Right.ANYONE)
    def healthz(self) -> tuple[Response, int]:
        """Return 200 if database, broker and a scheduler are available, else 503."""
        state = {"database": True, "broker": self._services.is_broker_up(), "schedulers": True}
        try:
            state["schedulers"] = self._is_scheduled()
        except DatabaseUnavailable:
            state["database"] = state["schedulers"] = False
        is_well = all(state.values())
        answer = {"status": "ok" if is_well else "failing", **state}
        return jsonify(answer), 200 if is_well else 503

    @route("/metrics", Right.ANYONE)
    def metrics(self) -> Response:
        """Return metrics in Prometheus' text format; requires the token."""
        token = self._services.metrics_token
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token or not hmac.compare_digest(given.encode(), token.encode()):
            abort(403)
        return Response(self._metrics.text(), content_type=self._metrics.content_type)

    def _is_scheduled(self) -> bool:
        now_ms = self._services.now_ms()
        registrations = self._services.database.read(
            lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        )
        return any(state(row, now_ms).is_online for row in registrations)
