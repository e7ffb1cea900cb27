"""Everything that the dashboard shows, except its charts of days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from admin_web.console_services import ConsoleServices
from admin_web.views.cached_counts import CachedCounts
from admin_web.visitors import Visitor
from scheduler.views.process_view import ExecutorView, NodeView, executor_views, node_view
from sql.listings import dashboard, outlook
from sql.listings.outlook import Outlook
from sql.listings.run_lines import RunLine
from sql.registry import cluster, presence
from sql.runs import day_reports, lateness
from sql.runs.day_reports import Counts

LINES = 8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the page shows; `today` is None while nobody has counted the day."""

    now_ms: int
    jobs: int
    enabled: int
    paused_at: int
    today: Counts | None
    executors: list[ExecutorView]
    schedulers: list[NodeView]
    is_broker_up: bool
    running: list[RunLine]
    failed: list[RunLine]
    outlook: Outlook
    lateness: Lateness | None

    def alive(self, processes: Sequence[ExecutorView | NodeView]) -> int:
        """Return how many processes live."""
        return sum(process.is_online for process in processes)


class OverviewReader:
    """Reads how things stand for whoever looks; every question of it is short."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._jobs = CachedCounts(dashboard.job_counts)

    def read(self, session: Session, known: Visitor) -> Overview:
        """Return how the visitor's apps stand."""
        now_ms, apps = self._services.now_ms(), known.app_ids
        today = self.today(now_ms)
        jobs, enabled = self._jobs.of(session, apps)
        schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        return Overview(
            now_ms=now_ms,
            jobs=jobs,
            enabled=enabled,
            paused_at=cluster.paused_at(session),
            today=day_reports.of_days(session, apps, today, today).get(today),
            executors=executor_views(dashboard.executors(session, apps), {}, now_ms),
            schedulers=[node_view(row, now_ms) for row in schedulers],
            is_broker_up=self._services.is_broker_up(),
            running=dashboard.running(session, apps, limit=LINES),
            failed=dashboard.failed(session, apps, since_ms=now_ms - FAILURES_MS, limit=LINES),
            outlook=outlook.read(
                session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=LINES
            ),
            lateness=spread(lateness.recent(session, apps, now_ms=now_ms)),
        )

    def today(self, now_ms: int) -> date:
        """Return the cluster's day."""
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._services.timezone)).date()


def spread(late: Sequence[int]) -> Lateness | None:
    """Return the median, the 95th percentile and the longest of what is in order."""
    if not late:
        return None
    last = len(late) - 1
    return Lateness(len(late), late[last // 2], late[round(last * 0.95)], late[-1])
