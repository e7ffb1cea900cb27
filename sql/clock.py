"""The database's clock, carried by this process's monotonic clock between samples."""

import time
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.orm import Session

from sql.dialects.supported import of
from sql.engine import Database

#: A difference between two samples that is a jump and not a drift.
JUMP_MS = 1_000
#: How often `tick` asks the database.
SAMPLE_SECONDS = 5.0
#: The question is asked again, up to three times, while its answer takes longer than this: the
#: instant it tells lies anywhere between question and answer.
PROMPT_SECONDS = 0.1
QUESTIONS = 3
#: Samples that must agree after a jump before the new time is believed.
AGREEING_SAMPLES = 2


class DatabaseClock:
    """The one clock that all schedulers share; sampled at construction and by `tick`.

    Args:
        database: whose clock it is.
        monotonic: this process's own seconds.

    """

    def __init__(
        self, database: Database, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._offset_ms = self._sample()
        self._doubted_ms: float | None = None
        self._agreed = 0

    @property
    def is_steady(self) -> bool:
        """Whether the last samples agree; while they do not, nothing may be planned."""
        return self._doubted_ms is None

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        return int(self._monotonic() * 1000 + self._offset_ms)

    def tick(self) -> float:
        """Take a sample; return the seconds until the next one is wanted."""
        self._judge(self._sample())
        return SAMPLE_SECONDS if self.is_steady else 1.0

    def _judge(self, offset_ms: float) -> None:
        if abs(offset_ms - self._offset_ms) <= JUMP_MS:
            self._offset_ms, self._doubted_ms = offset_ms, None
            return
        same_doubt = self._doubted_ms is not None and abs(offset_ms - self._doubted_ms) <= JUMP_MS
        self._agreed = self._agreed + 1 if same_doubt else 1
        self._doubted_ms = offset_ms
        if self._agreed > AGREEING_SAMPLES:
            self._offset_ms, self._doubted_ms = offset_ms, None

    def _sample(self) -> float:
        return self._database.read(lambda session: _measure_offset_ms(session, self._monotonic))


def _measure_offset_ms(session: Session, monotonic: Callable[[], float]) -> float:
    """Return the database's clock minus this process's, by the quickest of a few answers."""
    session.connection()  # connecting must not count as part of the answer's time
    shortest, offset_ms = float("inf"), 0.0
    for _ in range(QUESTIONS):
        asked_at = monotonic()
        now_ms = database_now_ms(session)
        answered_at = monotonic()
        if answered_at - asked_at < shortest:
            shortest = answered_at - asked_at
            offset_ms = now_ms - (asked_at + answered_at) / 2 * 1000
        if shortest <= PROMPT_SECONDS:
            break
    return offset_ms


def database_now_ms(session: Session) -> int:
    """Return the database's clock in epoch milliseconds, UTC."""
    return int(session.execute(text(f"SELECT {of(session).now_ms}")).scalar_one())
