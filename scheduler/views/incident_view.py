"""An incident as shown to users."""

from typing import NamedTuple

from warren.sql.alarms.incidents import ListedIncident


class IncidentView(NamedTuple):
    """An incident; `due_at` is the due time or the instant that broke the rule."""

    id: int
    app: str
    job: str
    rule: str
    expected: str
    status: str
    due_at: int
    opened_at: int
    closed_at: int | None
    closed_by: str
    acked_at: int | None
    acked_by: str
    ack_note: str
    ack_until_at: int | None


def incident_view(listed_incident: ListedIncident) -> IncidentView:
    """Return the view of an incident; its status is OPEN, ACKNOWLEDGED or CLOSED."""
    is_seen = listed_incident.acked_at is not None
    return IncidentView(
        id=listed_incident.id,
        app=listed_incident.app or "",
        job=listed_incident.job or "",
        rule=listed_incident.rule,
        expected=listed_incident.expected,
        status="CLOSED" if listed_incident.closed_at else "ACKNOWLEDGED" if is_seen else "OPEN",
        due_at=listed_incident.due_at,
        opened_at=listed_incident.opened_at,
        closed_at=listed_incident.closed_at,
        closed_by=listed_incident.closed_by or "",
        acked_at=listed_incident.acked_at,
        acked_by=listed_incident.acked_by or "",
        ack_note=listed_incident.ack_note or "",
        ack_until_at=listed_incident.ack_until,
    )
