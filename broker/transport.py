"""The interface between Warren and whatever carries its messages.

Two implementations stand beside it: `amqp` (RabbitMQ through pika) and `memory` (one process).
Both pass the same conformance tests. All methods may be called from any thread; none is ever
called with a lock of the caller's held by the transport's own threads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to publish: opaque bytes and string headers, to one routing key of one exchange."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Mapping[str, str]
    durable: bool = True
    ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that arrived; `tag` is opaque and belongs to the consumer that gave it.

    `exchange` is where it was published, `user` the broker's account that published it: the
    broker vouches for both. `user` is empty where the publisher did not say.
    """

    queue: str
    routing_key: str
    body: bytes
    headers: Mapping[str, str]
    redelivered: bool
    tag: object
    exchange: str = ""
    user: str = ""


class Confirm(StrEnum):
    """What became of a published message."""

    CONFIRMED = "CONFIRMED"
    RETURNED = "RETURNED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue to declare, bound to `exchange`, and to `asked_through` if any, by `routing_keys`.

    `exclusive` queues live and die with the consumer that declares them. `expires_seconds` without
    a consumer deletes the queue; `message_ttl_seconds`, `max_length` and `max_bytes`, of bodies,
    drop the oldest messages.
    """

    name: str
    exchange: str
    routing_keys: tuple[str, ...]
    asked_through: str = ""
    exclusive: bool = False
    expires_seconds: float | None = None
    message_ttl_seconds: float | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    dead_letter: bool = False
    quorum: bool = False


class Batch(Protocol):
    """Messages handed to a publisher, on their way."""

    @property
    def is_settled(self) -> bool:
        """Whether `wait` has nothing to wait for."""

    def wait(self, timeout_seconds: float) -> list[Confirm]:
        """Return each message's fate, in the order given; UNKNOWN for what time ran out on."""


class Publisher(Protocol):
    """Publishes with confirms and `mandatory`, pipelined; reconnects by itself, with backoff.

    Nothing is queued while there is no connection: such messages are UNKNOWN at once.
    """

    @property
    def is_ready(self) -> bool:
        """Whether it is connected, in confirm mode and not blocked by the broker."""

    def publish(self, messages: Sequence[Outgoing]) -> Batch:
        """Send the messages; each is confirmed, returned, or of unknown fate."""

    def close(self) -> None:
        """End the connection; what is unconfirmed becomes UNKNOWN."""


class Consumer(Protocol):
    """Takes deliveries of some queues; reconnects and consumes again by itself, with backoff."""

    @property
    def is_ready(self) -> bool:
        """Whether every queue is being consumed now."""

    @property
    def generation(self) -> int:
        """How often the connection was made; a new number means that tags before it are void."""

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        """Return up to `limit` deliveries, waiting for the first one; empty when time ran out."""

    def wake(self) -> None:
        """Let a `take` that waits, or else the next one, return at once."""

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries whose effect is durable; a void tag is ignored."""

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        """Give deliveries up: dead-lettered where the queue says so, else dropped."""

    def close(self) -> None:
        """Stop; what was not settled goes back to its queue."""


class Admin(Protocol):
    """Declares and inspects queues; used by schedulers only. Calls block up to a few seconds.

    Raises:
        BrokerUnavailable: the broker did not answer in time.
        TopologyError: the queue exists with other arguments.

    """

    def declare_exchanges(self) -> None:
        """Declare the exchanges and the dead-letter queue."""

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        """Declare and bind queues; declaring again changes nothing."""

    def count_messages(self, queue: str) -> int | None:
        """Return how many messages are ready in a queue, None when there is no such queue."""

    def drain(self, queue: str, limit: int, handle: Callable[[Sequence[Delivery]], None]) -> int:
        """Take up to `limit` ready messages, give them to `handle`, ack them when it returns.

        Returns how many there were; 0 also when there is no such queue.
        """

    def delete_queue(self, queue: str) -> None:
        """Delete a queue, whatever it holds; deleting what is not there is no error."""

    def close(self) -> None:
        """End the connection."""


class Transport(Protocol):
    """Makes publishers, consumers and admins; each has a connection of its own."""

    def publisher(self, name: str, *, only_asks: bool = False) -> Publisher:
        """Return a running publisher; `name` shows in the broker's list of connections.

        `only_asks`: its account may write to the exchange of questions and nowhere else.
        """

    def consumer(self, name: str, queues: Sequence[str | Queue], *, prefetch: int) -> Consumer:
        """Return a running consumer.

        A `Queue` is declared by the consumer on each (re)connection; a plain name must exist,
        and while it does not, the consumer asks again every half second.
        """

    def admin(self, name: str) -> Admin:
        """Return an admin."""

    def check(self) -> None:
        """Raise BrokerUnavailable with the reason when no broker can be reached and entered."""

    def close(self) -> None:
        """Close everything this transport made."""


@dataclass(slots=True)
class BrokerSettings:
    """How to reach RabbitMQ; `urls` are tried in order, and name one user.

    `backoff_seconds`: the first and the longest wait before connecting again, each a bound for a
    random one. `ca_file`: certificates to trust for amqps instead of the system's.
    """

    urls: tuple[str, ...]
    quorum: bool = False
    heartbeat_seconds: int = 15
    blocked_timeout_seconds: float = 10
    connect_timeout_seconds: float = 5
    backoff_seconds: tuple[float, float] = field(default=(0.2, 10.0))
    ca_file: str | None = None
