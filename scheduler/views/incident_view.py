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


def incident_view(one: ListedIncident) -> IncidentView:
    """Return the view of an incident; its status is OPEN, ACKNOWLEDGED or CLOSED."""
    is_seen = one.acked_at is not None
    return IncidentView(
        id=one.id,
        app=one.app or "",
        job=one.job or "",
        rule=one.rule,
        expected=one.expected,
        status="CLOSED" if one.closed_at else "ACKNOWLEDGED" if is_seen else "OPEN",
        due_at=one.due_at,
        opened_at=one.opened_at,
        closed_at=one.closed_at,
        closed_by=one.closed_by or "",
        acked_at=one.acked_at,
        acked_by=one.acked_by or "",
        ack_note=one.ack_note or "",
        ack_until_at=one.ack_until,
    )
