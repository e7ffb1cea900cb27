"""Which of Warren's queues are classic ones, and making quorum queues of them.

For short commands: each call waits for the broker's answer. Nothing may use the queues meanwhile.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]

from warren.broker.errors import BrokerUnavailable, QueueUnavailable, TopologyError
from warren.broker.rabbitmq.admin import (
    NODE_DOWN,
    OTHER_KIND,
    arguments_of,
    declare_exchanges,
    declare_queue,
)
from warren.broker.rabbitmq.link import NOT_FOUND, parameters_of, reason_of, without_password
from warren.broker.transport import BrokerSettings, Queue


class Kind(StrEnum):
    """The kind of a queue that exists."""

    CLASSIC = "classic"
    QUORUM = "quorum"


class QueueKinds:
    """Looks at queues through one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def kind(self, queue: Queue) -> Kind | None:
        """Return the kind of a queue; None if there is no such queue.

        Raises:
            QueueUnavailable: its node is down.
            TopologyError: it has other properties.

        """
        if self._look(queue) is None:
            return None
        wanted = replace(queue, quorum=True)
        try:
            # AMQP tells the kind only by what it finds wrong with a declaration.
            self._connection.channel().queue_declare(
                queue.name, durable=True, arguments=arguments_of(wanted)
            )
        except ChannelClosedByBroker as error:
            if OTHER_KIND.search(error.reply_text):
                return Kind.CLASSIC
            raise _translated(queue, error) from error
        return Kind.QUORUM

    def classic(self, queues: Sequence[Queue]) -> list[str]:
        """Return the names of those that are classic queues, as far as they can be looked at."""
        names = []
        for queue in queues:
            with suppress(TopologyError, QueueUnavailable):
                if self.kind(queue) is Kind.CLASSIC:
                    names.append(queue.name)
        return names

    def make_quorum(self, queues: Sequence[Queue]) -> list[str]:
        """Make quorum queues of classic and missing ones; return the names of those changed.

        Nothing is changed if one of them is in use or has messages. If this is interrupted, it can
        be done again.

        Raises:
            TopologyError: one of them is in use, has messages or other properties.
            QueueUnavailable: the node of one is down.

        """
        left = [queue for queue in queues if self.kind(queue) is not Kind.QUORUM]
        for queue in left:
            found = self._look(queue)
            if found is not None and found.message_count:
                raise TopologyError(f"messages in queue {queue.name}: {found.message_count}")
            if found is not None and found.consumer_count:
                raise TopologyError(f"queue {queue.name} is being read")
        declare_exchanges(self._connection.channel())
        for queue in left:
            try:
                # The broker checks again, so that no message is lost.
                self._connection.channel().queue_delete(queue.name, if_unused=True, if_empty=True)
            except ChannelClosedByBroker as error:
                raise _translated(queue, error) from error
            declare_queue(self._connection.channel(), replace(queue, quorum=True))
        return [queue.name for queue in left]

    def _look(self, queue: Queue) -> Any:
        """Return how many messages and consumers a queue has; None if there is no such queue."""
        try:
            return self._connection.channel().queue_declare(queue.name, passive=True).method
        except ChannelClosedByBroker as error:
            if error.reply_code == NOT_FOUND and not NODE_DOWN.search(error.reply_text):
                return None
            raise _translated(queue, error) from error


@contextmanager
def open_kinds(settings: BrokerSettings) -> Iterator[QueueKinds]:
    """Yield what looks at queues, connected to the first broker that answers."""
    reasons = []
    for url, parameters in zip(settings.urls, parameters_of(settings, "queues"), strict=True):
        try:
            connection = pika.BlockingConnection(parameters)
        except Exception as error:  # noqa: BLE001 - any error is the reason
            reasons.append(f"{without_password(url)}: {reason_of(error)}")
            continue
        try:
            yield QueueKinds(connection)
        finally:
            if connection.is_open:
                connection.close()
        return
    raise BrokerUnavailable(f"cannot reach the broker: {'; '.join(reasons)}")


def _translated(queue: Queue, error: ChannelClosedByBroker) -> Exception:
    text = re.sub(r"^[A-Z_]+ - ", "", error.reply_text)
    kind = QueueUnavailable if NODE_DOWN.search(error.reply_text) else TopologyError
    return kind(f"queue {queue.name}: {text}")
