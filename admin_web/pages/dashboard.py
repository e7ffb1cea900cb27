"""The first page: how things stand."""

from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from flask import render_template
from sqlalchemy.orm import Session

from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.visitors import Right, Visitor, visitor
from sql import cluster, dashboard, presence
from sql.liveness import state
from sql.models import Registration
from sql.rows import AnyRow, Rows

LINES = 8
#: How far back failures are shown, and how far ahead due times.
FAILURES_MS = 7 * 86_400_000
AHEAD_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that the page shows; processes come with their state."""

    now_ms: int
    jobs: int
    enabled: int
    paused_at: int
    today: AnyRow | None
    executors: list[tuple[Registration, str]]
    schedulers: list[tuple[Registration, str]]
    is_broker_up: bool
    running: Rows
    failed: Rows
    due: Rows

    def alive(self, processes: list[tuple[Registration, str]]) -> int:
        """Return how many processes live."""
        return sum(found != "silent" for _, found in processes)


class DashboardPages:
    """How things stand, for the apps of whoever looks."""

    name = "dashboard"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/", Right.VIEW)
    def show(self) -> str:
        """Show how things stand."""
        known = visitor()
        standing = self._parts.database.read(lambda session: self._read(session, known))
        return render_template("pages/dashboard.html", standing=standing)

    def _read(self, session: Session, known: Visitor) -> Standing:
        now_ms, apps = self._parts.now_ms(), known.app_ids
        jobs, enabled = dashboard.job_counts(session, apps)
        schedulers = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        return Standing(
            now_ms=now_ms,
            jobs=jobs,
            enabled=enabled,
            paused_at=cluster.paused_at(session),
            # Counted for all apps together, so it is for those who may see all.
            today=dashboard.day(session, self._today(now_ms)) if apps is None else None,
            executors=[(row, state(row, now_ms)) for row in dashboard.executors(session, apps)],
            schedulers=[(row, state(row, now_ms)) for row in schedulers],
            is_broker_up=self._parts.is_broker_up(),
            running=dashboard.running(session, apps, limit=LINES),
            failed=dashboard.failed(session, apps, since_ms=now_ms - FAILURES_MS, limit=LINES),
            due=dashboard.due(session, apps, from_ms=now_ms, to_ms=now_ms + AHEAD_MS, limit=LINES),
        )

    def _today(self, now_ms: int) -> date:
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self._parts.timezone)).date()
