"""Reports the progress of runs to the schedulers: one message a second, which may get lost."""

from collections.abc import Callable

from warren.broker.messages.to_scheduler import PROGRESS_LIMIT, Progressed
from warren.broker.messages.values import Progress
from warren.executor.messaging.signed_sender import Sender

#: The time between two messages, and from a run's first report to its first message: until then
#: the schedulers may not know that it is running, and would ignore it.
SECONDS, FIRST_SECONDS = 1.0, 1.5
#: How long a message is valid: later ones replace it.
VALID_SECONDS = 10.0


class ProgressReports:
    """The latest progress of this boot's runs. Used from the core's thread."""

    def __init__(self, sender: Sender, monotonic: Callable[[], float]) -> None:
        self._sender = sender
        self._monotonic = monotonic
        self._first_at: dict[int, float] = {}
        self._changed: dict[int, Progress] = {}
        self._sent_at = -SECONDS

    def note(self, run_id: int, progress: Progress) -> None:
        """Remember how far a run is."""
        self._first_at.setdefault(run_id, self._monotonic())
        self._changed[run_id] = progress

    def forget(self, run_id: int) -> None:
        """Forget a run that has ended."""
        self._first_at.pop(run_id, None)
        self._changed.pop(run_id, None)

    def send_due(self) -> None:
        """Send what has changed, if it is time."""
        now = self._monotonic()
        if not self._changed or now - self._sent_at < SECONDS:
            return
        old = [run_id for run_id in self._changed if now - self._first_at[run_id] >= FIRST_SECONDS]
        if not old:
            return
        runs = {run_id: self._changed.pop(run_id) for run_id in old[:PROGRESS_LIMIT]}
        self._sent_at = now
        who = self._sender.identity
        message = Progressed(app=who.app, address=who.address, boot_id=who.boot_id, runs=runs)
        self._sender.send(message, valid_seconds=VALID_SECONDS)
