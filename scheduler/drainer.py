"""Carries wishes to drain, which are marks in the registry first, to the executors' boots."""

import time
from collections.abc import Callable

import structlog

from broker import topology
from broker.messages import Drain
from broker.signing import Direction, Sealer
from broker.transport import Outgoing, Publisher
from scheduler.roster import Roster
from sql import drains
from sql.drains import Boot
from sql.engine import Database

#: Pause between two orders to the same boot; it repeats none.
AGAIN_SECONDS = 5.0
#: How long an order is good for.
VALID_SECONDS = 60.0

log = structlog.get_logger()


class Drainer:
    """Keeps new runs from boots that are to be drained, and tells them.

    Args:
        database: where the marks are.
        publisher: for words to executors.
        sealer: signs them.
        roster: routes nothing to what it is told of.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        *,
        database: Database,
        publisher: Publisher,
        sealer: Sealer,
        roster: Roster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._sealer = sealer
        self._roster = roster
        self._clock = clock
        self._told_at: dict[Boot, float] = {}

    def tick(self, _now_ms: int) -> float:
        """Tell whoever was not told lately; return the seconds until the next look."""
        wanted = self._database.read(drains.asked)
        self._roster.set_drained(wanted)
        now = self._clock()
        self._told_at = {
            boot: at
            for boot, at in self._told_at.items()
            if boot in wanted and now - at < AGAIN_SECONDS
        }
        due = [boot for boot in wanted if boot not in self._told_at]
        if due and self._publisher.is_ready:
            self._publisher.publish([self._order(boot) for boot in due])
            self._told_at.update((boot, now) for boot in due)
            log.info("drains_sent", addresses=[boot.address for boot in due][:20])
        return 0.5

    def _order(self, boot: Boot) -> Outgoing:
        return self._sealer.seal(
            Drain(boot_id=boot.boot_id),
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.command_queue(boot.app, boot.address, boot.boot_id).name,
            address=boot.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=VALID_SECONDS,
            durable=False,
        )
