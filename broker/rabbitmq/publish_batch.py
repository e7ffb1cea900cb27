"""The confirms of a batch, collected in the link's thread and awaited in another."""

import threading

from warren.broker.transport import Confirm


class AmqpBatch:
    """Messages given to a publisher. Confirms come only from the link's thread."""

    def __init__(self, size: int) -> None:
        self.is_given_up = False
        self._fates: list[Confirm | None] = [None] * size
        self._left = size
        self._done = threading.Event()
        if not size:
            self._done.set()

    @property
    def is_settled(self) -> bool:
        """Whether every confirm is known."""
        return self._done.is_set()

    def settle(self, index: int, fate: Confirm) -> None:
        """Record one message's confirm."""
        self._fates[index] = fate
        self._left -= 1
        if not self._left:
            self._done.set()

    def wait(self, timeout_seconds: float) -> list[Confirm]:
        """Return each message's confirm; on timeout UNKNOWN, and the rest is not sent any more."""
        if not self._done.wait(timeout_seconds):
            self.is_given_up = True
        return [fate or Confirm.UNKNOWN for fate in self._fates]
