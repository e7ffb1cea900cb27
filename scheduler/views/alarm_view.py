"""An alarm as shown to users: without the secret part of its target."""

from typing import NamedTuple

from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.alarms.events import kind_of
from warren.sql.alarms.alarm_listing import ListedAlarm
from warren.sql.alarms.alarms import MAIL, AlarmStatus

_WAITING = (AlarmStatus.NEW, AlarmStatus.READY, AlarmStatus.HELD)


class AlarmView(NamedTuple):
    """An alarm; `next_try_at` is None if it is no longer tried.

    `cause` is the kind of event that it tells; `answer` what the receiver answered.
    """

    id: int
    app: str
    job: str
    run_id: int | None
    cause: str
    channel: str
    target: str
    status: str
    created_at: int
    next_try_at: int | None
    tries: int
    sent_at: int | None
    answer: str
    error: str


def alarm_view(alarm: ListedAlarm) -> AlarmView:
    """Return the view of an alarm."""
    return AlarmView(
        id=alarm.id,
        app=alarm.app or "",
        job=alarm.job or "",
        run_id=alarm.run_id or None,
        cause=kind_of(alarm.content),
        channel=alarm.channel,
        target=shown_target(alarm),
        status=alarm.status,
        created_at=alarm.created_at,
        next_try_at=alarm.next_try_at if alarm.status in _WAITING else None,
        tries=alarm.tries,
        sent_at=alarm.sent_at,
        answer=alarm.answer or "",
        error=alarm.error or "",
    )


def shown_target(alarm: ListedAlarm) -> str:
    """Return a target without the secret part of a webhook's URL."""
    return alarm.target if alarm.channel == MAIL else without_secret(alarm.target)
