"""Sends commands to boots of executors.

Commands are not durable: the role that sends one repeats it until it sees the effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren.broker import topology
from warren.broker.messages import Boot, Command
from warren.broker.signing import Direction, Sealer
from warren.broker.transport import Batch, Outgoing, Publisher

#: How long a command is valid, by default.
VALID_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedCommand:
    """A command, and the boot that it is for."""

    boot: Boot
    message: Command
    valid_seconds: float = VALID_SECONDS


class CommandSender:
    """Publishes commands; any role may use it."""

    def __init__(self, publisher: Publisher, sealer: Sealer) -> None:
        self._publisher = publisher
        self._sealer = sealer

    @property
    def is_ready(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, commands: Sequence[AddressedCommand]) -> Batch:
        """Publish commands; the returned batch has their confirms, in the same order."""
        return self._publisher.publish([self._seal(command) for command in commands])

    def _seal(self, command: AddressedCommand) -> Outgoing:
        return self._sealer.seal(
            command.message,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.command_queue(*command.boot).name,
            app=command.boot.app,
            address=command.boot.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=command.valid_seconds,
            durable=False,
        )
