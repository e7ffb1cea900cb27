"""The interface to whatever carries Warren's messages.

It has two implementations, `rabbitmq` and `memory`, which pass the same conformance tests. All
methods may be called from any thread.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to publish: opaque bytes and string headers, an exchange and a routing key."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Mapping[str, str]
    durable: bool = True
    ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that arrived; `tag` is opaque and belongs to its consumer.

    `exchange` is where it was published, `user` the broker's account that published it, both
    verified by the broker. `user` is empty if the publisher did not set it. `header_bytes` is the
    encoded size of all headers and properties, including those that `headers` omits as not text.
    """

    queue: str
    routing_key: str
    body: bytes
    headers: Mapping[str, str]
    redelivered: bool
    tag: object
    exchange: str = ""
    user: str = ""
    header_bytes: int = 0


class Confirm(StrEnum):
    """What happened to a published message."""

    CONFIRMED = "CONFIRMED"
    RETURNED = "RETURNED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue to declare, bound to `exchange`, and to `asked_through` if set, by `routing_keys`.

    `exclusive` queues live as long as the consumer that declares them; those that are to be quorum
    queues too may live `expires_seconds` longer. A queue is deleted after `expires_seconds` without
    a consumer; `message_ttl_seconds`, `max_length` and `max_bytes` (of bodies) drop the oldest
    messages.
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
    """Messages given to a publisher."""

    @property
    def is_settled(self) -> bool:
        """Whether `wait` would return at once."""

    def wait(self, timeout_seconds: float) -> list[Confirm]:
        """Return each message's confirm, in the order given; UNKNOWN on timeout."""


class Publisher(Protocol):
    """Publishes with pipelined confirms and `mandatory`; reconnects by itself, with backoff.

    Nothing is queued while there is no connection: the messages are UNKNOWN at once.
    """

    @property
    def is_ready(self) -> bool:
        """Whether it is connected, in confirm mode and not blocked by the broker."""

    @property
    def missing_exchanges(self) -> int:
        """How many times the broker refused a message because its exchange is not there."""

    def publish(self, messages: Sequence[Outgoing]) -> Batch:
        """Publish the messages; each is confirmed, returned, or unknown."""

    def close(self) -> None:
        """Close the connection; unconfirmed messages become UNKNOWN."""


class Consumer(Protocol):
    """Takes deliveries of some queues; reconnects and consumes again by itself, with backoff."""

    @property
    def is_ready(self) -> bool:
        """Whether every queue is being consumed now."""

    @property
    def generation(self) -> int:
        """How many times it has connected; a new number means that earlier tags are void."""

    def declare_again(self) -> None:
        """Declare and bind its queues again, as their exchange may have been deleted."""

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        """Return up to `limit` deliveries, waiting for the first; empty on timeout."""

    def wake(self) -> None:
        """Make a waiting `take`, or else the next one, return at once."""

    def cancel(self) -> None:
        """Stop further deliveries; what has arrived can still be taken and settled."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the broker has confirmed `cancel`, or the connection is lost."""

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries whose effect is durable; a void tag is ignored."""

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        """Reject deliveries: dead-lettered if the queue says so, else dropped."""

    def close(self) -> None:
        """Stop; unsettled messages are requeued."""


class Admin(Protocol):
    """Declares and inspects queues; used only by schedulers. Calls block up to a few seconds.

    Raises:
        BrokerUnavailable: the broker did not answer in time.
        TopologyError: the queue exists with other arguments.

    """

    def declare_exchanges(self) -> None:
        """Declare the exchanges and the dead-letter queue."""

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        """Declare and bind queues; declaring again changes nothing.

        A classic queue that is to be a quorum queue stays classic, and the other way round.
        """

    def count_messages(self, queue: str) -> int | None:
        """Return how many messages are ready in a queue; None if there is no such queue."""

    def drain(self, queue: str, limit: int, handle: Callable[[Sequence[Delivery]], None]) -> int:
        """Take up to `limit` ready messages, give them to `handle`, ack them when it returns.

        Return how many there were; also 0 if there is no such queue.
        """

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages; it is no error if there is none."""

    def close(self) -> None:
        """Close the connection."""


class Transport(Protocol):
    """Makes publishers, consumers and admins, each with its own connection."""

    def publisher(
        self, name: str, *, only_asks: bool = False, silent_seconds: float | None = None
    ) -> Publisher:
        """Return a running publisher; `name` shows in the broker's list of connections.

        `only_asks`: its account may write only to the exchange of questions. `silent_seconds`: how
        long the broker may confirm nothing before the publisher is not ready, instead of the
        settings' `blocked_timeout_seconds`.
        """

    def consumer(self, name: str, queues: Sequence[str | Queue], *, prefetch: int) -> Consumer:
        """Return a running consumer.

        A `Queue` is declared by the consumer on each connection; a plain name must exist, and until
        it does, the consumer tries again every half second.
        """

    def admin(self, name: str, *, answer_seconds: float | None = None) -> Admin:
        """Return an admin.

        `answer_seconds`: how long the broker may take to answer, instead of the settings'
        `connect_timeout_seconds`.
        """

    def check(self) -> None:
        """Raise BrokerUnavailable with the reason if no broker accepts a connection."""

    def close(self) -> None:
        """Close everything made by this transport."""


@dataclass(slots=True)
class BrokerSettings:
    """How to reach RabbitMQ; `urls` are tried in order, and name the same user.

    `backoff_seconds`: the first and the longest pause before reconnecting; the actual pause is
    random up to that. `ca_file`: certificates to trust for amqps instead of the system's.
    """

    urls: tuple[str, ...]
    heartbeat_seconds: int = 15
    blocked_timeout_seconds: float = 10
    connect_timeout_seconds: float = 5
    backoff_seconds: tuple[float, float] = field(default=(0.2, 10.0))
    ca_file: str | None = None


def is_loopback(host: str) -> bool:
    """Return whether a host is certainly this machine; names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
