"""Publishes to RabbitMQ with pipelined confirms and `mandatory`.

    publish() ─> waiting ─> (link's thread, at most WINDOW unconfirmed) ─> in flight ─> confirm

A confirm is UNKNOWN if the connection or channel is lost before it arrives.

A publisher is ready once a probe has come back: a broker that is short of memory accepts
connections and blocks only those that publish. It sends more probes while no confirms arrive. So an
idle publisher notices a silent broker as soon as a busy one does, and a silent broker is not
confused with a queue that confirms nothing, such as a quorum queue without a majority.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import structlog

from warren.broker.rabbitmq.link import NOT_FOUND, Link, reason_of
from warren.broker.rabbitmq.properties import properties_of
from warren.broker.topology import ASK_EXCHANGE, REPLY_EXCHANGE
from warren.broker.transport import BrokerSettings, Confirm, Outgoing

log = structlog.get_logger()

#: The most unconfirmed messages; more do not make it faster.
WINDOW = 1_000
#: Seconds until a lost channel is opened again.
CHANNEL_RETRY_SECONDS = 0.5
#: Seconds until the loss of a channel is logged again for the same reason.
REPEAT_LOG_SECONDS = 60.0

_PROBE_KEY = "probe"
_ROUTING_KEY_LIMIT = 255


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
        """How many times the broker refused a message because its exchange is not there."""
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
        """Close the connection; unconfirmed messages become UNKNOWN."""
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
        """Remove from the window the messages whose confirms nobody awaits any more.

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
