"""Declares our exchanges and queues on RabbitMQ."""

from typing import Any

from warren.broker.topology import DEAD_LETTER_EXCHANGE, EXCHANGES
from warren.broker.transport import Queue

#: How many times a quorum queue delivers a message before it is dead-lettered. Set explicitly, as
#: 3.x has no limit and 4.x has 20, which a series of lost connections would use up.
DELIVERY_LIMIT = 200


def declare_exchanges(channel: Any) -> None:
    """Declare every exchange of the topology as durable."""
    for name, kind in EXCHANGES.items():
        channel.exchange_declare(name, exchange_type=kind, durable=True)


def declare_queue(channel: Any, queue: Queue) -> None:
    """Declare and bind a queue without waiting: errors close the channel."""
    channel.queue_declare(
        queue.name,
        durable=not queue.exclusive,
        exclusive=queue.exclusive,
        arguments=arguments_of(queue),
    )
    for exchange in filter(None, (queue.exchange, queue.asked_through)):
        for routing_key in queue.routing_keys:
            channel.queue_bind(queue.name, exchange, routing_key)


def arguments_of(queue: Queue) -> dict[str, str | int]:
    """Return a queue's `x-` arguments."""
    arguments: dict[str, str | int] = {}
    if queue.dead_letter:
        arguments["x-dead-letter-exchange"] = DEAD_LETTER_EXCHANGE
    if queue.quorum:
        arguments |= {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}
    if queue.expires_seconds is not None:
        arguments["x-expires"] = round(queue.expires_seconds * 1000)
    if queue.message_ttl_seconds is not None:
        arguments["x-message-ttl"] = round(queue.message_ttl_seconds * 1000)
    if queue.max_length is not None:
        arguments["x-max-length"] = queue.max_length
    if queue.max_bytes is not None:
        arguments["x-max-length-bytes"] = queue.max_bytes
    return arguments
