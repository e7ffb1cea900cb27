"""RabbitMQ's rules in one process: routing, prefetch, dead letters, expiry, exclusive queues.

One lock guards everything; no method calls out while holding it. Expiry is checked when a queue is
used, as RabbitMQ checks the head of a queue, so no timers are needed.
"""

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from warren.broker.errors import BrokerUnavailable, TopologyError
from warren.broker.memory.queue import Mailbox, MemoryQueue, Stored
from warren.broker.topology import DEAD_LETTER_EXCHANGE, EXCHANGES
from warren.broker.transport import Confirm, Delivery, Outgoing, Queue


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
        """Declare all exchanges of the topology."""
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
