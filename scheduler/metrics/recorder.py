"""Stores what this scheduler has counted; every scheduler adds to the same numbers.

What is counted between the last flush and a kill is lost.
"""

from collections import Counter

from sqlalchemy.orm import Session

from warren.scheduler.metrics.run_counts import RunMetrics
from warren.sql.engine import Database
from warren.sql.instants import MINUTE_MS
from warren.sql.metrics import counts, job_successes
from warren.sql.metrics.counts import CountKey

FLUSH_SECONDS = 5.0
#: How many jobs have metrics of their own, unless the settings say otherwise.
METRICS_JOBS = 1_000
#: How often to choose the jobs that have metrics of their own.
CHOOSE_MS = MINUTE_MS
#: How often to look into their runs, for successes that killed schedulers have counted.
SEARCH_MS = 10 * MINUTE_MS


class MetricsRecorder:
    """The role that stores counts and jobs' last successes.

    Args:
        database: where they are stored.
        metrics: what the other roles have counted.
        jobs_limit: how many jobs have metrics of their own.

    """

    def __init__(self, database: Database, metrics: RunMetrics, *, jobs_limit: int) -> None:
        self._database = database
        self._metrics = metrics
        self._jobs_limit = jobs_limit
        self._pending: Counter[CountKey] = Counter()
        self._successes: dict[int, int] = {}
        self._chosen: frozenset[int] = frozenset()
        self._chosen_at = self._searched_at = 0
        self._searched: set[int] = set()

    def run_round(self, now_ms: int) -> float:
        """Store what was counted since the last round; return the seconds to wait.

        If the database is down, the next round stores it.
        """
        if abs(now_ms - self._chosen_at) >= CHOOSE_MS:
            self._choose()
            self._chosen_at = now_ms
        if abs(now_ms - self._searched_at) >= SEARCH_MS:
            self._searched.clear()
            self._searched_at = now_ms
        self._search(now_ms)
        self.flush()
        return FLUSH_SECONDS

    def flush(self) -> None:
        """Store what was counted and not stored yet."""
        taken = self._metrics.take()
        self._pending.update(taken.numbers())
        of_chosen = taken.successes.keys() & self._chosen
        self._successes |= {job_id: taken.successes[job_id] for job_id in of_chosen}
        if not self._pending and not self._successes:
            return

        def unit(session: Session) -> None:
            counts.add(session, self._pending)
            job_successes.keep(session, self._successes)

        self._database.write(unit)
        self._pending.clear()
        self._successes.clear()

    def _choose(self) -> None:
        read = self._database.read
        chosen = read(lambda session: job_successes.chosen_jobs(session, self._jobs_limit))
        self._chosen = frozenset(chosen)

    def _search(self, now_ms: int) -> None:
        """Look for the last success of jobs that were not chosen before."""
        if wanted := sorted(self._chosen - self._searched):
            successes = self._database.read(
                lambda session: job_successes.found_in_runs(session, wanted, now_ms=now_ms)
            )
            self._successes = successes | self._successes
            self._searched.update(wanted)
