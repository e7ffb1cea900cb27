"""The transport over RabbitMQ: pika, one connection and one thread for each role."""

import logging
import secrets
import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pika  # type: ignore[import-untyped]
import structlog
from pika import spec

from warren.broker.errors import BrokerUnavailable
from warren.broker.rabbitmq.admin import AmqpAdmin, declare_queue
from warren.broker.rabbitmq.link import (
    LOCKED,
    NOT_FOUND,
    Link,
    parameters_of,
    reason_of,
    warn_of_plaintext,
    without_password,
)
from warren.broker.rabbitmq.properties import (
    header_bytes,
    properties_of,
    string_headers,
    tolerate_strange_properties,
    user_of,
)
from warren.broker.topology import ASK_EXCHANGE, REPLY_EXCHANGE
from warren.broker.transport import BrokerSettings, Confirm, Delivery, Outgoing, Queue

log = structlog.get_logger()
#: The most unconfirmed messages; more do not make it faster.
WINDOW = 1_000
#: Seconds until a lost channel is opened again.
CHANNEL_RETRY_SECONDS = 0.5
#: Seconds until the loss of a channel is logged again for the same reason.
REPEAT_LOG_SECONDS = 60.0
_PROBE_KEY = "probe"
_ROUTING_KEY_LIMIT = 255
#: Seconds until the next attempt to consume a queue.
RETRY_SECONDS = 0.5


class AmqpBatch:
    """Messages given to a publisher. Confirms come only from the link's thread."""

    def __init__(self, size: int) -> None:
        self.is_given_up = False
        self._confirms: list[Confirm | None] = [None] * size
        self._left = size
        self._done = threading.Event()
        if not size:
            self._done.set()

    @property
    def is_settled(self) -> bool:
        """Whether every confirm is known."""
        return self._done.is_set()

    def settle(self, index: int, confirm: Confirm) -> None:
        """Record one message's confirm."""
        self._confirms[index] = confirm
        self._left -= 1
        if not self._left:
            self._done.set()

    def wait(self, timeout_seconds: float) -> list[Confirm]:
        """Return each message's confirm; after the timeout UNKNOWN, and unsent ones are dropped."""
        if not self._done.wait(timeout_seconds):
            self.is_given_up = True
        return [confirm or Confirm.UNKNOWN for confirm in self._confirms]


Item = tuple[AmqpBatch, int, Outgoing]


