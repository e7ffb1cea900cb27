"""Shows addresses that are not allowed here in the list of executors, so that somebody acts.

Each has the heartbeats of a boot that takes nothing, for as long as it registers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from warren.broker.messages import Heartbeat, Load
from warren.broker.topology import HEARTBEAT_KEY
from warren.executor.gateway.remote_slots import REGISTERED_SECONDS
from warren.executor.messaging.heartbeat import BEAT_SECONDS, UNWELCOMED_VALID_SECONDS
from warren.executor.messaging.outbox import Sender

#: The most that are shown: whoever has an app's token can register any.
LIMIT = 20


@dataclass(slots=True)
class _Refused:
    """One address; times are monotonic seconds."""

    sender: Sender
    until: float
    beat_at: float = 0.0


class RefusedAddresses:
    """The addresses by app. `make_sender(app, address)` returns the sender of a new boot."""

    def __init__(self, make_sender: Callable[[str, str], Sender]) -> None:
        self._make_sender = make_sender
        self._shown: dict[tuple[str, str], _Refused] = {}

    def note(self, app: str, address: str) -> None:
        """Show an address that registers, or go on showing it."""
        until = time.monotonic() + REGISTERED_SECONDS
        if (app, address) in self._shown:
            self._shown[app, address].until = until
        elif len(self._shown) < LIMIT:
            self._shown[app, address] = _Refused(self._make_sender(app, address), until)

    def forget(self, app: str, address: str) -> None:
        """Let an address go offline, which has signed off."""
        self._shown.pop((app, address), None)

    def run_round(self) -> None:
        """Send the heartbeats that are due."""
        now = time.monotonic()
        for key, refused in list(self._shown.items()):
            if refused.until <= now:
                self.forget(*key)
            elif refused.sender.publisher.is_ready and now - refused.beat_at >= BEAT_SECONDS:
                refused.beat_at = now
                _beat(refused)


def _beat(refused: _Refused) -> None:
    who = refused.sender.identity
    beat = Heartbeat(
        app=who.app,
        address=who.address,
        boot_id=who.boot_id,
        started_at_ms=int(time.time() * 1000),
        load=Load(),
        draining=True,
        is_refused=True,
        last_run_id=0,
    )
    refused.sender.send(beat, key=HEARTBEAT_KEY, valid_seconds=UNWELCOMED_VALID_SECONDS)
