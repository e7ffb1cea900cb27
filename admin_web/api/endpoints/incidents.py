"""Incidents: broken expectations, and who has acknowledged them."""

from typing import Any

import msgspec

from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.openapi import answer_type, page_type, to_answer
from warren.admin_web.api.paging import DEFAULT_LIMIT, Cursor, Limit, instant_ms, page, place_of
from warren.admin_web.api.problem_answers import Refusal
from warren.admin_web.services import ApiServices
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.views.to_json import IncidentView, incident_view
from warren.sql.alarms import incidents

IncidentAnswer = answer_type("Incident", IncidentView)
IncidentPage = page_type(IncidentAnswer)


class IncidentsQuery(msgspec.Struct, kw_only=True):
    """Which incidents to list: open ones, or all."""

    all: bool = False
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class AckBody(msgspec.Struct, kw_only=True):
    """A note for others, and until when the incident stays silent; null = until it closes."""

    note: str = ""
    until: str | None = None


class IncidentEndpoints:
    """The incidents of jobs that a token may see."""

    name = "incidents"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/incidents", Scope.READ, IncidentPage, query=IncidentsQuery)
    def index(self, call: Call) -> Any:
        """List incidents, newest first."""
        query, actor = call.query, call.actor
        rows = self._services.database.read(
            lambda session: incidents.listing(
                session,
                app_ids=actor.app_ids,
                job_ids=actor.job_ids,
                only_open=not query.all,
                limit=query.limit + 1,
                before_id=place_of(query, int),
            )
        )
        return page(
            IncidentPage,
            query,
            rows,
            lambda row: to_answer(IncidentAnswer, incident_view(row)),
            lambda row: row.id,
        )

    @endpoint("GET", "/incidents/<id:incident_id>", Scope.READ, IncidentAnswer)
    def show(self, call: Call, incident_id: int) -> Any:
        """Show an incident."""
        commands = self._services.commands(call.actor).incidents
        incident = self._services.database.read(lambda session: commands.read(session, incident_id))
        return to_answer(IncidentAnswer, incident_view(incident))

    @endpoint(
        "POST", "/incidents/<id:incident_id>/ack", Scope.OPERATE, IncidentAnswer, body=AckBody
    )
    def ack(self, call: Call, incident_id: int) -> Any:
        """Acknowledge an open incident, so that no more reminders are sent."""
        until_ms = _end_ms(call.body.until)
        commands = self._services.commands(call.actor).incidents
        commands.acknowledge(incident_id, note=call.body.note, until_ms=until_ms)
        return self.show(call, incident_id)


def _end_ms(text: str | None) -> int | None:
    try:
        return instant_ms("until", text)
    except Refusal as refusal:
        errors = [{"pointer": "/until", "detail": refusal.detail}]
        raise Refusal(422, refusal.detail, errors=errors) from refusal