class AmqpPublisher:
    """Publishes on its own connection.

    `only_asks` says where its probes may be sent; for `silent_seconds` see `Transport.publisher`.
    """

    def __init__(
        self,
        name: str,
        settings: BrokerSettings,
        *,
        only_asks: bool = False,
        silent_seconds: float | None = None,
    ) -> None:
        self._probe_exchange = ASK_EXCHANGE if only_asks else REPLY_EXCHANGE
        self._silent_seconds = silent_seconds or settings.blocked_timeout_seconds
        self._lock = threading.Lock()
        self._is_ready = False
        self._is_blocked = False
        self._waiting: deque[Iterator[Item]] = deque()
        self._is_pump_asked = False
        self._missing_exchanges = 0
        # The rest is used only by the link's thread.
        self._connection: Any = None
        self._user = ""
        self._channel: Any = None
        self._last_tag = 0
        self._probe_tag = 0
        self._in_flight: dict[int, tuple[AmqpBatch, int]] = {}
        self._returned: set[int] = set()
        self._trouble = ("", 0.0)
        self._progress_at = time.monotonic()
        self._link = Link(name, settings, self)
        self._link.start()

    @property
    def is_ready(self) -> bool:
        """Whether a probe came back, the broker is not blocked, and confirms keep coming."""
        is_silent = bool(self._in_flight) and self._silence_seconds() > self._silent_seconds
        return self._is_ready and not self._is_blocked and not is_silent

    @property
    def missing_exchanges(self) -> int:
        return self._missing_exchanges

    def publish(self, messages: Sequence[Outgoing]) -> AmqpBatch:
        """Publish the messages; while not ready none is sent and all are UNKNOWN at once.

        Raises:
            ValueError: a routing key is over 255 bytes.

        """
        for message in messages:
            if len(message.routing_key.encode()) > _ROUTING_KEY_LIMIT:
                raise ValueError(f"expected routing key to be short, got: {message.routing_key!r}")
        batch = AmqpBatch(len(messages))
        items = ((batch, index, message) for index, message in enumerate(messages))
        with self._lock:
            if self.is_ready:
                self._waiting.append(items)
                self._ask_pump()
                return batch
        _give_up(items)
        return batch

    def close(self) -> None:
        self._link.close()
        self.lost("closed by us")

    # -- in the link's thread ---------------------------------------------------------------

    def connected(self, connection: Any) -> None:
        """Open a channel in confirm mode and send the probe."""
        self._connection = connection
        self._user = connection.params.credentials.username
        self._is_blocked = False
        self._open()

    def blocked(self, *, is_blocked: bool) -> None:
        """Hold back waiting messages until the broker has room again."""
        self._is_blocked = is_blocked
        if not is_blocked:
            self._pump()

    def lost(self, _reason: str) -> None:
        """Make everything unconfirmed UNKNOWN."""
        with self._lock:
            self._is_ready = False
            self._is_pump_asked = False  # callbacks posted to this connection will not be called
            waiting, self._waiting = self._waiting, deque()
        in_flight, self._in_flight = self._in_flight, {}
        for batch, index in in_flight.values():
            batch.settle(index, Confirm.UNKNOWN)
        for items in waiting:
            _give_up(items)

    def _open(self) -> None:
        if self._connection.is_open:
            self._connection.channel(on_open_callback=self._on_channel_open)

    def _on_channel_open(self, channel: Any) -> None:
        self._channel = channel
        self._last_tag = 0
        self._returned = set()
        channel.add_on_close_callback(self._on_channel_closed)
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=self._on_confirm_mode)

    def _on_confirm_mode(self, _frame: Any) -> None:
        self._probe()
        self._watch(self._channel)

    def _watch(self, channel: Any) -> None:
        """Probe, in a loop, whenever nothing was confirmed for half of `silent_seconds`."""
        if channel is not self._channel or not channel.is_open:
            return
        if len(self._in_flight) >= WINDOW:
            self._forget_given_up()
        is_probing = self._is_blocked or self._probe_tag in self._in_flight
        if not is_probing and self._silence_seconds() > self._silent_seconds / 2:
            self._probe()
        self._link.call_later(self._silent_seconds / 4, lambda: self._watch(channel))

    def _forget_given_up(self) -> None:
        """Remove from the window the messages whose confirms are no longer awaited.

        They may be in a queue that confirms nothing; others must not wait for it.
        """
        given_up = [tag for tag, (batch, _) in self._in_flight.items() if batch.is_given_up]
        for tag in given_up:
            batch, index = self._in_flight.pop(tag)
            batch.settle(index, Confirm.UNKNOWN)
        self._pump()

    def _probe(self) -> None:
        """Send a message that every broker answers at once, as nothing is bound to its key."""
        probe = Outgoing(
            exchange=self._probe_exchange,
            routing_key=_PROBE_KEY,
            body=b"",
            headers={},
            durable=False,
        )
        self._send((AmqpBatch(1), 0, probe))
        self._probe_tag = self._last_tag

    def _on_channel_closed(self, channel: Any, error: BaseException) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        self.lost(str(error))
        if getattr(error, "reply_code", None) == NOT_FOUND:
            self._missing_exchanges += 1
        if self._connection.is_open:
            self._complain(reason_of(error))
            self._link.call_later(CHANNEL_RETRY_SECONDS, self._open)

    def _complain(self, trouble: str) -> None:
        """Log why a channel was closed; the same reason once a minute, not twice a second."""
        last_trouble, logged_at = self._trouble
        now = time.monotonic()
        if trouble != last_trouble or now - logged_at >= REPEAT_LOG_SECONDS:
            self._trouble = (trouble, now)
            log.warning("publisher_channel_lost", reason=trouble)

    def _ask_pump(self) -> None:
        """Have `_pump` called once for all batches added before it runs; holds the lock."""
        if not self._is_pump_asked:
            self._is_pump_asked = self._link.call(self._pump_asked)

    def _pump_asked(self) -> None:
        with self._lock:
            self._is_pump_asked = False
        self._pump()

    def _pump(self) -> None:
        """Send waiting messages while the window has room."""
        while not self._is_blocked and len(self._in_flight) < WINDOW:
            item = self._next_item()
            if item is None:
                return
            if item[0].is_given_up or self._channel is None or not self._channel.is_open:
                item[0].settle(item[1], Confirm.UNKNOWN)
            else:
                self._send(item)

    def _next_item(self) -> Item | None:
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                items = self._waiting[0]
            item = next(items, None)
            if item is not None:
                return item
            with self._lock:
                self._waiting.popleft()

    def _send(self, item: Item) -> None:
        batch, index, message = item
        self._last_tag += 1
        if not self._in_flight:
            self._progress_at = time.monotonic()
        self._in_flight[self._last_tag] = (batch, index)
        self._channel.basic_publish(
            message.exchange,
            message.routing_key,
            message.body,
            properties_of(message, str(self._last_tag), self._user),
            mandatory=True,
        )

    def _silence_seconds(self) -> float:
        """Return for how long the broker has confirmed nothing, while something was unconfirmed."""
        return time.monotonic() - self._progress_at

    def _on_return(self, _channel: Any, _method: Any, properties: Any, _body: bytes) -> None:
        tag = int(properties.message_id)
        if tag in self._in_flight:  # not forgotten meanwhile; its confirm comes after this
            self._returned.add(tag)

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        is_ack = method.NAME == "Basic.Ack"
        tags = self._up_to(method.delivery_tag) if method.multiple else [method.delivery_tag]
        self._progress_at = time.monotonic()
        for tag in tags:
            entry = self._in_flight.pop(tag, None)
            if entry is not None:
                batch, index = entry
                batch.settle(index, self._confirm_of(tag, is_ack=is_ack))
        self._is_ready = True
        self._pump()

    def _up_to(self, last: int) -> list[int]:
        tags = []
        for tag in self._in_flight:
            if tag > last:
                break
            tags.append(tag)
        return tags

    def _confirm_of(self, tag: int, *, is_ack: bool) -> Confirm:
        if tag in self._returned:
            self._returned.discard(tag)
            return Confirm.RETURNED
        return Confirm.CONFIRMED if is_ack else Confirm.UNKNOWN


