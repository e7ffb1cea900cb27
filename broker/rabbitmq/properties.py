"""The properties of messages: written for our own, and read from those of strangers."""

from collections.abc import Mapping
from typing import Any

import pika  # type: ignore[import-untyped]
import pika.spec  # type: ignore[import-untyped]

from warren.broker.transport import Outgoing

_BASIC_CLASS = 60


def properties_of(message: Outgoing, message_id: str, user: str) -> Any:
    """Return the properties to publish a message with.

    `user` is the account of the connection: RabbitMQ refuses messages that name another.
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
    """Properties that decode to none if pika cannot read them (a date in the year 10,000).

    Otherwise the error would end the connection, the message would come again, and so on forever.
    `encoded_bytes` is their size on the wire, whether they could be read or not.
    """

    encoded_bytes = 0

    def decode(self, encoded: bytes, offset: int = 0) -> Any:
        """Decode the properties, or leave all of them empty."""
        try:
            super().decode(encoded, offset)
        except Exception:  # noqa: BLE001 - whatever untrusted bytes make pika raise
            self.__init__()  # type: ignore[misc]
        self.encoded_bytes = len(encoded) - offset
        return self


def tolerate_strange_properties() -> None:
    """Make pika use `TolerantProperties` in this process."""
    pika.spec.props[_BASIC_CLASS] = TolerantProperties


def user_of(properties: Any) -> str:
    """Return the account that published a message, verified by RabbitMQ; empty if not given."""
    return properties.user_id if isinstance(properties.user_id, str) else ""


def header_bytes(properties: Any) -> int:
    """Return the encoded size of a received message's properties, with all headers."""
    return int(getattr(properties, "encoded_bytes", 0))


def string_headers(properties: Any) -> Mapping[str, str]:
    """Return a message's headers whose values are texts."""
    headers = properties.headers or {}
    return {
        name: value
        for name, value in headers.items()
        if isinstance(name, str) and isinstance(value, str)
    }
