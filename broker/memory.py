"""The transport inside one process, for `warren up` and tests: RabbitMQ's rules without RabbitMQ.

One lock guards everything; no method calls out while holding it. Expiry is checked when a queue is
used, as RabbitMQ checks the head of a queue, so no timers are needed.

Nothing survives the process. `MemoryBroker` can also act like an unavailable or blocked RabbitMQ.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from warren.broker.errors import BrokerUnavailable, TopologyError
from warren.broker.topology import DEAD_LETTER_EXCHANGE, DEAD_QUEUE, EXCHANGES
from warren.broker.transport import Confirm, Delivery, Outgoing, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message in a queue; `number` is its position in the order of publishing."""

    number: int
    exchange: str
    user: str
    routing_key: str
    body: bytes
    headers: Mapping[str, str]
    durable: bool
    expires_at: float | None
    redelivered: bool = False


class Tag(NamedTuple):
    """Identifies a message held by a consumer, and the connection that delivered it."""

    generation: int
    number: int


class Mailbox:
    """The queues that a consumer reads, and its unsettled messages. `arrived` shares the lock."""

    def __init__(self, wanted: Iterable[str | Queue], prefetch: int, lock: threading.RLock) -> None:
        self.wanted = {want if isinstance(want, str) else want.name: want for want in wanted}
        self.prefetch = prefetch
        self.arrived = threading.Condition(lock)
        self.attached: set[str] = set()
        self.buffer: deque[Delivery] = deque()
        self.unsettled: dict[str, dict[int, Stored]] = {name: {} for name in self.wanted}
        self.generation = 0
        self.is_cancelled = False
        self.is_closed = False

    def has_room(self, queue: str) -> bool:
        """Whether this consumer may hold one more message of the queue."""
        return not self.is_cancelled and len(self.unsettled[queue]) < self.prefetch

    def put(self, queue: str, stored: Stored) -> None:
        """Deliver a message; its tag becomes void when the connection is replaced."""
        self.unsettled[queue][stored.number] = stored
        self.buffer.append(delivery_of(queue, stored, Tag(self.generation, stored.number)))
        self.arrived.notify_all()

    def settle(self, delivery: Delivery) -> Stored | None:
        """Settle a message and return it; None if the tag is void."""
        tag = delivery.tag
        if not isinstance(tag, Tag) or tag.generation != self.generation:
            return None
        return self.unsettled.get(delivery.queue, {}).pop(tag.number, None)

    def empty(self, queue: str) -> list[Stored]:
        """Remove and return the unsettled messages of a queue."""
        self.attached.discard(queue)
        self.buffer = deque(kept for kept in self.buffer if kept.queue != queue)
        held, self.unsettled[queue] = self.unsettled[queue], {}
        return list(held.values())


@dataclass(slots=True, kw_only=True)
class MemoryQueue:
    """A queue's ready messages, oldest first, and its consumers, next one first."""

    spec: Queue
    owner: object | None
    unused_since: float
    ready: deque[Stored] = field(default_factory=deque)
    mailboxes: deque[Mailbox] = field(default_factory=deque)

    def requeue(self, messages: Iterable[Stored]) -> None:
        """Put messages back into their old positions, marked as redelivered."""
        again = [replace(message, redelivered=True) for message in messages]
        if again:
            self.ready = deque(sorted([*again, *self.ready], key=lambda stored: stored.number))

    def take_surplus(self, now: float) -> list[tuple[Stored, str]]:
        """Remove expired and surplus messages at the head; return each with the reason."""
        surplus = []
        limit, max_bytes = self.spec.max_length, self.spec.max_bytes
        size = 0 if max_bytes is None else sum(len(stored.body) for stored in self.ready)
        while self.ready:
            expires_at = self.ready[0].expires_at
            if expires_at is not None and expires_at <= now:
                surplus.append((self.ready.popleft(), "expired"))
            elif limit is not None and len(self.ready) > limit:
                surplus.append((self.ready.popleft(), "maxlen"))
            elif max_bytes is not None and size > max_bytes:
                surplus.append((self.ready.popleft(), "maxlen"))
                size -= len(surplus[-1][0].body)
            else:
                break
        return surplus

    def next_mailbox(self) -> Mailbox | None:
        """Return the next consumer in turn that has room; None if there is none."""
        for _ in range(len(self.mailboxes)):
            self.mailboxes.rotate(-1)
            if self.mailboxes[-1].has_room(self.spec.name):
                return self.mailboxes[-1]
        return None

    def is_stale(self, now: float) -> bool:
        """Whether the queue has been unused for as long as its kind allows."""
        expires = self.spec.expires_seconds
        return expires is not None and not self.mailboxes and now - self.unused_since >= expires


