"""Consumes from RabbitMQ: deliveries arrive in the link's thread and can be taken in any thread.

Each queue of a consumer has its own channel, so its failures do not affect the others. RabbitMQ
closes the channel if the queue does not exist (404), belongs to another connection (405) or has
other arguments (406). The channel is then opened again and again; only the first failure is logged.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import structlog
from pika import spec  # type: ignore[import-untyped]

from warren.broker.rabbitmq.admin import declare_queue
from warren.broker.rabbitmq.link import NOT_FOUND, Link, reason_of
from warren.broker.rabbitmq.properties import header_bytes, string_headers, user_of
from warren.broker.transport import BrokerSettings, Delivery, Queue

log = structlog.get_logger()

#: Seconds until the next attempt to consume a queue.
RETRY_SECONDS = 0.5


class Tag(NamedTuple):
    """Identifies a delivery: the subscription, the number of its channel, and the broker's tag."""

    subscription: "Subscription"
    epoch: int
    number: int


class Sink(Protocol):
    """Where a subscription's deliveries go."""

    def put(self, delivery: Delivery) -> None:
        """Add a delivery."""

    def drop(self, subscription: "Subscription") -> None:
        """Forget deliveries of a lost channel; the broker will send them again."""


class Subscription:
    """Consumes one queue while there is a connection, declaring it first if it is a Queue.

    Everything but the constructor runs in the link's thread.
    """

    def __init__(
        self,
        want: str | Queue,
        prefetch: int,
        sink: Sink,
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._want = want
        self.queue = want if isinstance(want, str) else want.name
        self.is_active = False
        self._prefetch = prefetch
        self._sink = sink
        self._call_later = call_later
        self._epoch = 0
        self._connection: Any = None
        self._channel: Any = None
        self._consumer_tag = ""
        self._is_cancelling = False
        self._outstanding: dict[int, None] = {}
        self._trouble = ""

    def start(self, connection: Any) -> None:
        """Start on a new connection."""
        self._connection = connection
        self._open()

    def declare_again(self) -> None:
        """Declare and bind the queue again; what is delivered already stays."""
        channel = self._channel
        if isinstance(self._want, Queue) and channel is not None and channel.is_open:
            declare_queue(channel, self._want)

    @property
    def is_idle(self) -> bool:
        """Whether nothing more will be delivered unless it is started again."""
        return self._channel is None or not self._consumer_tag

    def cancel(self) -> None:
        """End the consumer at the broker; its deliveries so far stay."""
        self._is_cancelling = True
        channel = self._channel
        if channel is not None and channel.is_open and self._consumer_tag:
            channel.add_callback(self._on_cancel_confirmed, [spec.Basic.CancelOk])
            # basic_cancel would put back what arrives before the confirm, marked as redelivered,
            # as if somebody might have begun it.
            channel._send_method(spec.Basic.Cancel(consumer_tag=self._consumer_tag))  # noqa: SLF001

    def stop(self) -> None:
        """Drop everything; all tags become void."""
        self._epoch += 1
        self._channel = None
        self.is_active = False
        self._outstanding.clear()
        self._sink.drop(self)

    def settle(self, epoch: int, acked: Sequence[int], rejected: Sequence[int]) -> None:
        """Ack and reject deliveries; as many of the oldest as possible in a single ack."""
        channel = self._channel
        if epoch != self._epoch or channel is None or not channel.is_open:
            return
        for number in rejected:
            if number in self._outstanding:
                del self._outstanding[number]
                channel.basic_reject(number, requeue=False)
        done = self._outstanding.keys() & set(acked)
        oldest = self._oldest_run(done)
        if oldest:
            channel.basic_ack(oldest[-1], multiple=True)
        for number in oldest:
            del self._outstanding[number]
        for number in done.difference(oldest):
            channel.basic_ack(number)
            del self._outstanding[number]

    def _oldest_run(self, done: set[int]) -> list[int]:
        run = []
        for number in self._outstanding:
            if number not in done:
                break
            run.append(number)
        return run

    def _open(self) -> None:
        if self._connection.is_open and not self._is_cancelling:
            self._connection.channel(on_open_callback=self._on_open)

    def _on_open(self, channel: Any) -> None:
        if self._is_cancelling:
            channel.close()
            return
        self._channel = channel
        channel.add_on_close_callback(self._on_closed)
        channel.add_on_cancel_callback(self._on_cancelled)
        channel.basic_qos(prefetch_count=self._prefetch)
        if isinstance(self._want, Queue):
            declare_queue(channel, self._want)
        self._consumer_tag = channel.basic_consume(
            self.queue, self._on_message, callback=self._on_consuming
        )

    def _on_consuming(self, _frame: Any) -> None:
        self.is_active = True
        self._trouble = ""
        log.info("queue_consumed", queue=self.queue)

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = method.delivery_tag
        self._outstanding[number] = None
        self._sink.put(
            Delivery(
                queue=self.queue,
                routing_key=str(method.routing_key),
                body=body,
                headers=string_headers(properties),
                redelivered=method.redelivered,
                tag=Tag(self, self._epoch, number),
                exchange=str(method.exchange),
                user=user_of(properties),
                header_bytes=header_bytes(properties),
            )
        )

    def _on_cancel_confirmed(self, _frame: Any) -> None:
        self._consumer_tag = ""
        self.is_active = False

    def _on_cancelled(self, _frame: Any) -> None:
        """Start over when the broker cancels the consumer, as when the queue is deleted."""
        if self._channel is not None and self._channel.is_open:
            self._channel.close()

    def _on_closed(self, channel: Any, error: BaseException) -> None:
        if channel is not self._channel:
            return
        self.stop()
        if not self._connection.is_open:
            return
        self._complain(error)
        self._call_later(RETRY_SECONDS, self._open)

    def _complain(self, error: BaseException) -> None:
        trouble = reason_of(error)
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if getattr(error, "reply_code", None) == NOT_FOUND:
            # Not a problem: every new executor waits for its command queue like this.
            log.info("queue_awaited", queue=self.queue)
        else:
            log.warning("queue_not_consumed", queue=self.queue, reason=trouble)


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
        """Stop further deliveries; what has arrived can still be taken and settled."""
        self._is_cancelling = True
        self._link.call(self._cancel)

    @property
    def is_cancelled(self) -> bool:
        """Whether the broker has confirmed `cancel`, or the connection is lost."""
        return self._is_cancelling and all(
            subscription.is_idle for subscription in self._subscriptions
        )

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
            self._buffer = deque(
                kept for kept in self._buffer if _tag(kept).subscription is not subscription
            )

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
    assert isinstance(delivery.tag, Tag), "a delivery is settled by the consumer that took it"
    return delivery.tag
