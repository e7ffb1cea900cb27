"""A message's properties: what we send, and what is read however strange it is."""

from collections.abc import Mapping
from typing import Any

import pika  # type: ignore[import-untyped]
import pika.spec  # type: ignore[import-untyped]

from broker.transport import Outgoing

_BASIC_CLASS = 60


def properties_of(message: Outgoing, message_id: str, user: str) -> Any:
    """Return the properties that a message is published with.

    `user` is the account of the connection: RabbitMQ takes no message that names another.
    """
    ttl = message.ttl_seconds
    return pika.BasicProperties(
        content_type="application/json",
        headers=message.headers,
        delivery_mode=2 if message.durable else 1,
        expiration=None if ttl is None else str(max(0, round(ttl * 1000))),
        message_id=message_id,
        user_id=user,
    )


class TolerantProperties(pika.spec.BasicProperties):  # type: ignore[misc]
    """Properties that decode to none where pika cannot read them (a date in the year 10,000).

    Else that error would end the connection, the message would come again, and so for ever.
    """

    def decode(self, encoded: bytes, offset: int = 0) -> Any:
        """Read the properties, or leave them all empty."""
        try:
            return super().decode(encoded, offset)
        except Exception:  # noqa: BLE001 - whatever a stranger's bytes make pika raise
            self.__init__()  # type: ignore[misc]
            return self


def tolerate_strange_properties() -> None:
    """Let pika, in this process, read messages with `TolerantProperties`."""
    pika.spec.props[_BASIC_CLASS] = TolerantProperties


def user_of(properties: Any) -> str:
    """Return the account that published a message, for which RabbitMQ vouches; "" = not told."""
    return properties.user_id if isinstance(properties.user_id, str) else ""


def string_headers(properties: Any) -> Mapping[str, str]:
    """Return those of a message's headers that are text named by text."""
    headers = properties.headers or {}
    return {
        name: value
        for name, value in headers.items()
        if isinstance(name, str) and isinstance(value, str)
    }