def delivery_of(queue: str, stored: Stored, tag: object) -> Delivery:
    """Return a stored message as a delivery."""
    return Delivery(
        queue=queue,
        routing_key=stored.routing_key,
        body=stored.body,
        headers=dict(stored.headers),
        redelivered=stored.redelivered,
        tag=tag,
        exchange=stored.exchange,
        user=stored.user,
        header_bytes=sum(
            len(text.encode(errors="surrogatepass"))
            for pair in stored.headers.items()
            for text in pair
        ),
    )


class MemoryExchange:
    """Exchanges, queues and mailboxes; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.is_running = True
        self.is_blocked = False
        self._clock = clock
        self._numbers = itertools.count(1)
        self._exchanges: set[str] = set()
        self._queues: dict[str, MemoryQueue] = {}
        self._mailboxes: list[Mailbox] = []

    # -- faults ---------------------------------------------------------------------------

    def stop(self) -> None:
        """Cut all connections: unsettled messages are requeued, transient ones are lost."""
        with self.lock:
            self.is_running = False
            for mailbox in self._mailboxes:
                self._detach(mailbox)
            for queue in self._queues.values():
                queue.ready = type(queue.ready)(kept for kept in queue.ready if kept.durable)

    def start(self) -> None:
        """Let clients connect again."""
        with self.lock:
            if self.is_running:
                return
            self.is_running = True
            for mailbox in self._mailboxes:
                mailbox.generation += 1
            self._attach_all()

    # -- topology -------------------------------------------------------------------------

    def declare_exchanges(self) -> None:
        with self.lock:
            self._check_running()
            self._exchanges.update(EXCHANGES)

    def declare(self, spec: Queue, owner: object) -> MemoryQueue:
        """Declare and bind a queue; `owner` matters only if it is exclusive."""
        with self.lock:
            self._check_running()
            queue = self._find(spec.name)
            if queue is None:
                queue = self._create(spec, owner)
                self._attach_all()
            elif queue.owner not in (None, owner):
                raise TopologyError(f"cannot declare queue {spec.name}: another one owns it")
            elif queue.spec != spec:
                raise TopologyError(f"cannot declare queue {spec.name}: it has other arguments")
            queue.unused_since = self._clock()
            return queue

    def find(self, name: str, owner: object = None) -> MemoryQueue | None:
        """Return a queue that `owner` may use; None if it does not exist."""
        with self.lock:
            self._check_running()
            queue = self._find(name)
            if queue is not None and queue.owner not in (None, owner):
                raise TopologyError(f"cannot use queue {name}: another one owns it")
            return queue

    def count(self, queue: MemoryQueue) -> int:
        """Return how many messages are ready."""
        with self.lock:
            self._push(queue)
            return len(queue.ready)

    def delete(self, name: str) -> None:
        """Delete a queue; its consumers wait for it to come back."""
        with self.lock:
            queue = self._queues.pop(name, None)
            if queue is None:
                return
            for mailbox in queue.mailboxes:
                mailbox.empty(name)
            self._attach_all()

    # -- messages -------------------------------------------------------------------------

    def publish(self, message: Outgoing, user: str = "") -> Confirm:
        """Route a message and return its confirm."""
        with self.lock:
            if not self.is_running or self.is_blocked or message.exchange not in self._exchanges:
                return Confirm.UNKNOWN
            queues = self._route(message.exchange, message.routing_key)
            for queue in queues:
                self._store(queue, message, user)
            return Confirm.CONFIRMED if queues else Confirm.RETURNED

    def take_ready(self, queue: MemoryQueue, limit: int) -> list[Stored]:
        """Remove up to `limit` ready messages, as basic.get does."""
        with self.lock:
            self._push(queue)
            queue.unused_since = self._clock()
            return [queue.ready.popleft() for _ in range(min(limit, len(queue.ready)))]

    def put_back(self, queue: MemoryQueue, messages: Iterable[Stored]) -> None:
        """Requeue messages that were taken and not settled."""
        with self.lock:
            queue.requeue(messages)
            self._push(queue)

    # -- consumers ------------------------------------------------------------------------

    def join(self, mailbox: Mailbox) -> None:
        """Start delivering to a consumer."""
        with self.lock:
            mailbox.generation += 1
            self._mailboxes.append(mailbox)
            self._attach_all()

    def leave(self, mailbox: Mailbox) -> None:
        """Remove a consumer: its unsettled messages are requeued, its exclusive queues deleted."""
        with self.lock:
            if mailbox.is_closed:
                return
            mailbox.is_closed = True
            self._mailboxes.remove(mailbox)
            self._detach(mailbox)
            self._attach_all()
            mailbox.arrived.notify_all()

    def settle(self, mailbox: Mailbox, deliveries: Sequence[Delivery], *, reject: bool) -> None:
        """Settle a consumer's deliveries and deliver more."""
        with self.lock:
            touched: dict[str, None] = {}
            for delivery in deliveries:
                stored = mailbox.settle(delivery)
                if stored is None:
                    continue
                touched[delivery.queue] = None
                if reject:
                    self._bury(self._queues[delivery.queue], stored, "rejected")
            for name in touched:
                self._push(self._queues[name])

    # -- inside the lock ------------------------------------------------------------------

    def _check_running(self) -> None:
        if not self.is_running:
            raise BrokerUnavailable("cannot reach the broker: it is stopped")

    def _find(self, name: str) -> MemoryQueue | None:
        queue = self._queues.get(name)
        if queue is not None and queue.is_stale(self._clock()):
            del self._queues[name]
            return None
        return queue

    def _create(self, spec: Queue, owner: object) -> MemoryQueue:
        if spec.exchange not in self._exchanges:
            raise TopologyError(f"cannot bind queue {spec.name}: no exchange {spec.exchange}")
        queue = MemoryQueue(
            spec=spec, owner=owner if spec.exclusive else None, unused_since=self._clock()
        )
        self._queues[spec.name] = queue
        return queue

    def _route(self, exchange: str, routing_key: str) -> list[MemoryQueue]:
        fanout = EXCHANGES[exchange] == "fanout"
        names = [
            name
            for name, queue in self._queues.items()
            if exchange in (queue.spec.exchange, queue.spec.asked_through)
            and (fanout or routing_key in queue.spec.routing_keys)
        ]
        return [queue for name in names if (queue := self._find(name)) is not None]

    def _store(self, queue: MemoryQueue, message: Outgoing, user: str) -> None:
        ttls = (message.ttl_seconds, queue.spec.message_ttl_seconds)
        known = [ttl for ttl in ttls if ttl is not None]
        queue.ready.append(
            Stored(
                number=next(self._numbers),
                exchange=message.exchange,
                user=user,
                routing_key=message.routing_key,
                body=message.body,
                headers=message.headers,
                durable=message.durable,
                expires_at=self._clock() + min(known) if known else None,
            )
        )
        self._push(queue)

    def _push(self, queue: MemoryQueue) -> None:
        while True:
            for stored, reason in queue.take_surplus(self._clock()):
                self._bury(queue, stored, reason)
            mailbox = queue.next_mailbox() if queue.ready else None
            if mailbox is None:
                return
            mailbox.put(queue.spec.name, queue.ready.popleft())

    def _bury(self, queue: MemoryQueue, stored: Stored, reason: str) -> None:
        if not queue.spec.dead_letter:
            return
        for grave in self._route(DEAD_LETTER_EXCHANGE, stored.routing_key):
            self._store(grave, _dead_letter(queue.spec, stored, reason), stored.user)

    def _attach_all(self) -> None:
        pairs = [(box, want) for box in self._mailboxes for want in box.wanted.values()]
        while any(self._attach(mailbox, want) for mailbox, want in pairs):
            pass  # an earlier consumer may have waited for a queue that a later one declares

    def _attach(self, mailbox: Mailbox, want: str | Queue) -> bool:
        name = want if isinstance(want, str) else want.name
        if not self.is_running or mailbox.is_cancelled or name in mailbox.attached:
            return False
        queue = self._find(name)
        if isinstance(want, Queue):
            if queue is None and want.exchange in self._exchanges:
                queue = self._create(want, mailbox)
            elif queue is not None and queue.spec != want:
                return False
        if queue is None or queue.owner not in (None, mailbox):
            return False
        mailbox.attached.add(name)
        queue.mailboxes.append(mailbox)
        self._push(queue)
        return True

    def _detach(self, mailbox: Mailbox) -> None:
        for name in list(mailbox.attached):
            queue = self._queues[name]
            held = mailbox.empty(name)
            queue.mailboxes.remove(mailbox)
            queue.unused_since = self._clock()
            if queue.owner is mailbox:
                del self._queues[name]
            else:
                queue.requeue(held)
                self._push(queue)


