"""How things stand: everything that the dashboard shows, but for its charts of days."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from admin_web.parts import Parts
from admin_web.seldom_counter import SeldomCounter
from admin_web.visitors import Visitor
from scheduler.calendar_days import CalendarDays
from sql import app_days, cluster, dashboard, lateness, outlook, presence
from sql.instants import epoch_ms
from sql.liveness import state
from sql.models import Registration
from sql.outlook import Outlook
from sql.rows import Rows

LINES = 8
#: How far back failures are shown, and how far ahead due times.
FAILURES_MS = 7 * 86_400_000
AHEAD_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Process:
    """An executor or a scheduler with its state, and its last load where it tells one."""

    row: Registration
    state: str
    load: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late runs began, in milliseconds; `runs` is of how many."""

    runs: int
    middle: int
    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Today:
    """Runs of the cluster's day by outcome; `most` is where counting stopped, 0 = it did not."""

    running: int
    succeeded: int
    failed: int
    most: int = 0

    @property
    def total(self) -> int:
        """All of them, as far as they were counted."""
        return self.running + self.succeeded + self.failed

    @property
    def is_cut(self) -> bool:
        """Whether there may be more."""
        return 0 < self.most <= max(self.running, self.succeeded, self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the page shows; `today` is None while nobody has counted the day."""

    now_ms: int
    jobs: int
    enabled: int
    paused_at: int
    today: Today | None
    executors: list[Process]
    schedulers: list[Process]
    is_broker_up: bool
    running: Rows
    failed: Rows
    outlook: Outlook
    lateness: Lateness | None

    def alive(self, processes: list[Process]) -> int:
        """Return how many processes live."""
        return sum(process.state in ("alive", "draining") for process in processes)


class StandingReader:
    """Reads how things stand for whoever looks; every question of it is short."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._days = CalendarDays(parts.timezone)
        self._jobs = SeldomCounter(dashboard.job_counts)
        self._todays = SeldomCounter(self._count_today)

    def read(self, session: Session, known: Visitor) -> Standing:
        """Return how the visitor's apps stand."""
        now_ms, apps = self._parts.now_ms(), known.app_ids
        jobs, enabled = self._jobs.of(session, apps)
        schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        return Standing(
            now_ms=now_ms,
            jobs=jobs,
            enabled=enabled,
            paused_at=cluster.paused_at(session),
            today=self._report(session) if apps is None else self._todays.of(session, apps),
            executors=_processes(dashboard.executors(session, apps), now_ms),
            schedulers=_processes(schedulers, now_ms),
            is_broker_up=self._parts.is_broker_up(),
            running=dashboard.running(session, apps, limit=LINES),
            failed=dashboard.failed(session, apps, since_ms=now_ms - FAILURES_MS, limit=LINES),
            outlook=outlook.read(
                session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=LINES
            ),
            lateness=spread(lateness.recent(session, apps, now_ms=now_ms)),
        )

    def today(self, now_ms: int) -> date:
        """Return the cluster's day."""
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._parts.timezone)).date()

    def _report(self, session: Session) -> Today | None:
        row = dashboard.day(session, self.today(self._parts.now_ms()))
        return Today(row.running_count, row.suc_count, row.fail_count) if row else None

    def _count_today(self, session: Session, apps: frozenset[int] | None) -> Today:
        """Count the runs of some apps: the report counts those of all apps together."""
        today = self.today(self._parts.now_ms())
        since, until = self._days.start(today), self._days.end(today)
        found = app_days.count(
            session, apps or (), since_ms=epoch_ms(since), until_ms=epoch_ms(until)
        )
        return Today(*found, most=app_days.MOST)


def spread(late: Sequence[int]) -> Lateness | None:
    """Return the median, the 95th percentile and the longest of what is in order."""
    if not late:
        return None
    last = len(late) - 1
    return Lateness(len(late), late[last // 2], late[round(last * 0.95)], late[-1])


def _processes(rows: Sequence[Registration], now_ms: int) -> list[Process]:
    return [Process(row, state(row, now_ms), _load(row)) for row in rows]


def _load(row: Registration) -> dict[str, Any]:
    try:
        found = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
