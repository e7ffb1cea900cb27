"""Alarms and incidents as shown to users, without what is secret in their targets."""

from warren.resources.alarms import Alarm, Incident
from warren.resources.instant import Instant
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.alarms.events import kind_of
from warren.sql.alarms.alarm_listing import ListedAlarm
from warren.sql.alarms.alarms import MAIL, AlarmStatus
from warren.sql.alarms.incidents import ListedIncident

_WAITING = (AlarmStatus.NEW, AlarmStatus.READY, AlarmStatus.HELD)


def alarm_view(alarm: ListedAlarm) -> Alarm:
    return Alarm(
        id=alarm.id,
        app=alarm.app or "",
        job=alarm.job or "",
        run_id=alarm.run_id or None,
        cause=kind_of(alarm.content),
        channel=alarm.channel,
        target=shown_target(alarm),
        status=alarm.status,
        created_at=Instant.of(alarm.created_at),
        next_try_at=Instant.if_any(alarm.next_try_at if alarm.status in _WAITING else None),
        tries=alarm.tries,
        sent_at=Instant.if_any(alarm.sent_at),
        answer=alarm.answer or "",
        error=alarm.error or "",
    )


def shown_target(alarm: ListedAlarm) -> str:
    """Return a target without the secret part of a webhook's URL."""
    return alarm.target if alarm.channel == MAIL else without_secret(alarm.target)


def incident_view(incident: ListedIncident) -> Incident:
    is_seen = incident.acked_at is not None
    return Incident(
        id=incident.id,
        app=incident.app or "",
        job=incident.job or "",
        rule=incident.rule,
        expected=incident.expected,
        status="CLOSED" if incident.closed_at else "ACKNOWLEDGED" if is_seen else "OPEN",
        due_at=Instant.of(incident.due_at),
        opened_at=Instant.of(incident.opened_at),
        closed_at=Instant.if_any(incident.closed_at),
        closed_by=incident.closed_by or "",
        acked_at=Instant.if_any(incident.acked_at),
        acked_by=incident.acked_by or "",
        ack_note=incident.ack_note or "",
        ack_until_at=Instant.if_any(incident.ack_until),
    )
