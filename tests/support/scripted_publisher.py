"""A publisher whose broker follows a script; it stores what is published."""

import threading
from collections import deque
from collections.abc import Sequence

from warren.broker.transport import Confirm, Outgoing


class ScriptedBatch:
    """Confirms known from the start; `gate` can delay `wait`."""

    def __init__(self, fates: list[Confirm], gate: threading.Event) -> None:
        self._fates = fates
        self._gate = gate

    @property
    def is_settled(self) -> bool:
        return self._gate.is_set()

    def wait(self, timeout_seconds: float) -> list[Confirm]:
        if not self._gate.wait(timeout_seconds):
            return [Confirm.UNKNOWN] * len(self._fates)
        return self._fates


class ScriptedPublisher:
    """Each publish takes the next entry of `script`, one confirm per message; then CONFIRMED."""

    def __init__(self, *script: Sequence[Confirm]) -> None:
        self.rounds: list[list[Outgoing]] = []
        self.script = deque(script)
        self.gate = threading.Event()
        self.gate.set()
        self.is_ready = True

    @property
    def sent(self) -> list[Outgoing]:
        return [message for messages in list(self.rounds) for message in messages]

    def publish(self, messages: Sequence[Outgoing]) -> ScriptedBatch:
        fates = list(self.script.popleft()) if self.script else []
        fates += [Confirm.CONFIRMED] * (len(messages) - len(fates))
        self.rounds.append(list(messages))
        return ScriptedBatch(fates[: len(messages)], self.gate)

    def close(self) -> None:
        self.is_ready = False
