"""Heartbeats, on a thread and a connection of their own, so that nothing delays them."""

import threading
from collections.abc import Callable

import structlog

from broker.messages import Heartbeat
from broker.topology import HEARTBEAT_KEY
from broker.transport import Confirm
from executor.messaging.signed_sender import Sender

#: Between two heartbeats: normally, and while the executor is not welcomed or gets no answer.
BEAT_SECONDS = 5.0
UNANSWERED_BEAT_SECONDS = 1.0
#: How long to wait for the broker's confirm.
CONFIRM_SECONDS = 5.0
#: How long a heartbeat is valid; before the welcome the clocks may differ by minutes.
VALID_SECONDS = 60.0
UNWELCOMED_VALID_SECONDS = 600.0
#: How long to wait for the thread to end: it may be waiting for the broker's confirm.
JOIN_SECONDS = 1.0


class HeartbeatThread:
    """The thread that sends heartbeats; `compose` returns the current one.

    `on_answered(sent_at)` is called from the thread with the monotonic time of each heartbeat that
    the broker confirmed or returned: both prove that it answers.
    """

    def __init__(
        self,
        sender: Sender,
        compose: Callable[[], Heartbeat],
        on_answered: Callable[[float], None],
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
        *,
        beat_seconds: float = BEAT_SECONDS,
        unanswered_beat_seconds: float = UNANSWERED_BEAT_SECONDS,
    ) -> None:
        self._sender = sender
        self._compose = compose
        self._on_answered = on_answered
        self._monotonic = monotonic
        self._log = log
        self._beat_seconds = beat_seconds
        self._unanswered_beat_seconds = unanswered_beat_seconds
        self._wake = threading.Event()
        self._is_closed = False
        self._is_welcome = False
        name = f"heartbeat {sender.identity.address}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start sending heartbeats, the first one now."""
        self._thread.start()

    def welcome(self) -> None:
        """Send heartbeats at the normal interval from now on."""
        self._is_welcome = True

    def beat_now(self) -> None:
        """Send a heartbeat now."""
        self._wake.set()

    def close(self) -> None:
        """Stop; no heartbeat is sent after this returns."""
        self._is_closed = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        while True:
            # In this order: a close after this check sets the event, so the wait below returns.
            self._wake.clear()
            if self._is_closed:
                return
            try:
                was_heard = self._beat()
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("heartbeat_failed")
                was_heard = False
            calm = was_heard and self._is_welcome
            self._wake.wait(self._beat_seconds if calm else self._unanswered_beat_seconds)

    def _beat(self) -> bool:
        sent_at = self._monotonic()
        batch = self._sender.send(
            self._compose(),
            key=HEARTBEAT_KEY,
            valid_seconds=VALID_SECONDS if self._is_welcome else UNWELCOMED_VALID_SECONDS,
        )
        was_heard = batch.wait(CONFIRM_SECONDS)[0] is not Confirm.UNKNOWN
        if was_heard:
            self._on_answered(sent_at)
        return was_heard
