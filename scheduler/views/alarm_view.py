"""An alarm as shown to users: without the secret part of its target."""

from typing import NamedTuple

from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.sql.alarms.alarms import MAIL, AlarmStatus, ListedAlarm

_WAITING = (AlarmStatus.NEW, AlarmStatus.READY, AlarmStatus.HELD)


class AlarmView(NamedTuple):
    """An alarm; `next_try_at` is None if it is no longer tried."""

    id: int
    app: str
    job: str
    run_id: int | None
    channel: str
    target: str
    status: str
    created_at: int
    next_try_at: int | None
    tries: int
    error: str


def alarm_view(alarm: ListedAlarm) -> AlarmView:
    """Return the view of an alarm."""
    return AlarmView(
        id=alarm.id,
        app=alarm.app or "",
        job=alarm.job or "",
        run_id=alarm.run_id or None,
        channel=alarm.channel,
        target=_shown(alarm),
        status=alarm.status,
        created_at=alarm.created_at,
        next_try_at=alarm.next_try_at if alarm.status in _WAITING else None,
        tries=alarm.tries,
        error=alarm.error or "",
    )


def _shown(alarm: ListedAlarm) -> str:
    """Return a target without the secret part of a webhook's URL."""
    return alarm.target if alarm.channel == MAIL else without_secret(alarm.target)
