"""Everything that the dashboard shows, except its charts of days."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from admin_web.charts import upcoming_ticks
from admin_web.console_services import ConsoleServices
from admin_web.views.cached_counts import CachedCounts
from admin_web.visitors import Visitor
from scheduler.views.process_view import ExecutorView, NodeView, executor_views, node_view
from sql.listings import dashboard, outlook
from sql.listings.outlook import Outlook
from sql.listings.run_lines import RunLine
from sql.registry import presence
from sql.runs import day_reports, lateness
from sql.runs.day_reports import Counts

LINES = 8
#: Failures that are looked at: one job may have several of them.
FAILED_LINES = 60
#: Jobs whose ticks of the next hour are counted one by one; of others, the next one.
COUNTED = 100
#: How far back failures are shown, and how far ahead due times.
FAILURES_MS = 7 * 86_400_000
AHEAD_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late runs began, in milliseconds; `runs` is of how many."""

    runs: int
    middle: int
    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class FailedJob:
    """The last failure of a job, and how many of those looked at are this job's."""

    run: RunLine
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the page shows; `today` is None while nobody has counted the day."""

    now_ms: int
    jobs: int
    enabled: int
    today: Counts | None
    executors: list[ExecutorView]
    schedulers: list[NodeView]
    is_broker_up: bool
    running: list[RunLine]
    failed: list[FailedJob]
    outlook: Outlook
    #: How many ticks come due in each minute from now; `are_all_ticks` is False when a job of which
    #: only the next one is counted is among them.
    ticks: Counter[int]
    are_all_ticks: bool
    lateness: Lateness | None

    def alive(self, processes: Sequence[ExecutorView | NodeView]) -> int:
        """Return how many processes live."""
        return sum(process.is_online for process in processes)


class OverviewReader:
    """Reads what the visitor's dashboard shows, with short queries only."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._jobs = CachedCounts(dashboard.job_counts)

    def read(self, session: Session, known: Visitor) -> Overview:
        """Return how the visitor's apps stand."""
        now_ms, apps = self._services.now_ms(), known.app_ids
        today = self.today(now_ms)
        jobs, enabled = self._jobs.of(session, apps)
        schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        ahead = outlook.read(session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=COUNTED)
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
            outlook=ahead,
            ticks=self._ticks(ahead, now_ms),
            are_all_ticks=ahead.total == len(ahead.first) and ahead.seen_until_ms is None,
            lateness=spread(lateness.recent(session, apps, now_ms=now_ms)),
        )

    def _ticks(self, ahead: Outlook, now_ms: int) -> Counter[int]:
        every = upcoming_ticks.per_minute(ahead.first, self._services.timezone, from_ms=now_ms)
        counted = Counter((job.next_tick_at - now_ms) // 60_000 for job in ahead.first)
        return every + (Counter(ahead.per_minute) - counted)

    def today(self, now_ms: int) -> date:
        """Return the cluster's day."""
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._services.timezone)).date()


def by_job(runs: Sequence[RunLine]) -> list[FailedJob]:
    """Return the newest run of each job, in the order given, with how many there are."""
    counts = Counter(run.job_id for run in runs)
    newest = {run.job_id: run for run in reversed(runs)}
    return [
        FailedJob(newest[job_id], counts[job_id])
        for job_id in dict.fromkeys(run.job_id for run in runs)
    ]


def spread(late: Sequence[int]) -> Lateness | None:
    """Return the median, the 95th percentile and the longest of what is in order."""
    if not late:
        return None
    last = len(late) - 1
    return Lateness(len(late), late[last // 2], late[round(last * 0.95)], late[-1])
