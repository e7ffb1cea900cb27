"""Everything that the dashboard shows except the chart of days.

Caches counts that take long, such as those of 100,000 jobs.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.admin_web.charts import upcoming_ticks
from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.visitors import Visitor
from warren.scheduler.views.process_view import ExecutorView, NodeView, executor_views, node_view
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.listings import dashboard, next_ticks
from warren.sql.listings.next_ticks import NextTicks
from warren.sql.listings.run_messages import RunLine
from warren.sql.registry import presence
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts

#: How long a count is used.
FRESH_SECONDS = 5.0
#: Sets of apps in the cache at most.
REMEMBERED = 200

Apps = frozenset[int] | None
Counted = TypeVar("Counted")


class CachedCounts(Generic[Counted]):
    """Caches the last count for each set of apps; thread-safe.

    Args:
        count: counts for a set of apps, None = all.
        monotonic: monotonic seconds.

    """

    def __init__(
        self,
        count: Callable[[Session, Apps], Counted],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._monotonic = monotonic
        self._known: dict[Apps, tuple[float, Counted]] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, app_ids: Apps) -> Counted:
        """Return the count for a set of apps; at most FRESH_SECONDS old."""
        # Under the lock, so that only one of many simultaneous requests counts.
        with self._lock:
            now = self._monotonic()
            known = self._known.get(app_ids)
            if known is not None and now - known[0] < FRESH_SECONDS:
                return known[1]
            counted = self._count(session, app_ids)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[app_ids] = now, counted
            return counted


LINES = 8
#: Failures that are read; several may be of the same job.
FAILED_LINES = 60
#: Jobs whose ticks of the next hour are all counted; of others, only the next one.
COUNTED = 100
#: How far back failures are shown, and how far ahead due times.
FAILURES_MS = 7 * DAY_MS
AHEAD_MS = HOUR_MS


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late runs began, in milliseconds: median, 95th percentile and maximum of `runs` runs."""

    runs: int
    middle: int
    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class FailedJob:
    """The last failure of a job, and how many of the failures that were read are of this job."""

    run: RunLine
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The dashboard's data; `today` is None until the day has been counted."""

    now_ms: int
    jobs: int
    enabled: int
    today: Counts | None
    executors: list[ExecutorView]
    schedulers: list[NodeView]
    is_broker_up: bool
    running: list[RunLine]
    failed: list[FailedJob]
    next_ticks: NextTicks
    #: How many ticks are due in each minute from now; `are_all_ticks` is False if of some jobs only
    #: the next one is counted.
    ticks: Counter[int]
    are_all_ticks: bool
    lateness: Lateness | None

    def alive(self, processes: Sequence[ExecutorView | NodeView]) -> int:
        """Return how many processes are online."""
        return sum(process.is_online for process in processes)


class OverviewReader:
    """Reads the dashboard's data for a visitor, with short queries only."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._jobs = CachedCounts(dashboard.job_counts)

    def read(self, session: Session, known: Visitor) -> Overview:
        """Return the state of the visitor's apps."""
        now_ms, apps = self._services.now_ms(), known.app_ids
        today = self.today(now_ms)
        jobs, enabled = self._jobs.of(session, apps)
        schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        ahead = next_ticks.read(
            session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=COUNTED
        )
        failed = dashboard.failed(session, apps, since_ms=now_ms - FAILURES_MS, limit=FAILED_LINES)
        return Overview(
            now_ms=now_ms,
            jobs=jobs,
            enabled=enabled,
            today=day_reports.of_days(session, apps, today, today).get(today),
            executors=executor_views(dashboard.executors(session, apps), {}, now_ms),
            schedulers=[node_view(row, now_ms) for row in schedulers],
            is_broker_up=self._services.is_broker_up(),
            running=dashboard.running(session, apps, limit=LINES),
            failed=by_job(failed)[:LINES],
            next_ticks=ahead,
            ticks=self._ticks(ahead, now_ms),
            are_all_ticks=ahead.total == len(ahead.first) and ahead.seen_until_ms is None,
            lateness=spread(dashboard.lateness(session, apps, now_ms=now_ms)),
        )

    def _ticks(self, ahead: NextTicks, now_ms: int) -> Counter[int]:
        every = upcoming_ticks.per_minute(ahead.first, self._services.timezone, from_ms=now_ms)
        counted = Counter((job.next_tick_at - now_ms) // MINUTE_MS for job in ahead.first)
        return every + (Counter(ahead.per_minute) - counted)

    def today(self, now_ms: int) -> date:
        """Return the current day in the cluster's time zone."""
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._services.timezone)).date()


def by_job(runs: Sequence[RunLine]) -> list[FailedJob]:
    """Return each job's first run in the list, with how many runs it has there."""
    counts = Counter(run.job_id for run in runs)
    newest = {run.job_id: run for run in reversed(runs)}
    return [
        FailedJob(newest[job_id], counts[job_id])
        for job_id in dict.fromkeys(run.job_id for run in runs)
    ]


def spread(late: Sequence[int]) -> Lateness | None:
    """Return the median, 95th percentile and maximum of a sorted list; None if it is empty."""
    if not late:
        return None
    last = len(late) - 1
    return Lateness(len(late), late[last // 2], late[round(last * 0.95)], late[-1])
