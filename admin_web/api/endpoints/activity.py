"""What happened: alarms, runs per day, and who did what."""

import json
from datetime import date, timedelta
from typing import Any, Literal

import msgspec

from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.openapi import answer_type, page_type, to_answer
from warren.admin_web.api.paging import (
    DEFAULT_LIMIT,
    Cursor,
    Instant,
    Limit,
    Word,
    instant_ms,
    page,
    place_of,
)
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.services import ApiServices
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.retention.clearing_criteria import CalendarDays, days_between
from warren.scheduler.views.to_json import AlarmView, alarm_view
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.alarms import alarm_listing
from warren.sql.alarms.alarm_listing import AlarmFilter, AlarmState
from warren.sql.alarms.alarms import UNSENT
from warren.sql.instants import at, iso
from warren.sql.models import AuditEntry
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts

DAYS = 366
AlarmAnswer = answer_type("Alarm", AlarmView)
AlarmPage = page_type(AlarmAnswer)
States = Literal[tuple(state.value for state in AlarmState)]  # type: ignore[valid-type]


class AlarmsQuery(msgspec.Struct, kw_only=True):
    """Which alarms to list: unsent ones, all, or those in a state; of one job with `job_id`."""

    all: bool = False
    state: States | None = None  # type: ignore[valid-type]
    job_id: int | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class TestBody(msgspec.Struct, kw_only=True):
    """Where to send a test: a job's targets, or the given ones on behalf of a job or an app.

    Without `job_id` and `app_id`, only administrators may send it.
    """

    job_id: int | None = None
    app_id: int | None = None
    emails: list[str] = []
    webhook: str = ""
    style: str = ""
    webhook_url: str = ""


class TestAnswer(msgspec.Struct, kw_only=True):
    """The tests that were sent, with the result that each had after a few seconds."""

    items: list[AlarmAnswer]  # type: ignore[valid-type] # it is made from a NamedTuple


class DaysQuery(msgspec.Struct, kw_only=True):
    """Which days, both included. Default: the last seven."""

    since: date | None = None
    until: date | None = None


class Day(msgspec.Struct, kw_only=True):
    """How many runs of a day succeeded, failed, were skipped, or are still open.

    `success_share` is null until a run is over.
    """

    day: str
    total: int
    succeeded: int
    failed: int
    skipped: int
    running: int
    success_share: float | None


class DaysAnswer(msgspec.Struct, kw_only=True):
    """Days with a report, in the cluster's time zone."""

    timezone: str
    items: list[Day]


class TrailQuery(msgspec.Struct, kw_only=True):
    """Which entries of the audit log to list."""

    who: Word | None = None
    kind: Word | None = None
    action: Word | None = None
    name: Word | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class TrailEntry(msgspec.Struct, kw_only=True):
    """Something that a user did or tried to do."""

    id: int
    at: str
    who: str
    origin: str
    action: str
    kind: str
    object_id: int
    name: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


TrailPage = page_type(TrailEntry)


class ActivityEndpoints:
    """Alarms, day reports and the audit log."""

    name = "records"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/alarms", Scope.READ, AlarmPage, query=AlarmsQuery)
    def alarms(self, call: Call) -> Any:
        """List alarms, newest first."""
        query, actor = call.query, call.actor
        wanted = AlarmFilter(
            statuses=() if query.all or query.state else UNSENT,
            state=AlarmState(query.state) if query.state else None,
            limit=query.limit + 1,
            app_ids=actor.app_ids,
            job_ids=actor.job_ids,
            job_id=query.job_id,
            before_id=place_of(query, int),
        )
        now_ms = self._services.now_ms()
        rows = self._services.database.read(
            lambda session: alarm_listing.listing(session, wanted, now_ms=now_ms)
        )
        return page(
            AlarmPage,
            query,
            rows,
            lambda row: to_answer(AlarmAnswer, alarm_view(row)),
            lambda row: row.id,
        )

    @endpoint("POST", "/alarms/test", Scope.OPERATE, TestAnswer, body=TestBody)
    def test(self, call: Call) -> TestAnswer:
        """Send a test alarm now, once, as a scheduler sends alarms."""
        body, commands = call.body, self._services.commands(call.actor).alarms
        targets = AlarmTargets(emails=tuple(body.emails), webhook=body.webhook, style=body.style)
        webhook = RunWebhook(url=body.webhook_url)
        if body.job_id is not None:
            ids = commands.test_job(body.job_id, targets, webhook)
        elif body.app_id is not None:
            ids = commands.test_app(body.app_id, targets, webhook)
        else:
            ids = commands.test(targets)
        alarm_rows = commands.wait_for_tests(ids, self._services.limits.test_seconds)
        return TestAnswer(items=[to_answer(AlarmAnswer, alarm_view(alarm)) for alarm in alarm_rows])

    @endpoint(
        "GET", "/reports/days", Scope.READ, DaysAnswer, query=DaysQuery, needs_whole_apps=True
    )
    def days(self, call: Call) -> DaysAnswer:
        """Count the runs of each day by outcome."""
        zone = self._services.timezone
        today = CalendarDays(zone).of(at(self._services.now_ms()))
        last = call.query.until or today
        first = call.query.since or max(date.min + timedelta(days=6), last) - timedelta(days=6)
        if not timedelta() <= last - first < timedelta(days=DAYS):
            raise at_parameter("since", f"expected 1 to {DAYS} days")
        days = self._services.database.read(
            lambda session: day_reports.of_days(session, call.actor.app_ids, first, last)
        )
        items = [_day(day, days[day]) for day in days_between(first, last) if day in days]
        return DaysAnswer(timezone=zone, items=items)

    @endpoint("GET", "/trail", Scope.ADMIN, TrailPage, query=TrailQuery)
    def trail(self, call: Call) -> Any:
        """List the audit log, newest entry first."""
        query = call.query
        wanted = AuditFilter(
            who=query.who,
            kind=query.kind,
            action=query.action,
            name=query.name,
            since_ms=instant_ms("since", query.since),
            until_ms=instant_ms("until", query.until),
            before_id=place_of(query, int),
            limit=query.limit + 1,
        )
        rows = self._services.database.read(lambda session: audit_log.listing(session, wanted))
        return page(TrailPage, query, rows, _entry, lambda row: row.id)


def _day(day: date, counts: Counts) -> Day:
    over = counts.succeeded + counts.failed
    return Day(
        day=day.isoformat(),
        total=counts.total,
        succeeded=counts.succeeded,
        failed=counts.failed,
        skipped=counts.skipped,
        running=counts.running,
        success_share=round(counts.succeeded / over, 4) if over else None,
    )


def _entry(row: AuditEntry) -> TrailEntry:
    return TrailEntry(
        id=row.id,
        at=iso(row.at) or "",
        who=row.who,
        origin=row.origin,
        action=row.action,
        kind=row.kind,
        object_id=row.object_id,
        name=row.name,
        before=_values(row.before),
        after=_values(row.after),
    )


def _values(text: str | None) -> dict[str, Any] | None:
    values = json.loads(text) if text else None
    return values if isinstance(values, dict) else None
