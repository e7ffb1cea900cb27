"""Incidents: list, show and acknowledge them."""

from warren.errands.desk import Desk
from warren.scheduler.views.to_json import IncidentView, incident_view, to_json
from warren.sql.alarms import incidents
from warren.views.instants import read_moment, read_span
from warren.views.terminal import relative

HEADERS = ("id", "job", "rule", "expected", "status", "since", "opened", "seen by", "note")


def list_incidents(
    desk: Desk, *, every: bool = False, limit: int = 50, as_json: bool = False
) -> None:
    """List open incidents, or all, newest first."""
    app_ids = desk.actor.app_ids
    listed = desk.database.read(
        lambda session: incidents.listing(
            session, app_ids=app_ids, only_open=not every, limit=limit
        )
    )
    nothing = "no incident" if every else "no open incident"
    _show(desk, [incident_view(incident) for incident in listed], nothing, as_json=as_json)


def show_incident(desk: Desk, *, incident_id: int, as_json: bool = False) -> None:
    """Show an incident."""
    commands = desk.commands.incidents
    incident = desk.database.read(lambda session: commands.read(session, incident_id))
    _show(desk, [incident_view(incident)], "", as_json=as_json)


def acknowledge(
    desk: Desk,
    *,
    incident_id: int,
    note: str = "",
    until: str | None = None,
    span: str | None = None,
) -> None:
    """Acknowledge an incident, so that it no longer reminds, or not until a time."""
    until_ms = None if until is None else read_moment(until, "--until", zone=desk.zone)
    if span is not None:
        until_ms = desk.now_ms() + read_span(span)
    desk.commands.incidents.acknowledge(incident_id, note=note, until_ms=until_ms)
    desk.line(f"incident {incident_id} is acknowledged")


def _show(desk: Desk, rows: list[IncidentView], nothing: str, *, as_json: bool) -> None:
    now = desk.now_ms()
    if as_json:
        for row in rows:
            desk.record(to_json(row))
        return
    desk.table(HEADERS, [_line(row, now) for row in rows], nothing)


def _line(row: IncidentView, now: int) -> tuple[str, ...]:
    return (
        str(row.id),
        f"{row.app}/{row.job}" if row.job else row.app or "",
        row.rule,
        row.expected,
        row.status,
        relative(row.due_at, now),
        relative(row.opened_at, now),
        row.acked_by,
        row.ack_note,
    )
