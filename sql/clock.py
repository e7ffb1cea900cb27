"""The database's clock: sampled every few seconds, and extrapolated by the monotonic clock."""

from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of
from warren.sql.engine import Database

#: A larger difference between two samples is a jump, not drift.
JUMP_MS = 1_000
#: Time between two samples.
SAMPLE_SECONDS = 5.0
#: A slower answer is too inexact, because its instant may be anywhere between query and answer; the
#: query is then repeated, up to MAX_QUERIES in all.
PROMPT_SECONDS = 0.1
MAX_QUERIES = 3
#: Samples that must agree after a jump before the new time is used.
AGREEING_SAMPLES = 2


class DatabaseClock:
    """The clock that all schedulers share; sampled at construction and by `run_round`.

    Args:
        database: the database with the clock.
        monotonic: seconds that never jump, and also pass while the host is suspended.

    """

    def __init__(self, database: Database, *, monotonic: Callable[[], float]) -> None:
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
        """Return the time in epoch milliseconds."""
        return int(self._monotonic() * 1000 + self._offset_ms)

    def run_round(self) -> float:
        """Take a sample; return the seconds until the next one."""
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
        offset_ms, server = self._database.read(
            lambda session: _measure_offset_ms(session, self._monotonic)
        )
        # A proxy may have moved an open connection.
        self._database.meet_server(server)
        return offset_ms


def _measure_offset_ms(session: Session, monotonic: Callable[[], float]) -> tuple[float, str]:
    """Return the database's clock minus this process's, from the fastest of a few answers.

    With it comes the number of the server that answered.
    """
    session.connection()  # connect first, so that this does not count as answer time
    shortest, offset_ms, server = float("inf"), 0.0, ""
    ask = text(f"SELECT {of(session).now_ms}, {of(session).server_number}")
    for _ in range(MAX_QUERIES):
        asked_at = monotonic()
        now_ms, server = session.execute(ask).one()
        answered_at = monotonic()
        if answered_at - asked_at < shortest:
            shortest = answered_at - asked_at
            offset_ms = int(now_ms) - (asked_at + answered_at) / 2 * 1000
        if shortest <= PROMPT_SECONDS:
            break
    return offset_ms, str(server)


def database_now_ms(session: Session) -> int:
    """Return the time of the database's clock in epoch milliseconds."""
    return int(session.execute(text(f"SELECT {of(session).now_ms}")).scalar_one())
