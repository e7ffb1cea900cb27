"""What an executor says, sealed in its name."""

from dataclasses import dataclass

from broker.messages import Message
from broker.signing import Direction, Sealer
from broker.topology import CALLBACK_KEY, REPLY_EXCHANGE
from broker.transport import Batch, Outgoing, Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which boot of which executor speaks."""

    app: str
    address: str
    boot_id: str


class Sender:
    """Seals messages of one executor for one publisher. Thread-safe."""

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
        """Return the message ready to publish to the schedulers."""
        return self._sealer.seal(
            message,
            exchange=REPLY_EXCHANGE,
            routing_key=key,
            address=self.identity.address,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=valid_seconds,
            durable=durable,
        )

    def send(self, message: Message, *, valid_seconds: float, key: str = CALLBACK_KEY) -> Batch:
        """Publish one message that is of no use after `valid_seconds`."""
        return self.publisher.publish([self.seal(message, valid_seconds=valid_seconds, key=key)])
