"""Computes tallies in the background, one job at a time, and keeps them for a while.

A tally takes time in proportion to its job's ticks, too long for a page. So a page shows what is
known, and how old that is. One thread works while there is something to do, in stretches of up to a
day. Each is a short transaction, followed by a pause as long as it took, because pages come first.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.audit.integrity_check import audit_job
from warren.scheduler.audit.tally import JobTally
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.listings import ledger
from warren.sql.listings.ledger import SkippedFor

#: How much time one transaction covers: at first, and at most. A day of a job that is due each
#: second took 4.6 s on a busy machine, and the console limits transactions to 5 s.
INITIAL_STRETCH_MS, MAX_STRETCH_MS = 6 * HOUR_MS, DAY_MS
#: A faster stretch is followed by one twice as long, a slower one by one of the first length.
QUICK_SECONDS, SLOW_SECONDS = 0.2, 1.0
#: How long a tally is used before it is computed again, and how many are kept.
FRESH_MS = 60_000
KEPT = 1_000
#: The most tallies in the queue; the oldest is dropped first.
WAITING = 100
MAX_REST_SECONDS = 1.0

log = structlog.get_logger()


class TallyKey(NamedTuple):
    """One job's tally for the due times in (after, until]; `until_ms` None = up to now."""

    job_id: int
    after_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTally:
    """A tally and why due times were skipped, as of `at_ms`; None = computing it failed."""

    at_ms: int
    tally: JobTally | None
    reasons: dict[Explanation, SkippedFor]


class TallyCache:
    """Returns cached tallies and computes the others in the background; thread-safe.

    Args:
        database: where runs, skips and history are.
        now_ms: the database's clock.
        timezone: of jobs that name none.
        kept: the most tallies that are kept.
        waiting: the most tallies in the queue.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        timezone: Callable[[], str],
        *,
        kept: int = KEPT,
        waiting: int = WAITING,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._timezone = timezone
        self._kept_limit = kept
        self._waiting_limit = waiting
        self._lock = threading.Lock()
        self._known: OrderedDict[TallyKey, CachedTally] = OrderedDict()
        self._waiting: OrderedDict[TallyKey, None] = OrderedDict()
        self._is_working = False

    def ask(self, keys: Iterable[TallyKey]) -> dict[TallyKey, CachedTally | None]:
        """Return what is cached; missing and stale tallies are computed for a later call."""
        now_ms = self._now_ms()
        with self._lock:
            answers = {key: self._known.get(key) for key in keys}
            for key, cached in answers.items():
                if cached is None or now_ms - cached.at_ms > FRESH_MS:
                    self._waiting.setdefault(key)
            while len(self._waiting) > self._waiting_limit:
                self._waiting.popitem(last=False)
            if self._waiting and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="tally cache", daemon=True).start()
        return answers

    def _work(self) -> None:
        while (key := self._next()) is not None:
            try:
                cached = self._compute(key)
            except Exception as error:  # noqa: BLE001 - the top of a loop
                log.warning("tally_not_computed", job_id=key.job_id, error=str(error))
                cached = CachedTally(at_ms=self._now_ms(), tally=None, reasons={})
            with self._lock:
                self._known[key] = cached
                self._waiting.pop(key, None)
                while len(self._known) > self._kept_limit:
                    self._known.popitem(last=False)

    def _next(self) -> TallyKey | None:
        with self._lock:
            key = next(iter(self._waiting), None)
            self._is_working = key is not None
            return key

    def _compute(self, key: TallyKey) -> CachedTally:
        now_ms = self._now_ms()
        until_ms = now_ms if key.until_ms is None else min(key.until_ms, now_ms)
        tally = self._tally(key.job_id, key.after_ms, until_ms)
        reasons = self._database.read(
            lambda session: ledger.skip_reasons(session, key.job_id, (key.after_ms, until_ms))
        )
        return CachedTally(at_ms=now_ms, tally=tally, reasons=reasons)

    def _tally(self, job_id: int, start_ms: int, until_ms: int) -> JobTally | None:
        whole: JobTally | None = None
        length_ms = INITIAL_STRETCH_MS
        while start_ms < until_ms:
            end_ms = min(start_ms + length_ms, until_ms)
            began = time.monotonic()
            part = self._stretch(job_id, (start_ms, end_ms))
            spent = time.monotonic() - began
            if part is None:
                return None
            if whole is None:
                whole = part
            else:
                whole.merge(part)
            start_ms = end_ms
            length_ms = _next_length_ms(length_ms, spent)
            time.sleep(min(spent, MAX_REST_SECONDS))
        return whole

    def _stretch(self, job_id: int, bounds: tuple[int, int]) -> JobTally | None:
        def read(session: Session) -> JobTally | None:
            return audit_job(session, job_id, bounds, self._timezone())

        return self._database.read(read)


def _next_length_ms(length_ms: int, spent_seconds: float) -> int:
    if spent_seconds > SLOW_SECONDS:
        return INITIAL_STRETCH_MS
    return min(length_ms * 2, MAX_STRETCH_MS) if spent_seconds < QUICK_SECONDS else length_ms