def _dead_letter(spec: Queue, stored: Stored, reason: str) -> Outgoing:
    death: Mapping[str, str] = {
        "x-first-death-exchange": spec.exchange,
        "x-first-death-queue": spec.name,
        "x-first-death-reason": reason,
    }
    return Outgoing(
        exchange=DEAD_LETTER_EXCHANGE,
        routing_key=stored.routing_key,
        body=stored.body,
        headers={**death, **stored.headers},
        durable=stored.durable,
    )


class MemoryBroker:
    """The broker that the transports of one process share. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._core = MemoryExchange(clock)

    def transport(self, user: str = "") -> "MemoryTransport":
        """Return a new transport for an account, whose name is not checked."""
        return MemoryTransport(self._core, user)

    def stop(self) -> None:
        """Become unavailable, like a restarting RabbitMQ: durable messages stay."""
        self._core.stop()

    def start(self) -> None:
        """Become available; consumers reconnect at once, with a new generation."""
        self._core.start()

    def block(self) -> None:
        """Raise the memory alarm: nothing can be published; consuming continues."""
        self._core.is_blocked = True

    def unblock(self) -> None:
        """Clear the memory alarm."""
        self._core.is_blocked = False


class MemoryBatch:
    """Published messages, whose confirms are known from the start."""

    def __init__(self, confirms: list[Confirm]) -> None:
        self._confirms = confirms

    @property
    def is_settled(self) -> bool:
        """True, because the confirms are known."""
        return True

    def wait(self, timeout_seconds: float) -> list[Confirm]:  # noqa: ARG002 - the interface's
        """Return each message's confirm, in the order given."""
        return list(self._confirms)


