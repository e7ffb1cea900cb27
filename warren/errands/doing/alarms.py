"""Alarms and incidents: list them, test alarms, send them again, acknowledge incidents."""

from warren.errands.desk import Desk
from warren.errors import CommandError
from warren.scheduler.alarms.events import AlarmTargets
from warren.scheduler.views.to_json import (
    AlarmView,
    IncidentView,
    alarm_view,
    incident_view,
    to_json,
)
from warren.sql.alarms import alarm_listing, incidents
from warren.sql.alarms.alarm_listing import AlarmFilter
from warren.sql.alarms.alarms import UNSENT, AlarmStatus
from warren.sql.registry import apps
from warren.terminal.output import read_moment, read_span, relative

_HEADERS = ("id", "about", "cause", "run", "to", "status", "since", "tries", "next try", "error")
_INCIDENT_HEADERS = (
    "id",
    "job",
    "rule",
    "expected",
    "status",
    "since",
    "opened",
    "seen by",
    "note",
)
_OPEN = (AlarmStatus.NEW, AlarmStatus.READY)
_NOBODY = (
    "nobody to alarm: expected --job, --email or --webhook, or WARREN_ALARM_EMAILS or "
    "WARREN_ALARM_WEBHOOK to be set"
)


def list_alarms(desk: Desk, *, every: bool = False, limit: int = 50, as_json: bool = False) -> None:
    """List unsent alarms, or all, newest first."""
    now = desk.now_ms()
    wanted = AlarmFilter(
        statuses=tuple(AlarmStatus) if every else UNSENT, limit=limit, app_ids=desk.actor.app_ids
    )
    listed = desk.database.read(lambda session: alarm_listing.listing(session, wanted, now_ms=now))
    rows = [alarm_view(alarm) for alarm in listed]
    if as_json:
        for row in rows:
            desk.record(to_json(row))
        return
    nothing = "no alarm" if every else "no unsent alarms"
    desk.table(_HEADERS, [_line(row, now) for row in rows], nothing)


def send_tests(
    desk: Desk,
    *,
    job: str | None = None,
    emails: list[str] = [],  # noqa: B006 - never changed
    webhook: str = "",
    style: str = "",
    default_emails: list[str] = [],  # noqa: B006 - never changed
    default_webhook: str = "",
) -> None:
    """Send test alarms; the output's `ids` are theirs."""
    targets = AlarmTargets(emails=tuple(emails), webhook=webhook, style=style)
    defaults = AlarmTargets(emails=tuple(default_emails), webhook=default_webhook)
    commands = desk.commands.alarms
    if job is not None:
        ids = commands.test_job(desk.ids.job(job), targets, defaults=defaults)
    elif targets or defaults:
        ids = commands.test(targets or defaults)
    else:
        raise CommandError(_NOBODY)
    desk.output.facts["ids"] = ids


def show_tests(desk: Desk, *, ids: list[int], seconds: float, as_json: bool = False) -> None:
    """Show what became of tests within some seconds; `is_over`: each has an outcome."""
    alarms = desk.database.read(lambda session: alarm_listing.by_ids(session, ids))
    app_ids = desk.actor.app_ids
    if app_ids is None:
        tests = list(alarms)
    else:
        known = desk.database.read(lambda session: apps.ids_by_name(session, app_ids))
        tests = [alarm for alarm in alarms if alarm.app in known]
    desk.output.facts["is_over"] = all(test.status not in _OPEN for test in tests)
    desk.output.status = int(any(test.status != AlarmStatus.SENT for test in tests))
    for view in map(alarm_view, tests):
        if as_json:
            desk.record(to_json(view))
        else:
            desk.line(f"{view.target}: {_outcome(view, seconds)}")


def resend_alarms(desk: Desk, *, job: str | None = None) -> None:
    """Send all undelivered alarms again."""
    desk.line(f"alarms sent again: {desk.commands.alarms.send_again(_undelivered(desk, job))}")


def dismiss_alarms(desk: Desk, *, job: str | None = None) -> None:
    """Give all undelivered alarms up."""
    desk.line(f"alarms dismissed: {desk.commands.alarms.dismiss(_undelivered(desk, job))}")


def _undelivered(desk: Desk, job: str | None) -> AlarmFilter:
    return AlarmFilter(limit=1, job_id=desk.ids.job(job) if job else None)


def _outcome(test: AlarmView, seconds: float) -> str:
    if test.status == AlarmStatus.SENT:
        return f"delivered; {test.answer}"
    if test.status == AlarmStatus.GIVEN_UP:
        return f"not delivered: {test.error}"
    return f"not delivered within {seconds:g} s; warren alarms list says what becomes of it"


def _line(row: AlarmView, now: int) -> tuple[str, ...]:
    about = f"{row.app or '?'}/{row.job}" if row.job else row.app or "?"
    return (
        str(row.id),
        about,
        row.cause,
        str(row.run_id or ""),
        row.target,
        row.status,
        relative(row.created_at, now),
        str(row.tries),
        relative(row.next_try_at, now),
        row.error,
    )


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
    _show_incidents(
        desk, [incident_view(incident) for incident in listed], nothing, as_json=as_json
    )


def show_incident(desk: Desk, *, incident_id: int, as_json: bool = False) -> None:
    """Show an incident."""
    commands = desk.commands.incidents
    incident = desk.database.read(lambda session: commands.read(session, incident_id))
    _show_incidents(desk, [incident_view(incident)], "", as_json=as_json)


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


def _show_incidents(desk: Desk, rows: list[IncidentView], nothing: str, *, as_json: bool) -> None:
    now = desk.now_ms()
    if as_json:
        for row in rows:
            desk.record(to_json(row))
        return
    desk.table(_INCIDENT_HEADERS, [_incident_line(row, now) for row in rows], nothing)


def _incident_line(row: IncidentView, now: int) -> tuple[str, ...]:
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
