"""The time zone of jobs that name none: the schedulers', whichever process changes the job."""

from sqlalchemy.orm import Session

from scheduler.membership.registration import stored_load
from sql.registry import presence

#: Its place in a scheduler's registered load, and in a session that has read it.
ZONE_KEY = "timezone"


def schedulers_zone(session: Session) -> str | None:
    """Return the zone of the scheduler that was heard last; None if none is registered.

    It is read once per session, as one may change thousands of jobs.
    """
    if ZONE_KEY not in session.info:
        with session.no_autoflush:  # its caller writes changed jobs together, later
            session.info[ZONE_KEY] = _read(session)
    zone: str | None = session.info[ZONE_KEY]
    return zone


def _read(session: Session) -> str | None:
    schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
    last = max(schedulers, key=lambda one: one.beat_at, default=None)
    zone = stored_load(last).get(ZONE_KEY) if last is not None else None
    return zone if isinstance(zone, str) and zone else None
