"""This scheduler's own health: its registration, its canary, and whether it may judge others.

Its registration also has the cluster's time zone, which applies to days and to jobs that name none.
"""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.messages import Canary
from warren.broker.reasons import Why
from warren.broker.signing import NO_APP, Direction, Sealer
from warren.broker.transport import Batch, Confirm, Publisher
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import NodeContext
from warren.sql.engine import Database
from warren.sql.registry import presence

#: Its place in a scheduler's registered load, and in a session that has read it.
ZONE_KEY = "timezone"


class ClusterZone:
    """The cluster's zone, for processes that need it often; read at construction and each round.

    Once a scheduler has been seen, its zone is kept until another one is seen, even while none is
    registered.

    Args:
        database: where schedulers are registered.
        setting: this process's own zone, until a scheduler has been seen.

    """

    def __init__(self, database: Database, setting: str) -> None:
        self._database = database
        self._name = setting
        self.run_round()

    def name(self) -> str:
        """Return the zone's IANA name."""
        return self._name

    def run_round(self) -> None:
        """Read the zone again."""
        self._name = self._database.read(lambda session: cluster_zone(session, self._name))


def cluster_zone(session: Session, setting: str) -> str:
    """Return the schedulers' zone, or this process's own `setting` if none is registered."""
    return schedulers_zone(session) or setting


def schedulers_zone(session: Session) -> str | None:
    """Return the zone of the scheduler seen last; None if none is registered.

    It is read once per session, because one session may change thousands of jobs.
    """
    if ZONE_KEY not in session.info:
        with session.no_autoflush:  # its caller writes changed jobs together, later
            session.info[ZONE_KEY] = _read(session)
    zone: str | None = session.info[ZONE_KEY]
    return zone


def zone_in(load: str | None) -> str | None:
    """Return the zone in a scheduler's registered load; None if there is none."""
    try:
        zone = json.loads(load or "{}").get(ZONE_KEY)
    except (ValueError, AttributeError):
        return None
    return zone if isinstance(zone, str) and zone else None


def _read(session: Session) -> str | None:
    schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
    last = max(schedulers, key=lambda scheduler: scheduler.beat_at, default=None)
    return zone_in(last.load) if last is not None else None


class SelfIssue(StrEnum):
    """What is wrong with a scheduler, or with the servers that it uses."""

    BROKER = "broker"
    UNCONFIRMED = "unconfirmed"
    CANARY = "canary"
    CLOCK = "clock"
    REPORTS = "reports"
    SERVER = "server"

    @property
    def why(self) -> Why:
        """The reason that describes it."""
        return _REASONS[self]

    @property
    def stops_sending(self) -> bool:
        """Whether runs that such a scheduler sends may not arrive."""
        return self in {SelfIssue.BROKER, SelfIssue.UNCONFIRMED}

    @property
    def raises_alarm(self) -> bool:
        """Whether an alarm tells of it once it lasts."""
        return self.stops_sending or self is SelfIssue.SERVER

    @property
    def stops_judging(self) -> bool:
        """Whether such a scheduler declares no executor dead."""
        return self not in {SelfIssue.REPORTS, SelfIssue.SERVER}


_REASONS = {
    SelfIssue.BROKER: Why.BROKER_AWAY,
    SelfIssue.UNCONFIRMED: Why.SENT_UNCONFIRMED,
    SelfIssue.CANARY: Why.CANARY_AWAY,
    SelfIssue.CLOCK: Why.CLOCK_JUMPS,
    SelfIssue.REPORTS: Why.REPORTS_UNREAD,
    SelfIssue.SERVER: Why.OLD_SERVER_WRITABLE,
}

#: How often a scheduler renews its registration.
BEAT_SECONDS = 0.5
#: How often a canary is sent, the greatest age of the last one that returned, and how many are
#: awaited.
CANARY_SECONDS = 1.0
CANARY_AGE_SECONDS = 4.0
CANARIES_KEPT = 10
#: How old the last successful database write may be.
DATABASE_AGE_SECONDS = 4.0


