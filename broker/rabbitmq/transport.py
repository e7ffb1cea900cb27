"""The transport over RabbitMQ: pika, one connection and one thread for each role."""

import logging
import weakref
from collections.abc import Sequence

import pika  # type: ignore[import-untyped]

from warren.broker.errors import BrokerUnavailable
from warren.broker.rabbitmq.admin import AmqpAdmin
from warren.broker.rabbitmq.consumer import AmqpConsumer
from warren.broker.rabbitmq.link import (
    parameters_of,
    reason_of,
    warn_of_plaintext,
    without_password,
)
from warren.broker.rabbitmq.properties import tolerate_strange_properties
from warren.broker.rabbitmq.publisher import AmqpPublisher
from warren.broker.transport import BrokerSettings, Queue


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
        """Raise BrokerUnavailable with the reason if no broker accepts a connection."""
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
        """Close everything made by this transport."""
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
