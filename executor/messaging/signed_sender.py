"""Signs and sends the messages of an executor."""

import secrets
from dataclasses import dataclass
from typing import Self

from warren.broker.messages import Message
from warren.broker.signing import Direction, Sealer
from warren.broker.topology import CALLBACK_KEY, REPLY_EXCHANGE, check_address, check_app
from warren.broker.transport import Batch, Outgoing, Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One boot of one executor."""

    app: str
    address: str
    boot_id: str

    @classmethod
    def checked(cls, app: str, address: str, boot_id: str = "") -> Self:
        """Return the identity of this boot, by default of a new one.

        Raises:
            ValueError: `app` or `address` cannot be a name.

        """
        return cls(
            app=check_app(app), address=check_address(address), boot_id=boot_id or new_boot_id()
        )


def new_boot_id() -> str:
    return secrets.token_hex(8)


class Sender:
    """Signs and publishes the messages of one executor. Thread-safe."""

    def __init__(self, identity: Identity, sealer: Sealer, publisher: Publisher) -> None:
        self.identity = identity
        self.publisher = publisher
        self._sealer = sealer

    def seal(
        self,
        message: Message,
        *,
        valid_seconds: float,
        key: str = CALLBACK_KEY,
        durable: bool = False,
    ) -> Outgoing:
        """Return the signed message, ready to publish to the schedulers."""
        return self._sealer.seal(
            message,
            exchange=REPLY_EXCHANGE,
            routing_key=key,
            app=self.identity.app,
            address=self.identity.address,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=valid_seconds,
            durable=durable,
        )

    def send(self, message: Message, *, valid_seconds: float, key: str = CALLBACK_KEY) -> Batch:
        """Publish one message that is useless after `valid_seconds`."""
        return self.publisher.publish([self.seal(message, valid_seconds=valid_seconds, key=key)])