class MemoryPublisher:
    """Publishes directly into the queues."""

    def __init__(self, core: MemoryExchange, user: str) -> None:
        self._core = core
        self._user = user
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether the broker is available and not blocked."""
        return self._core.is_running and not self._core.is_blocked and not self._is_closed

    @property
    def missing_exchanges(self) -> int:
        """0, because exchanges cannot be deleted here."""
        return 0

    def publish(self, messages: Sequence[Outgoing]) -> MemoryBatch:
        """Publish the messages; none of them if the broker is unavailable or blocked."""
        if not self.is_ready:
            return MemoryBatch([Confirm.UNKNOWN] * len(messages))
        return MemoryBatch([self._core.publish(message, self._user) for message in messages])

    def close(self) -> None:
        """Publish nothing more."""
        self._is_closed = True


class MemoryConsumer:
    """Takes deliveries from its mailbox."""

    def __init__(self, core: MemoryExchange, queues: Sequence[str | Queue], prefetch: int) -> None:
        self._core = core
        self._mailbox = Mailbox(queues, prefetch, core.lock)
        self._is_woken = False
        core.join(self._mailbox)

    @property
    def is_ready(self) -> bool:
        with self._core.lock:
            mailbox = self._mailbox
            return not mailbox.is_closed and len(mailbox.attached) == len(mailbox.wanted)

    @property
    def generation(self) -> int:
        """How many times it has connected."""
        return self._mailbox.generation

    def declare_again(self) -> None:
        """Do nothing: queues and bindings are never deleted here."""

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        mailbox = self._mailbox
        with mailbox.arrived:
            mailbox.arrived.wait_for(
                lambda: mailbox.buffer or mailbox.is_closed or self._is_woken, timeout_seconds
            )
            self._is_woken = False
            count = min(limit, len(mailbox.buffer))
            return [mailbox.buffer.popleft() for _ in range(count)]

    def wake(self) -> None:
        with self._mailbox.arrived:
            self._is_woken = True
            self._mailbox.arrived.notify_all()

    def cancel(self) -> None:
        with self._core.lock:
            self._mailbox.is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing more will arrive."""
        return self._mailbox.is_cancelled

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._core.settle(self._mailbox, deliveries, reject=False)

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        self._core.settle(self._mailbox, deliveries, reject=True)

    def close(self) -> None:
        self._core.leave(self._mailbox)


