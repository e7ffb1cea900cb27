"""Consumes from RabbitMQ: deliveries arrive in the link's thread and are taken in any other."""

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from warren.broker.rabbitmq.link import Link
from warren.broker.rabbitmq.subscription import Subscription, Tag
from warren.broker.transport import BrokerSettings, Delivery, Queue


class AmqpConsumer:
    """Consumes queues on its own connection; at most `prefetch` of each are unsettled."""

    def __init__(
        self, name: str, settings: BrokerSettings, queues: Sequence[str | Queue], prefetch: int
    ) -> None:
        self._arrived = threading.Condition()
        self._buffer: deque[Delivery] = deque()
        self._settled: list[tuple[Delivery, bool]] = []
        self._is_flush_asked = False
        self._is_closed = False
        self._is_cancelling = False
        self._is_woken = False
        self._generation = 0
        self._link = Link(name, settings, self)
        self._subscriptions = [
            Subscription(want, prefetch, self, self._link.call_later) for want in queues
        ]
        self._link.start()

    @property
    def is_ready(self) -> bool:
        """Whether every queue is being consumed now."""
        return all(subscription.is_active for subscription in self._subscriptions)

    @property
    def generation(self) -> int:
        """How many times it has connected; a new number means that earlier tags are void."""
        return self._generation

    def declare_again(self) -> None:
        """Declare and bind its queues again, as their exchange may have been deleted."""
        self._link.call(self._declare_again)

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        """Return up to `limit` deliveries, waiting for the first; empty on timeout."""
        with self._arrived:
            self._arrived.wait_for(
                lambda: self._buffer or self._is_closed or self._is_woken, timeout_seconds
            )
            self._is_woken = False
            return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]

    def wake(self) -> None:
        """Make a waiting `take`, or else the next one, return at once."""
        with self._arrived:
            self._is_woken = True
            self._arrived.notify_all()

    def cancel(self) -> None:
        """Have nothing more delivered; what has arrived can still be taken and settled."""
        self._is_cancelling = True
        self._link.call(self._cancel)

    @property
    def is_cancelled(self) -> bool:
        """Whether the broker has confirmed that, or the connection is lost."""
        return self._is_cancelling and all(one.is_idle for one in self._subscriptions)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries whose effect is durable; a void tag is ignored."""
        self._settle(deliveries, is_rejected=False)

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        """Reject deliveries: dead-lettered if the queue says so, else dropped."""
        self._settle(deliveries, is_rejected=True)

    def close(self) -> None:
        """Stop; unsettled messages are requeued."""
        with self._arrived:
            self._is_closed = True
            self._arrived.notify_all()
        self._link.close()
        self.lost("closed by us")

    def _settle(self, deliveries: Sequence[Delivery], *, is_rejected: bool) -> None:
        """Queue it for the link's thread, which handles all of it in one go."""
        with self._arrived:
            self._settled.extend((delivery, is_rejected) for delivery in deliveries)
            if not self._is_flush_asked:
                self._is_flush_asked = self._link.call(self._flush)

    # -- in the link's thread ---------------------------------------------------------------

    def connected(self, connection: Any) -> None:
        """Consume every queue on a new connection."""
        self._generation += 1
        if self._is_cancelling:
            return
        for subscription in self._subscriptions:
            subscription.start(connection)

    def blocked(self, *, is_blocked: bool) -> None:
        """Do nothing: a blocked broker still delivers."""

    def lost(self, _reason: str) -> None:
        """Forget unsettled deliveries; they will come again."""
        for subscription in self._subscriptions:
            subscription.stop()
        with self._arrived:
            self._settled.clear()
            self._is_flush_asked = False

    def put(self, delivery: Delivery) -> None:
        """Add a delivery."""
        with self._arrived:
            self._buffer.append(delivery)
            self._arrived.notify()

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscription's deliveries that nobody has taken."""
        with self._arrived:
            kept = (one for one in self._buffer if _tag(one).subscription is not subscription)
            self._buffer = deque(kept)

    def _declare_again(self) -> None:
        for subscription in self._subscriptions:
            subscription.declare_again()

    def _cancel(self) -> None:
        for subscription in self._subscriptions:
            subscription.cancel()

    def _flush(self) -> None:
        with self._arrived:
            settled, self._settled = self._settled, []
            self._is_flush_asked = False
        groups: dict[tuple[Subscription, int], tuple[list[int], list[int]]] = defaultdict(
            lambda: ([], [])
        )
        for delivery, is_rejected in settled:
            tag = _tag(delivery)
            groups[tag.subscription, tag.epoch][is_rejected].append(tag.number)
        for (subscription, epoch), (acked, rejected) in groups.items():
            subscription.settle(epoch, acked, rejected)


def _tag(delivery: Delivery) -> Tag:
    assert isinstance(delivery.tag, Tag), "a delivery goes back to the consumer that gave it"
    return delivery.tag
