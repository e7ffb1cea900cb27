"""Hears executors: declares their queues, welcomes them, and decides who holds an address.

Each scheduler has a heartbeat queue of its own, so each hears everybody, and its own canary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from sqlalchemy.orm import Session

from broker.errors import BadMessage
from broker.messages import Canary, Goodbye, Heartbeat
from broker.signing import Direction, Sealer
from broker.transport import Consumer, Delivery
from scheduler.counters import Counters
from scheduler.greeter import Greeter
from scheduler.registration import registration
from scheduler.roster import Roster
from sql import presence
from sql.engine import Database

#: Deliveries taken in one round.
BATCH = 500

log = structlog.get_logger()


class Presence:
    """The role that listens; newcomers are handed to the greeter, so that nobody waits for them.

    Args:
        on_canary: told the number of each of this scheduler's own canaries that came back.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        consumer: Consumer,
        sealer: Sealer,
        roster: Roster,
        greeter: Greeter,
        counters: Counters,
        on_canary: Callable[[int], None],
    ) -> None:
        self._node = node
        self._database = database
        self._consumer = consumer
        self._sealer = sealer
        self._roster = roster
        self._greeter = greeter
        self._counters = counters
        self._on_canary = on_canary

    def load(self) -> None:
        """Begin with the executors that the registry names, each as heard of just now."""
        for row in self._database.read(lambda s: presence.listing(s, presence.EXECUTOR)):
            self._roster.admit(row.registry_key, row.registry_value, row.boot_id, None)

    def tick(self, now_ms: int) -> float:
        """Handle what has arrived; waits up to half a second for the first message."""
        deliveries = self._consumer.take(BATCH, 0.5)
        messages = [self._open(delivery) for delivery in deliveries]
        # First: nothing of this is worth hearing twice, whatever the database says to it.
        self._consumer.ack(deliveries)
        heard = [message for message in messages if isinstance(message, Heartbeat)]
        goodbyes = [message for message in messages if isinstance(message, Goodbye)]
        for canary in messages:
            if isinstance(canary, Canary) and canary.node == self._node:
                self._on_canary(canary.number)
        self._hear(heard, goodbyes, now_ms)
        return 0

    def _open(self, delivery: Delivery) -> Any:
        try:
            return self._sealer.open(
                delivery,
                expect=Heartbeat | Goodbye | Canary,
                direction=Direction.FROM_EXECUTOR,
            )
        except BadMessage as error:
            self._counters.count("messages_rejected")
            log.warning("message_rejected", queue=delivery.queue, reason=str(error))
            return None

    def _hear(
        self, heartbeats: Sequence[Heartbeat], goodbyes: Sequence[Goodbye], now_ms: int
    ) -> None:
        latest = {(beat.app, beat.address, beat.boot_id): beat for beat in heartbeats}
        for goodbye in goodbyes:
            # It is a boot's last word; a heartbeat beside it is older.
            latest.pop((goodbye.app, goodbye.address, goodbye.boot_id), None)
            self._roster.dismiss(goodbye.app, goodbye.address, goodbye.boot_id)
            log.info("executor_left", app=goodbye.app, address=goodbye.address)
        known = [beat for beat in latest.values() if self._roster.hear(beat)]
        for beat in latest.values():
            # Every heartbeat is answered: a lost Welcome comes again, and clocks stay together.
            self._greeter.greet(beat)
        if known or goodbyes:
            self._database.write(lambda session: _record(session, known, goodbyes, now_ms))


def _record(
    session: Session, heartbeats: Sequence[Heartbeat], goodbyes: Sequence[Goodbye], now_ms: int
) -> None:
    for beat in sorted(heartbeats, key=lambda beat: (beat.app, beat.address)):
        presence.renew(session, registration(beat, now_ms))
    for bye in sorted(goodbyes, key=lambda bye: (bye.app, bye.address)):
        presence.leave(session, presence.EXECUTOR, bye.app, bye.address, bye.boot_id)
