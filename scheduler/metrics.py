"""Metrics: ended runs and skipped due times are counted in memory, by app, and stored now and then.

Every scheduler adds what it has counted to the same numbers. What is counted between the last flush
and a kill is lost.
"""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.sql import metrics
from warren.sql.engine import Database
from warren.sql.instants import MINUTE_MS
from warren.sql.metrics import ABOVE, DURATION_BOUNDS_MS, LATENESS_BOUNDS_MS, SUM, Counted, CountKey
from warren.sql.run_status import RunStatus


class Ended(NamedTuple):
    """A run that ended, with what is counted; `due_at` is None if that is not known."""

    app_id: int
    job_id: int
    status: RunStatus
    due_at: int | None
    started_at: int | None
    finished_at: int


class _Histogram:
    """Values in milliseconds by bucket, and their sum."""

    __slots__ = ("_bounds_ms", "_counts", "_sum_ms")

    def __init__(self, bounds_ms: Sequence[int]) -> None:
        self._bounds_ms = bounds_ms
        self._counts = [0] * (len(bounds_ms) + 1)
        self._sum_ms = 0

    def observe(self, value_ms: int) -> None:
        """Add a value; a negative one, from differing clocks, counts as 0."""
        value_ms = max(value_ms, 0)
        self._counts[bisect_left(self._bounds_ms, value_ms)] += 1
        self._sum_ms += value_ms

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yield the numbers that are not 0, with their labels."""
        labels = (*map(str, self._bounds_ms), ABOVE)
        for label, count in zip(labels, self._counts, strict=True):
            if count:
                yield label, count
        if self._sum_ms:
            yield SUM, self._sum_ms


class _AppCounts:
    __slots__ = ("duration", "lateness", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[RunStatus, int] = defaultdict(int)
        self.duration = _Histogram(DURATION_BOUNDS_MS)
        self.lateness = _Histogram(LATENESS_BOUNDS_MS)


class RunCounts:
    """Counts since the last flush; not thread-safe.

    Attributes:
        successes: when a run of a job last succeeded, by job id.

    """

    def __init__(self) -> None:
        self.successes: dict[int, int] = {}
        self._apps: dict[int, _AppCounts] = defaultdict(_AppCounts)
        self._skips: Counter[int] = Counter()

    def add(self, ended: Iterable[Ended]) -> None:
        """Count runs that ended. The duration of a LOST one is unknown."""
        for app_id, job_id, status, due_at, started_at, finished_at in ended:
            counts = self._apps[app_id]
            counts.statuses[status] += 1
            if status is RunStatus.SUCCEEDED:
                self.successes[job_id] = finished_at
            if started_at is None:
                continue
            if status is not RunStatus.LOST:
                counts.duration.observe(finished_at - started_at)
            if due_at is not None:
                counts.lateness.observe(started_at - due_at)

    def skip(self, skipped: Mapping[int, int]) -> None:
        """Count skipped due times, by app id."""
        self._skips.update(skipped)

    def numbers(self) -> dict[CountKey, int]:
        """Return what to add to the stored numbers."""
        return dict(self._numbers())

    def _numbers(self) -> Iterator[tuple[CountKey, int]]:
        for app_id, of_app in self._apps.items():
            for status, count in of_app.statuses.items():
                yield CountKey(Counted.RUNS, app_id, status.value), count
            for label, count in of_app.duration.numbers():
                yield CountKey(Counted.DURATION, app_id, label), count
            for label, count in of_app.lateness.numbers():
                yield CountKey(Counted.LATENESS, app_id, label), count
        for app_id, count in self._skips.items():
            yield CountKey(Counted.SKIPS, app_id), count


class RunMetrics:
    """What one scheduler has counted but not stored yet; its roles add after their commits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = RunCounts()

    def add(self, ended: Iterable[Ended]) -> None:
        """Count runs whose end is committed."""
        with self._lock:
            self._counts.add(ended)

    def skip(self, skipped: Mapping[int, int]) -> None:
        """Count skipped due times whose record is committed, by app id."""
        if skipped:
            with self._lock:
                self._counts.skip(skipped)

    def take(self) -> RunCounts:
        """Return what was counted since the last call."""
        with self._lock:
            taken, self._counts = self._counts, RunCounts()
        return taken


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
            metrics.add(session, self._pending)
            metrics.keep_successes(session, self._successes)

        self._database.write(unit)
        self._pending.clear()
        self._successes.clear()

    def _choose(self) -> None:
        read = self._database.read
        chosen = read(lambda session: metrics.chosen_jobs(session, self._jobs_limit))
        self._chosen = frozenset(chosen)

    def _search(self, now_ms: int) -> None:
        """Look for the last success of jobs that were not chosen before."""
        if wanted := sorted(self._chosen - self._searched):
            successes = self._database.read(
                lambda session: metrics.last_successes_in_runs(session, wanted, now_ms=now_ms)
            )
            self._successes = successes | self._successes
            self._searched.update(wanted)
