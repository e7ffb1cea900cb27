"""A queue in memory, and the mailbox of one consumer: data only, guarded by the exchange's lock."""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from warren.broker.transport import Delivery, Queue


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
