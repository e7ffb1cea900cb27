"""Whether a database is lost, for those who would rather hear so at once than wait for it."""

import threading
from collections.abc import Callable

from sql.errors import DatabaseUnavailable

#: How often a lost database is asked whether it is back.
ASK_SECONDS = 0.5


class Outage:
    """From the first failure on nobody waits, but for one thread that asks until it has an answer.

    Args:
        ask: asks the database anything; raises when there is no answer.

    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._words: str | None = None

    def check(self) -> None:
        """Do nothing while the database is there.

        Raises:
            DatabaseUnavailable: it is lost; the words are those of its loss.

        """
        words = self._words
        if words is not None:
            raise DatabaseUnavailable(words)

    def begin(self, error: DatabaseUnavailable) -> None:
        """Take the database for lost, until it answers again."""
        with self._lock:
            if self._words is not None or self._closing.is_set():
                return
            self._words = str(error)
            threading.Thread(target=self._watch, name="lost database", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(ASK_SECONDS):
            try:
                self._ask()
            except Exception:  # noqa: BLE001, S112 - whatever it is, there was no answer
                continue
            break
        self._words = None
