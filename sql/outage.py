"""Remembers that a database is unavailable, so that callers fail at once instead of waiting."""

import threading
from collections.abc import Callable

from warren.sql.errors import DatabaseUnavailable

#: Time between two attempts to reach an unavailable database.
ASK_SECONDS = 0.5


class Outage:
    """After the first failure, callers fail at once, while one thread tries to reach the database.

    Args:
        ask: executes any query; raises if the database does not answer.

    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._words: str | None = None

    def check(self) -> None:
        """Do nothing while the database is available.

        Raises:
            DatabaseUnavailable: it is not; the message is that of the first failure.

        """
        words = self._words
        if words is not None:
            raise DatabaseUnavailable(words)

    def begin(self, error: DatabaseUnavailable) -> None:
        """Consider the database unavailable until it answers again."""
        with self._lock:
            if self._words is not None or self._closing.is_set():
                return
            self._words = str(error)
            threading.Thread(target=self._watch, name="lost database", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that tries to reach the database."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(ASK_SECONDS):
            try:
                self._ask()
            except Exception:  # noqa: BLE001, S112 - any error means that there was no answer
                continue
            break
        self._words = None
