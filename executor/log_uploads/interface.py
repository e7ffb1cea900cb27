"""What an executor's core knows of its uploads; nothing of them is loaded without a log store."""

from typing import Protocol

from warren.broker.messages import LogPlaces, Trigger


class LogFollower(Protocol):
    """Prints what runs write; `LogPrinter` does."""

    def begin(self, trigger: Trigger) -> None:
        """Follow the log of a run that starts."""

    def end(self, trigger: Trigger) -> None:
        """Print what is left of the log of a run that has ended."""

    def close(self) -> None:
        """Print what is left, for a moment."""


class LogKeeper(Protocol):
    """Stores logs in the background; `LogUploads` does."""

    @property
    def count(self) -> int:
        """How many logs wait."""

    @property
    def is_storing(self) -> bool:
        """Whether logs wait, and are being stored at present."""

    @property
    def fault(self) -> str:
        """Why logs do not get into the store; "" if they do."""

    def told(self) -> None:
        """Note that a scheduler has a log store."""

    def begin(self, trigger: Trigger) -> None:
        """Note that a run starts."""

    def end(self, trigger: Trigger, *, has_log: bool) -> None:
        """Note that a run has ended."""

    def take(self, message: LogPlaces) -> None:
        """Take the schedulers' answer."""

    def close(self) -> None:
        """Leave the rest to the next boot."""
