"""The dashboard, except for its chart of days, which is in `charts`.

Counts that take long, such as those of 100,000 jobs, are cached.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from flask import render_template, request
from sqlalchemy.orm import Session

from warren.admin_web import charts
from warren.admin_web.cached_counts import CachedCounts
from warren.admin_web.charts import DayChart
from warren.admin_web.language import job_labels
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts, calendar_of
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendar, Calendars
from warren.scheduler.views.process_view import (
    ExecutorView,
    NodeView,
    executor_views,
    node_view,
    schedulers_view,
)
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.jobs.job_names import NamedJob
from warren.sql.listings import dashboard, timeline
from warren.sql.listings.timeline import NextTicks
from warren.sql.registry import presence
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts
from warren.sql.runs.run_rows import DetailedRun

LINES = 8
#: How many failures are read; several may be of the same job.
FAILED_LINES = 60
#: For this many jobs, all ticks of the next hour are counted; for the others, only the next one.
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

    run: DetailedRun
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
    running: list[DetailedRun]
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
        ahead = timeline.next_ticks(
            session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=COUNTED
        )
        failed = dashboard.failed(session, apps, since_ms=now_ms - FAILURES_MS, limit=FAILED_LINES)
        return Overview(
            now_ms=now_ms,
            jobs=jobs,
            enabled=enabled,
            today=day_reports.of_days(session, apps, today, today).get(today),
            executors=executor_views(
                dashboard.executors(session, apps),
                {},
                now_ms,
                unreachable=schedulers_view(schedulers, now_ms).unreachable,
            ),
            schedulers=[node_view(row, now_ms) for row in schedulers],
            is_broker_up=self._services.is_broker_up(),
            running=dashboard.running(session, apps, limit=LINES),
            failed=by_job(failed)[:LINES],
            next_ticks=ahead,
            ticks=self._ticks(ahead, now_ms, calendars_for(session, ahead.first)),
            are_all_ticks=ahead.total == len(ahead.first) and ahead.seen_until_ms is None,
            lateness=spread(dashboard.lateness(session, apps, now_ms=now_ms)),
        )

    def _ticks(self, ahead: NextTicks, now_ms: int, calendars: Calendars) -> Counter[int]:
        every = per_minute(
            ahead.first, self._services.timezone, from_ms=now_ms, calendars=calendars
        )
        counted = Counter((job.next_tick_at - now_ms) // MINUTE_MS for job in ahead.first)
        return every + (Counter(ahead.per_minute) - counted)

    def today(self, now_ms: int) -> date:
        """Return the current day in the cluster's time zone."""
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._services.timezone)).date()


def by_job(runs: Sequence[DetailedRun]) -> list[FailedJob]:
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


#: This many ticks of a job are computed exactly; the rest are spread evenly.
ONE_BY_ONE = 12


def per_minute(
    jobs: Iterable[NamedJob],
    timezone: str,
    *,
    from_ms: int,
    calendars: Calendars = NO_CALENDARS,
) -> Counter[int]:
    """Return how many ticks the jobs have in each minute of the hour from `from_ms` on.

    `timezone` is that of jobs that name none.
    """
    counts: Counter[int] = Counter()
    for job in jobs:
        facts = ScheduleFacts.of(job, job.timezone or timezone)
        later = later_ticks(facts, calendars.get(calendar_of(job)), job.next_tick_at)
        for at_ms in (job.next_tick_at, *later):
            if from_ms <= at_ms < from_ms + HOUR_MS:
                counts[(at_ms - from_ms) // MINUTE_MS] += 1
    return counts


@lru_cache(maxsize=5_000)
def later_ticks(facts: ScheduleFacts, calendar: Calendar | None, next_ms: int) -> tuple[int, ...]:
    """Return the ticks of a schedule within the hour after a tick; approximate if many."""
    if next_ms >= PARKED_MS:
        return ()
    until_ms = next_ms + HOUR_MS - 1
    try:
        schedule = read_schedule(facts, {calendar.name: calendar} if calendar else NO_CALENDARS)
        first = schedule.ticks(next_ms, until_ms, next_ms, ONE_BY_ONE)
        if len(first) < ONE_BY_ONE:
            return tuple(first)
        more = schedule.count(first[-1], until_ms, next_ms)
    except Problem:
        return ()  # a broken row; the scheduler will stop the job
    pause = (until_ms - first[-1]) / (more + 1)
    return (*first, *(first[-1] + int(pause * number) for number in range(1, more + 1)))


class DashboardPages:
    """The state of the visitor's apps at a glance."""

    name = "dashboard"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._reader = OverviewReader(services)

    @route("/overview", Right.VIEW)
    def show(self) -> str | tuple[str, int]:
        known = visitor()
        overview, chart = self._services.database.read(lambda session: self._read(session, known))
        page = render_template(
            "pages/dashboard.html", overview=overview, chart=chart, job_labels=job_labels
        )
        return (page, 422) if chart.form.errors else page

    def _read(self, session: Session, known: Visitor) -> tuple[Overview, DayChart]:
        overview = self._reader.read(session, known)
        today = self._reader.today(overview.now_ms)
        return overview, charts.day_chart(session, request.args, today, known.app_ids)