class SelfHealth:
    """Renews the registration, sends canaries, and sets the health of the roster.

    Args:
        boot_id: of this start of the scheduler.
        load: returns what the registration says about this scheduler, such as its failing roles.
        are_stalled: returns whether the broker leaves triggers unconfirmed; the canary may work
            meanwhile, on the one node of a cluster that this scheduler reaches.
        are_reports_read: returns whether this scheduler gets the reports of executors.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        boot_id: str,
        publisher: Publisher,
        sealer: Sealer,
        roster: Roster,
        load: Callable[[], Mapping[str, object]],
        are_stalled: Callable[[], bool],
        are_reports_read: Callable[[], bool],
    ) -> None:
        self._context = context
        self._boot_id = boot_id
        self._publisher = publisher
        self._sealer = sealer
        self._roster = roster
        self._load = load
        self._are_stalled = are_stalled
        self._are_reports_read = are_reports_read
        self._began_at = context.monotonic()
        self._number = 0
        self._canary_sent_at = float("-inf")
        self._on_their_way: dict[int, float] = {}
        self._canary: Batch | None = None
        #: How many canaries the broker returned: this scheduler's queue has lost its binding.
        self.lost_canaries = 0
        self._proven_at = float("-inf")
        self._database_at = float("-inf")

    def hear_canary(self, number: int) -> None:
        """Record that a canary of this scheduler came back through its queue.

        It proves that the queue was being read up to the moment at which it was sent.
        """
        sent_at = self._on_their_way.pop(number, None)
        if sent_at is not None:
            self._proven_at = max(self._proven_at, sent_at)

    def run_round(self, now_ms: int) -> float:
        """Renew the registration; return the seconds until the next time."""
        self._send_canary()
        self._roster.set_health(self.is_healthy())
        beat = self._beat(now_ms)
        if not self._context.database.update_autocommit(presence.RENEWAL, presence.renewal(beat)):
            self._context.database.write(lambda session: presence.hold(session, beat))
        self._database_at = self._context.monotonic()
        self._roster.set_health(self.is_healthy())
        return BEAT_SECONDS

    def leave(self) -> None:
        """Remove the registration, so that others take over at once."""
        self._context.database.write(
            lambda session: presence.leave(
                session, presence.ADMIN, presence.SCHEDULER, self._context.node, self._boot_id
            )
        )

    def is_healthy(self) -> bool:
        """Whether the database, the broker and this scheduler's own consumer work now."""
        now = self._context.monotonic()
        return (
            self._publisher.is_ready
            and now - self._proven_at <= CANARY_AGE_SECONDS
            and now - self._database_at <= DATABASE_AGE_SECONDS
            and self._context.clock.is_steady
            and not self._are_stalled()
        )

    def issues(self) -> list[SelfIssue]:
        """Return what is wrong with this scheduler's connections and clock, for people."""
        now = self._context.monotonic()
        is_connected = self._publisher.is_ready
        proven_at = max(self._proven_at, self._began_at)
        wrong = {
            SelfIssue.BROKER: not is_connected,
            SelfIssue.UNCONFIRMED: self._are_stalled(),
            SelfIssue.CANARY: is_connected and now - proven_at > CANARY_AGE_SECONDS,
            SelfIssue.CLOCK: not self._context.clock.is_steady,
            SelfIssue.REPORTS: is_connected and not self._are_reports_read(),
            SelfIssue.SERVER: bool(self._context.database.replaced_servers),
        }
        return [issue for issue, is_so in wrong.items() if is_so]

    def _beat(self, now_ms: int) -> presence.Beat:
        return presence.Beat(
            kind=presence.ADMIN,
            app=presence.SCHEDULER,
            address=self._context.node,
            boot_id=self._boot_id,
            beat_at=now_ms,
            load=json.dumps(self._load()),
        )

    def _send_canary(self) -> None:
        now = self._context.monotonic()
        if now - self._canary_sent_at < CANARY_SECONDS:
            return
        self._canary_sent_at = now
        self._number += 1
        self._on_their_way[self._number] = now
        self._on_their_way.pop(self._number - CANARIES_KEPT, None)
        message = self._sealer.seal(
            Canary(node=self._context.node, number=self._number),
            exchange=topology.REPLY_EXCHANGE,
            routing_key=topology.HEARTBEAT_KEY,
            app=NO_APP,
            address=self._context.node,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=CANARY_AGE_SECONDS,
            durable=False,
        )
        canary = self._canary
        if canary and canary.is_settled and canary.wait(0) == [Confirm.RETURNED]:
            self.lost_canaries += 1
        self._canary = self._publisher.publish([message])
