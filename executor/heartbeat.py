"""Signs of life, on a thread and a connection of their own, so that nothing delays them."""

import threading
from collections.abc import Callable

import structlog

from broker.messages import Heartbeat
from broker.topology import HEARTBEAT_KEY
from broker.transport import Confirm
from executor.sender import Sender

#: Between two heartbeats of a welcomed executor, and of one that is not or was not heard.
BEAT_SECONDS = 5.0
ANXIOUS_SECONDS = 1.0
#: How long to wait for the broker's word.
CONFIRM_SECONDS = 5.0
#: How long a heartbeat is good for: before the welcome the clocks may differ by minutes.
VALID_SECONDS = 60.0
STRANGER_VALID_SECONDS = 600.0
#: How long to wait for the thread to end: at worst it waits for the broker's word.
JOIN_SECONDS = 1.0


class Pulse:
    """The thread. `compose` gives the heartbeat of now.

    `on_answered(sent_at)` is told, in the thread, the monotonic time of each heartbeat that the
    broker took: confirmed or returned, both prove that it answers.
    """

    def __init__(
        self,
        sender: Sender,
        compose: Callable[[], Heartbeat],
        on_answered: Callable[[float], None],
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._sender = sender
        self._compose = compose
        self._on_answered = on_answered
        self._monotonic = monotonic
        self._log = log
        self._wake = threading.Event()
        self._is_closed = False
        self._is_welcome = False
        name = f"heartbeat {sender.identity.address}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to beat, at once."""
        self._thread.start()

    def welcome(self) -> None:
        """Beat calmly from now on."""
        self._is_welcome = True

    def beat_now(self) -> None:
        """Beat at once, whatever the time."""
        self._wake.set()

    def close(self) -> None:
        """Beat no more; no heartbeat leaves after this returns."""
        self._is_closed = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        while True:
            # In this order: a close after the look sets what the wait below looks at.
            self._wake.clear()
            if self._is_closed:
                return
            try:
                was_heard = self._beat()
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("heartbeat_failed")
                was_heard = False
            calm = was_heard and self._is_welcome
            self._wake.wait(BEAT_SECONDS if calm else ANXIOUS_SECONDS)

    def _beat(self) -> bool:
        sent_at = self._monotonic()
        batch = self._sender.send(
            self._compose(),
            key=HEARTBEAT_KEY,
            valid_seconds=VALID_SECONDS if self._is_welcome else STRANGER_VALID_SECONDS,
        )
        was_heard = batch.wait(CONFIRM_SECONDS)[0] is not Confirm.UNKNOWN
        if was_heard:
            self._on_answered(sent_at)
        return was_heard
