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
        heard: list[Heartbeat] = []
        for delivery in deliveries:
            message = self._open(delivery)
            if isinstance(message, Canary):
                self._hear_canary(message)
            elif isinstance(message, Goodbye):
                self._hear_goodbye(message)
            elif isinstance(message, Heartbeat):
                heard.append(message)
        self._hear(heard, now_ms)
        self._consumer.ack(deliveries)
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

    def _hear_canary(self, canary: Canary) -> None:
        if canary.node == self._node:
            self._on_canary(canary.number)

    def _hear_goodbye(self, goodbye: Goodbye) -> None:
        self._roster.dismiss(goodbye.app, goodbye.address, goodbye.boot_id)
        self._database.write(
            lambda session: presence.leave(
                session, presence.EXECUTOR, goodbye.app, goodbye.address, goodbye.boot_id
            )
        )
        log.info("executor_left", app=goodbye.app, address=goodbye.address)

    def _hear(self, heartbeats: Sequence[Heartbeat], now_ms: int) -> None:
        latest = {(beat.app, beat.address, beat.boot_id): beat for beat in heartbeats}
        known = [beat for beat in latest.values() if self._roster.hear(beat)]
        for beat in latest.values():
            # Every heartbeat is answered: a lost Welcome comes again, and clocks stay together.
            self._greeter.greet(beat)
        if known:
            self._database.write(lambda session: _renew(session, known, now_ms))


def _renew(session: Session, heartbeats: Sequence[Heartbeat], now_ms: int) -> None:
    for beat in sorted(heartbeats, key=lambda beat: (beat.app, beat.address)):
        presence.renew(session, registration(beat, now_ms))
