"""For programs: whether all is well, and figures for Prometheus. Neither needs a sign-in."""

import hmac

from flask import Response, abort, jsonify, request

from admin_web.figures import Figures
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.visitors import Right
from sql import presence
from sql.errors import DatabaseUnavailable
from sql.liveness import state


class HealthPages:
    """Health and metrics; a stranger learns no name, address or version."""

    name = "health"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._figures = Figures(parts)

    @route("/healthz", Right.ANYONE)
    def healthz(self) -> tuple[Response, int]:
        """Tell whether database and broker answer and a scheduler lives: 200, or 503."""
        found = {"database": True, "broker": self._parts.is_broker_up(), "schedulers": True}
        try:
            found["schedulers"] = self._is_scheduled()
        except DatabaseUnavailable:
            found["database"] = found["schedulers"] = False
        is_well = all(found.values())
        answer = {"status": "ok" if is_well else "failing", **found}
        return jsonify(answer), 200 if is_well else 503

    @route("/metrics", Right.ANYONE)
    def metrics(self) -> Response:
        """Give figures in the text format of Prometheus, to whoever has the token."""
        token = self._parts.metrics_token
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token or not hmac.compare_digest(given.encode(), token.encode()):
            abort(403)
        return Response(self._figures.text(), content_type=self._figures.content_type)

    def _is_scheduled(self) -> bool:
        now_ms = self._parts.now_ms()
        found = self._parts.database.read(
            lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        )
        return any(state(row, now_ms) == "alive" for row in found)
