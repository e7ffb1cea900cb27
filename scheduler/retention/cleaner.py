"""Deletes expired runs, in chunks, and records of schedulers that are long gone.

One scheduler at a time does this. Schedule changes and skipped due times are never deleted: they
are few, and the audit computes every due time from them.
"""

import time
from datetime import timedelta

import structlog

from warren.scheduler.retention.clearing import Clearing, StepSize
from warren.scheduler.retention.clearing_criteria import CalendarDays, ClearingCriteria
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, HOUR_MS, at, epoch_ms
from warren.sql.jobs import backfills
from warren.sql.registry import catalogues, presence
from warren.sql.registry.cluster import LeaseHolder

LEASE = "retention"
POLL_SECONDS = 5.0
#: Time between two searches for expired runs.
ROUND_MS = HOUR_MS
#: The wait after a chunk: this many times the chunk's duration, and at least this many seconds.
WAIT_FACTOR, WAIT_SECONDS = 3, 0.1
#: A scheduler silent for this long never comes back: each start has a new name.
SCHEDULER_EXPIRY_MS = DAY_MS
#: Recorded as the user who cleared the runs.
PURGED_BY = "retention"

log = structlog.get_logger()


class Cleaner:
    """Deletes expired runs while this scheduler holds the lease.

    Args:
        node: this scheduler's name.
        database: where runs are stored.
        timezone: IANA name of the zone in which days are counted.
        run_retention_days: whole days that runs are kept, besides today; 0 = forever.
        step_size: how much to do at once.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        timezone: str,
        run_retention_days: int,
        step_size: StepSize | None = None,
    ) -> None:
        self._database = database
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._days = CalendarDays(timezone)
        self._retention = timedelta(days=run_retention_days)
        self._step_size = step_size
        self._clearing: Clearing | None = None
        self._cleared = 0
        self._next_ms = 0

    def run_round(self, now_ms: int) -> float:
        """Delete a chunk if it is time; return the seconds to wait."""
        if not self._lease.take(now_ms):
            self._clearing = None
            return POLL_SECONDS
        if self._clearing is None and 0 < self._next_ms - now_ms <= ROUND_MS:
            return POLL_SECONDS
        began = time.monotonic()
        if self._clearing is None:
            self._begin(now_ms)
        if not self._step(now_ms):
            self._next_ms = now_ms + ROUND_MS
            return POLL_SECONDS
        return min(max(WAIT_SECONDS, WAIT_FACTOR * (time.monotonic() - began)), POLL_SECONDS)

    def leave(self) -> None:
        """Release the lease, so that another scheduler continues at once."""
        self._lease.release()

    def _begin(self, now_ms: int) -> None:
        self._database.write(
            lambda session: presence.forget_schedulers(
                session, before_ms=now_ms - SCHEDULER_EXPIRY_MS
            )
        )
        self._database.write(
            lambda session: catalogues.forget_unused(session, before_ms=now_ms - HOUR_MS)
        )
        if self._retention:
            oldest = self._days.start(self._days.of(at(now_ms)) - self._retention)
            self._database.write(
                lambda session: backfills.forget(session, before_ms=epoch_ms(oldest))
            )
            criteria = ClearingCriteria(before_ms=epoch_ms(oldest))
            self._clearing = Clearing(
                self._database,
                criteria,
                by=PURGED_BY,
                days=self._days,
                now_ms=now_ms,
                step_size=self._step_size,
            )
            self._cleared = 0

    def _step(self, now_ms: int) -> bool:
        """Delete a chunk; return False when nothing is left."""
        if self._clearing is None:
            return False
        cleared = self._clearing.step(now_ms)
        if cleared is not None:
            self._cleared += cleared
            return True
        if self._cleared:
            log.info("runs_cleared", count=self._cleared, days=self._retention.days)
        self._clearing = None
        return False
