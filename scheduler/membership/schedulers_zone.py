"""The cluster's time zone, that of days and of jobs that name none: the schedulers'."""

from sqlalchemy.orm import Session

from warren.scheduler.membership.registration import stored_load
from warren.sql.engine import Database
from warren.sql.registry import presence

#: Its place in a scheduler's registered load, and in a session that has read it.
ZONE_KEY = "timezone"


class ClusterZone:
    """The cluster's zone, for processes that need it often; read at construction and by `tick`.

    Once a scheduler was seen, its zone is kept until another one is seen, even while none is
    registered.

    Args:
        database: where schedulers are registered.
        setting: this process's own zone, until a scheduler was seen.

    """

    def __init__(self, database: Database, setting: str) -> None:
        self._database = database
        self._name = setting
        self.tick()

    def name(self) -> str:
        """Return its IANA name."""
        return self._name

    def tick(self) -> None:
        """Read it again."""
        self._name = self._database.read(lambda session: cluster_zone(session, self._name))


def cluster_zone(session: Session, setting: str) -> str:
    """Return the schedulers' zone, or this process's own `setting` if none is registered."""
    return schedulers_zone(session) or setting


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
