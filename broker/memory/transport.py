"""The transport inside one process, for `warren up` and tests: RabbitMQ's rules without RabbitMQ.

Nothing survives the process. `MemoryBroker` can also act like an unavailable or blocked RabbitMQ.
"""

import time
from collections.abc import Callable, Sequence

from warren.broker.errors import BrokerUnavailable
from warren.broker.memory.exchange import MemoryExchange
from warren.broker.memory.queue import Mailbox, delivery_of
from warren.broker.topology import DEAD_QUEUE
from warren.broker.transport import Confirm, Delivery, Outgoing, Queue


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
        """0, because nobody can delete an exchange here."""
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
        """Whether every queue is being consumed now."""
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
        """Return up to `limit` deliveries, waiting for the first; empty on timeout."""
        mailbox = self._mailbox
        with mailbox.arrived:
            mailbox.arrived.wait_for(
                lambda: mailbox.buffer or mailbox.is_closed or self._is_woken, timeout_seconds
            )
            self._is_woken = False
            count = min(limit, len(mailbox.buffer))
            return [mailbox.buffer.popleft() for _ in range(count)]

    def wake(self) -> None:
        """Make a waiting `take`, or else the next one, return at once."""
        with self._mailbox.arrived:
            self._is_woken = True
            self._mailbox.arrived.notify_all()

    def cancel(self) -> None:
        """Stop further deliveries; what has arrived can still be taken and settled."""
        with self._core.lock:
            self._mailbox.is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing more will arrive."""
        return self._mailbox.is_cancelled

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries whose effect is durable; a void tag is ignored."""
        self._core.settle(self._mailbox, deliveries, reject=False)

    def reject(self, deliveries: Sequence[Delivery]) -> None:
        """Reject deliveries: dead-lettered if the queue says so, else dropped."""
        self._core.settle(self._mailbox, deliveries, reject=True)

    def close(self) -> None:
        """Stop; unsettled messages are requeued."""
        self._core.leave(self._mailbox)


class MemoryAdmin:
    """Declares and inspects queues."""

    def __init__(self, core: MemoryExchange) -> None:
        self._core = core

    def declare_exchanges(self) -> None:
        """Declare the exchanges and the dead-letter queue."""
        self._core.declare_exchanges()
        self.declare_queues([DEAD_QUEUE])

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        """Declare and bind queues; declaring again changes nothing."""
        for queue in queues:
            self._core.declare(queue, self)

    def count_messages(self, queue: str) -> int | None:
        """Return how many messages are ready in a queue; None if there is no such queue."""
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
        """Delete a queue with its messages; it is no error if there is none."""
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
        """Return a running publisher."""
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
        """Return an admin."""
        admin = MemoryAdmin(self._core)
        self._clients.append(admin)
        return admin

    def check(self) -> None:
        """Raise BrokerUnavailable while the broker is stopped."""
        if not self._core.is_running:
            raise BrokerUnavailable("cannot reach the broker: it is stopped")

    def close(self) -> None:
        """Close everything made by this transport."""
        for client in self._clients:
            client.close()
        self._clients.clear()