class MemoryAdmin:
    """Declares and inspects queues."""

    def __init__(self, core: MemoryExchange) -> None:
        self._core = core

    def declare_exchanges(self) -> None:
        self._core.declare_exchanges()
        self.declare_queues([DEAD_QUEUE])

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            self._core.declare(queue, self)

    def count_messages(self, queue: str) -> int | None:
        known = self._core.find(queue, self)
        return None if known is None else self._core.count(known)

    def drain(self, queue: str, limit: int, handle: Callable[[Sequence[Delivery]], None]) -> int:
        """Take up to `limit` ready messages, give them to `handle`, ack them when it returns."""
        source = self._core.find(queue, self)
        taken = [] if source is None else self._core.take_ready(source, limit)
        if source is None or not taken:
            return 0
        try:
            handle([delivery_of(queue, stored, None) for stored in taken])
        except BaseException:
            self._core.put_back(source, taken)
            raise
        return len(taken)

    def delete_queue(self, queue: str) -> None:
        self._core.find(queue, self)
        self._core.delete(queue)

    def close(self) -> None:
        """Do nothing: there is no connection."""


class MemoryTransport:
    """Makes publishers, consumers and admins on one memory broker."""

    def __init__(self, core: MemoryExchange, user: str) -> None:
        self._core = core
        self._user = user
        self._clients: list[MemoryPublisher | MemoryConsumer | MemoryAdmin] = []

    def publisher(
        self,
        name: str,  # noqa: ARG002 - the interface's
        *,
        only_asks: bool = False,  # noqa: ARG002 - the interface's
        silent_seconds: float | None = None,  # noqa: ARG002 - the interface's
    ) -> MemoryPublisher:
        publisher = MemoryPublisher(self._core, self._user)
        self._clients.append(publisher)
        return publisher

    def consumer(
        self,
        name: str,  # noqa: ARG002 - the interface's
        queues: Sequence[str | Queue],
        *,
        prefetch: int,
    ) -> MemoryConsumer:
        """Return a running consumer; it waits for queues that do not exist yet."""
        consumer = MemoryConsumer(self._core, queues, prefetch)
        self._clients.append(consumer)
        return consumer

    def admin(
        self,
        name: str,  # noqa: ARG002 - the interface's
        *,
        answer_seconds: float | None = None,  # noqa: ARG002 - answers come at once
    ) -> MemoryAdmin:
        admin = MemoryAdmin(self._core)
        self._clients.append(admin)
        return admin

    def check(self) -> None:
        """Raise BrokerUnavailable while the broker is stopped."""
        if not self._core.is_running:
            raise BrokerUnavailable("cannot reach the broker: it is stopped")

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()