def _give_up(items: Iterator[Item]) -> None:
    for batch, index, _message in items:
        batch.settle(index, Confirm.UNKNOWN)


class Tag(NamedTuple):
    """Identifies a delivery: the subscription, the number of its channel, and the broker's tag."""

    subscription: "Subscription"
    epoch: int
    number: int


class Subscription:
    """Consumes one queue while there is a connection, declaring it first if it is a Queue.

    Everything but the constructor runs in the link's thread.
    """

    def __init__(
        self,
        want: str | Queue,
        prefetch: int,
        consumer: "AmqpConsumer",
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._want = want
        self._name = want if isinstance(want, str) else want.name
        self.queue = self._name
        self.is_active = False
        self._prefetch = prefetch
        self._consumer = consumer
        self._call_later = call_later
        self._epoch = 0
        self._connection: Any = None
        self._channel: Any = None
        self._consumer_tag = ""
        self._is_cancelling = False
        self._outstanding: dict[int, None] = {}
        self._trouble = ""

    def start(self, connection: Any) -> None:
        self._connection = connection
        self._open()

    def declare_again(self) -> None:
        """Declare and bind the queue again; what is delivered already stays."""
        channel = self._channel
        if isinstance(self._want, Queue) and channel is not None and channel.is_open:
            wanted = replace(self._want, name=self.queue)
            declare_queue(channel, wanted, callback=self._on_declared_again)

    def _on_declared_again(self, frame: Any) -> None:
        """Start over if the queue is a new one, which has no consumer.

        A cluster that loses a node may forget a queue without telling its consumer: one that was
        declared anew while the cluster removed what had been on that node.
        """
        is_meant_to_read = self.is_active and not self._is_cancelling
        if is_meant_to_read and frame.method.consumer_count == 0:
            log.warning("queue_replaced", queue=self.queue)
            self._on_cancelled(frame)

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
        self._consumer.drop(self)

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
            declare_queue(channel, replace(self._want, name=self.queue))
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
        self._consumer.put(
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
        is_exclusive = isinstance(self._want, Queue) and self._want.exclusive
        if is_exclusive and getattr(error, "reply_code", None) == LOCKED:
            # A lost connection may still hold its queue: since 4.2, RabbitMQ keeps the exclusive
            # queues of a node that is down until it is back.
            self.queue = f"{self._name}.{secrets.token_hex(4)}"
            self._open()
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
        return all(subscription.is_active for subscription in self._subscriptions)

    @property
    def generation(self) -> int:
        return self._generation

    def declare_again(self) -> None:
        self._link.call(self._declare_again)

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        with self._arrived:
            self._arrived.wait_for(
                lambda: self._buffer or self._is_closed or self._is_woken, timeout_seconds
            )
            self._is_woken = False
            return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]

    def wake(self) -> None:
        with self._arrived:
            self._is_woken = True
            self._arrived.notify_all()

    def cancel(self) -> None:
        self._is_cancelling = True
        self._link.call(self._cancel)

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelling and all(
            subscription.is_idle for subscription in self._subscriptions
        )

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._settle(deliveries, is_rejected=False)

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        self._settle(deliveries, is_rejected=True)

    def close(self) -> None:
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
        with self._arrived:
            self._buffer.append(delivery)
            self._arrived.notify()

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscription's deliveries that were not taken."""
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


class AmqpTransport:
    """Makes publishers, consumers and admins, each with its own connection."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        # The thread of each keeps it until it is closed.
        self._clients = weakref.WeakSet[AmqpPublisher | AmqpConsumer]()
        self._admins: list[AmqpAdmin] = []

    def publisher(
        self, name: str, *, only_asks: bool = False, silent_seconds: float | None = None
    ) -> AmqpPublisher:
        """Return a running publisher; `name` shows in the broker's list of connections."""
        publisher = AmqpPublisher(
            name, self._settings, only_asks=only_asks, silent_seconds=silent_seconds
        )
        self._clients.add(publisher)
        return publisher

    def consumer(self, name: str, queues: Sequence[str | Queue], *, prefetch: int) -> AmqpConsumer:
        """Return a running consumer; it waits for queues that do not exist yet."""
        consumer = AmqpConsumer(name, self._settings, queues, prefetch)
        self._clients.add(consumer)
        return consumer

    def admin(self, name: str, *, answer_seconds: float | None = None) -> AmqpAdmin:
        """Return an admin; it waits that long for an answer, else as long as for a connection."""
        admin = AmqpAdmin(name, self._settings, answer_seconds=answer_seconds)
        self._admins.append(admin)
        return admin

    def check(self) -> None:
        reasons = []
        candidates = parameters_of(self._settings, "check")
        for url, parameters in zip(self._settings.urls, candidates, strict=True):
            try:
                pika.BlockingConnection(parameters).close()
            except Exception as error:  # noqa: BLE001 - any error is the reason
                reasons.append(f"{without_password(url)}: {reason_of(error)}")
            else:
                return
        raise BrokerUnavailable(f"cannot reach the broker: {'; '.join(reasons)}")

    def close(self) -> None:
        for client in (*self._clients, *self._admins):
            client.close()
        self._clients.clear()
        self._admins.clear()


def connect(settings: BrokerSettings) -> AmqpTransport:
    """Return a transport over RabbitMQ; it connects when it is used.

    Raises:
        ValueError: a URL is not amqp or amqps.

    """
    parameters_of(settings, "check")
    warn_of_plaintext(settings)
    tolerate_strange_properties()
    # pika logs everything again, with tracebacks; our own events are `broker_link_…`.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    return AmqpTransport(settings)
