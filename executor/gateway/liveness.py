"""Whether a remote executor may be given runs: it registers, answers, and has not signed off."""

from collections.abc import Callable

from warren.broker.reasons.codes import Why
from warren.broker.reasons.reason import Reason

#: After this long without a registration it is away; executors register every 10 to 30 s.
REGISTERED_SECONDS = 90.0
#: After this many unanswered beats in a row it is away.
MISSES = 3
#: A clock may stand still between two looks.
_AT_ONCE_SECONDS = 0.001


class Liveness:
    """What is known of one remote executor. Used from one thread; `now` gives monotonic seconds."""

    def __init__(self, url: str, now: Callable[[], float]) -> None:
        self._url = url
        self._now = now
        self._expected_until = now() + REGISTERED_SECONDS
        self._has_signed_off = False
        self._misses = 0

    @property
    def away(self) -> Reason | None:
        """Why it gets no runs; None if it does."""
        if self._has_signed_off:
            return Why.REMOTE_SIGNED_OFF(url=self._url)
        if self.is_gone:
            return Why.REMOTE_UNREGISTERED(url=self._url)
        return Why.REMOTE_SILENT(url=self._url) if self._misses >= MISSES else None

    @property
    def is_gone(self) -> bool:
        """Whether it has signed off, or has not registered for REGISTERED_SECONDS."""
        return self.gone_seconds > 0

    @property
    def gone_seconds(self) -> float:
        """For how long it has been gone; 0 if it is there."""
        return max(0.0, self._now() - self._expected_until)

    def register(self) -> None:
        """Note that it registered."""
        self._expected_until = self._now() + REGISTERED_SECONDS
        self._has_signed_off = False

    def sign_off(self) -> None:
        """Note that it signed off."""
        self._expected_until = min(self._expected_until, self._now() - _AT_ONCE_SECONDS)
        self._has_signed_off = True

    def answered(self) -> None:
        """Note that it answered."""
        self._misses = 0

    def missed(self) -> None:
        """Note that it did not answer a beat."""
        self._misses += 1

    def refused(self) -> None:
        """Note that it refused a connection: it is away until it answers."""
        self._misses = max(self._misses, MISSES)
