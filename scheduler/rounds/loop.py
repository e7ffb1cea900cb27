"""A role's thread: it runs round after round; each round returns when the next is due."""

import threading
import time
from collections.abc import Callable, Iterable

import structlog

#: No role with something to do sleeps longer than this, so wake-ups may be lost without harm.
LONGEST_SECONDS = 0.5
#: How long a role with nothing to do sleeps unless something wakes it.
NAP_SECONDS = 5.0
#: How long a role waits after a failed round, at first and at most.
BACKOFF_SECONDS = (0.1, 2.0)

log = structlog.get_logger()


class WakeUp(threading.Event):
    """Asks a role for a round, and remembers when it last did, by `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self.asked_at = float("-inf")

    def set(self) -> None:
        """Ask for a round now."""
        self.asked_at = self._clock()
        super().set()


class JobWatch:
    """Wakes a role when runs of the jobs end that it waits for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.awake = WakeUp(clock)
        self.job_ids: frozenset[int] = frozenset()

    def hear(self, ended: Iterable[int]) -> None:
        """Note the jobs of runs that have ended."""
        if self.job_ids and not self.job_ids.isdisjoint(ended):
            self.awake.set()


class Loop:
    """Calls `run_round` until stopped; after a failed round it logs, waits and tries again.

    Args:
        name: the role's name, for the thread and the log.
        run_round: one round; returns the seconds until the next one is wanted.
        longest_seconds: the longest wait between two rounds.
        awake: when set, asks for a round now; None = the loop makes its own.
        on_stop: ends a wait within a round.

    """

    def __init__(
        self,
        name: str,
        run_round: Callable[[], float],
        *,
        longest_seconds: float = LONGEST_SECONDS,
        awake: WakeUp | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._on_stop = on_stop
        self.failing = False
        #: When the last round succeeded, by `time.monotonic`.
        self.succeeded_at = float("-inf")
        self._run_round = run_round
        self._longest = longest_seconds
        self._awake = awake or WakeUp()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Ask for a round now."""
        self._awake.set()

    def stop(self) -> None:
        """Ask for no further round."""
        self._stopping.set()
        self._awake.set()
        self._on_stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the current round; True when the thread has ended, or never started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        backoff = BACKOFF_SECONDS[0]
        while not self._stopping.is_set():
            self._awake.clear()
            wait_seconds = self._round()
            if wait_seconds is None:
                wait_seconds, backoff = backoff, min(backoff * 2, BACKOFF_SECONDS[1])
                self._stopping.wait(wait_seconds)
                continue
            backoff = BACKOFF_SECONDS[0]
            if wait_seconds > 0:
                self._awake.wait(min(wait_seconds, self._longest))

    def _round(self) -> float | None:
        try:
            wait_seconds = self._run_round()
        except Exception as error:  # noqa: BLE001 - the top of a role's loop
            self._report(error)
            return None
        if self.failing:
            log.info("role_recovered", role=self.name)
        self.failing = False
        self.succeeded_at = time.monotonic()
        return wait_seconds

    def _report(self, error: Exception) -> None:
        # Once in full, then in one line: a database away for an hour must not fill the disk.
        known = self.failing
        self.failing = True
        log.warning("role_failed", role=self.name, error=str(error), exc_info=not known)
