"""The database's clock, carried by this process's monotonic clock between samples."""

import threading
import time

from sqlalchemy import text
from sqlalchemy.orm import Session

from sql.engine import Database

#: A difference between two samples that is a jump and not a drift.
JUMP_MS = 1_000
#: How often `tick` asks the database.
SAMPLE_SECONDS = 5.0
#: Samples that must agree after a jump before the new time is believed.
AGREEING_SAMPLES = 2

_SQLITE_NOW = "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
_MYSQL_NOW = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)"


class DatabaseClock:
    """The one clock that all schedulers share; sampled at construction and by `tick`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._offset_ms = self._sample()
        self._doubted_ms: float | None = None
        self._agreed = 0
        self.sampled_at = time.monotonic()

    @property
    def is_steady(self) -> bool:
        """Whether the last samples agree; while they do not, nothing may be planned."""
        return self._doubted_ms is None

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        return int(time.monotonic() * 1000 + self._offset_ms)

    def tick(self) -> float:
        """Take a sample; return the seconds until the next one is wanted."""
        offset_ms = self._sample()
        with self._lock:
            self._judge(offset_ms)
            self.sampled_at = time.monotonic()
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
        before = time.monotonic()
        now_ms = self._database.read(database_now_ms)
        return now_ms - (before + time.monotonic()) / 2 * 1000


def database_now_ms(session: Session) -> int:
    """Return the database's clock in epoch milliseconds, UTC."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    return int(session.execute(text(_SQLITE_NOW if sqlite else _MYSQL_NOW)).scalar_one())
