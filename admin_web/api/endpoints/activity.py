"""What happened: alarms, incidents, runs per day, due times compared with runs, who did what.

The board says what is wrong now, since when and why.
"""

import json
import time
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import Call, endpoint, serves
from warren.admin_web.api.endpoints.apps import app_id_of, asked_app_ids
from warren.admin_web.api.endpoints.jobs import job_id_of, job_named
from warren.admin_web.api.paging import (
    Cursor,
    Limit,
    body_instant_ms,
    instant_ms,
    page,
    place_of,
)
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.services import ApiServices
from warren.resources import alarms as operations
from warren.resources import board as board_operations
from warren.resources import instant
from warren.resources import reports as report_operations
from warren.resources.alarms import Alarm, AlarmCount, Incident, TestAnswer
from warren.resources.board import Board, JobMute
from warren.resources.instant import Instant
from warren.resources.operation import DEFAULT_LIMIT, InstantText, Scope, Word, page_type
from warren.resources.reports import Day, DaysAnswer
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.audit.integrity_check import audit_job
from warren.scheduler.audit.tally import JobTally
from warren.scheduler.commands.alarm_commands import MAX_DAYS
from warren.scheduler.problems import Code, Problem
from warren.scheduler.retention.clearing import CalendarDays, days_between
from warren.scheduler.views import board_view
from warren.scheduler.views.alarm_view import alarm_view, incident_view
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.alarms import alarm_listing, incidents
from warren.sql.alarms.alarm_listing import AlarmFilter, AlarmState, ListedAlarm
from warren.sql.alarms.alarms import UNSENT
from warren.sql.instants import DAY_MS, HOUR_MS, at, epoch_ms, iso, moment
from warren.sql.listings import ledger
from warren.sql.listings.ledger import LedgerFilter
from warren.sql.models import AuditEntry
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts

#: The most days of one report.
DAYS = 3_660


class TrailQuery(msgspec.Struct, kw_only=True):
    """Which entries of the audit log to list."""

    who: Word | None = None
    kind: Word | None = None
    action: Word | None = None
    name: Word | None = None
    since: InstantText | None = None
    until: InstantText | None = None
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

    @serves(operations.list_alarms)
    def alarms(self, call: Call) -> Any:
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
        kind = operations.list_alarms.endpoint.answer
        return page(kind, query, self._listed(wanted), alarm_view, lambda row: row.id)

    @serves(operations.show_alarm)
    def alarm(self, call: Call, alarm_id: int) -> Alarm:
        actor = call.actor
        wanted = AlarmFilter(
            limit=1, app_ids=actor.app_ids, job_ids=actor.job_ids, alarm_id=alarm_id
        )
        if not (listed := self._listed(wanted)):
            raise Problem(Code.NO_ALARM, id=alarm_id)
        return alarm_view(listed[0])

    @serves(operations.send_test_alarms)
    def test(self, call: Call) -> TestAnswer:
        body, commands = call.body, self._services.commands(call.actor).alarms
        targets = AlarmTargets(emails=tuple(body.emails), webhook=body.webhook, style=body.style)
        defaults = AlarmTargets(emails=tuple(body.default_emails), webhook=body.default_webhook)
        webhook = RunWebhook(url=body.webhook_url)
        job_id = body.job_id if body.job is None else job_named(self._services, call, body.job)[0]
        if job_id is not None:
            ids = commands.test_job(job_id, targets, webhook, defaults=defaults)
        elif body.app_id is not None:
            ids = commands.test_app(body.app_id, targets, webhook)
        else:
            ids = commands.test(targets or defaults)
        alarm_rows = commands.wait_for_tests(ids, self._services.limits.test_seconds)
        return TestAnswer(items=[*map(alarm_view, alarm_rows)])

    @serves(operations.resend_alarms)
    def resend_alarms(self, call: Call) -> AlarmCount:
        commands = self._services.commands(call.actor).alarms
        return AlarmCount(count=commands.send_again(self._undelivered(call)))

    @serves(operations.dismiss_alarms)
    def dismiss_alarms(self, call: Call) -> AlarmCount:
        commands = self._services.commands(call.actor).alarms
        return AlarmCount(count=commands.dismiss(self._undelivered(call)))

    def _undelivered(self, call: Call) -> AlarmFilter:
        job = call.body.job
        job_id = None if job is None else job_named(self._services, call, job)[0]
        return AlarmFilter(limit=1, job_id=job_id)

    def _listed(self, wanted: AlarmFilter) -> list[ListedAlarm]:
        now_ms = self._services.now_ms()
        return self._services.database.read(
            lambda session: alarm_listing.listing(session, wanted, now_ms=now_ms)
        )

    @serves(report_operations.report_days)
    def days(self, call: Call) -> DaysAnswer:
        query, zone = call.query, self._services.timezone
        today = CalendarDays(zone).of(at(self._services.now_ms()))
        last = query.until or today
        first = query.since or max(date.min + timedelta(days=6), last) - timedelta(days=6)
        if first > last:
            raise at_parameter("since", "expected a day that is not after until")

        def read(session: Session) -> list[Day]:
            begin = max(first, day_reports.first_day(session) or date.max)
            if last - begin >= timedelta(days=DAYS):
                raise at_parameter("since", f"expected 1 to {DAYS} days")
            counts = day_reports.of_days(session, call.actor.app_ids, begin, last)
            counted_ms = {
                row.day.date(): epoch_ms(row.update_time)
                for row in day_reports.between(session, begin, last)
                if row.day is not None and row.update_time
            }
            return [
                _day(day, zone, counts.get(day, Counts()), counted_ms.get(day))
                for day in days_between(begin, last)
                if day in counts or query.empty
            ]

        return DaysAnswer(timezone=zone, items=self._services.database.read(read))

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


def _day(day: date, timezone: str, counts: Counts, counted_ms: int | None) -> Day:
    over = counts.succeeded + counts.failed
    return Day(
        day=day,
        timezone=timezone,
        total=counts.total,
        succeeded=counts.succeeded,
        failed=counts.failed,
        skipped=counts.skipped,
        running=counts.running,
        success_share=round(counts.succeeded / over, 4) if over else None,
        counted_at=instant.Instant.if_any(counted_ms),
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


class IncidentEndpoints:
    """The incidents of jobs that a token may see."""

    name = "incidents"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.list_incidents)
    def index(self, call: Call) -> Any:
        query, actor = call.query, call.actor
        rows = self._services.database.read(
            lambda session: incidents.listing(
                session,
                app_ids=actor.app_ids,
                job_ids=actor.job_ids,
                only_open=not query.all,
                limit=query.limit + 1,
                before_id=place_of(query, int),
            )
        )
        kind = operations.list_incidents.endpoint.answer
        return page(kind, query, rows, incident_view, lambda row: row.id)

    @serves(operations.show_incident)
    def show(self, call: Call, incident_id: int) -> Incident:
        commands = self._services.commands(call.actor).incidents
        return incident_view(
            self._services.database.read(lambda session: commands.read(session, incident_id))
        )

    @serves(operations.acknowledge_incident)
    def ack(self, call: Call, incident_id: int) -> Incident:
        until_ms = body_instant_ms("/until", call.body.until)
        commands = self._services.commands(call.actor).incidents
        commands.acknowledge(incident_id, note=call.body.note, until_ms=until_ms)
        return self.show(call, incident_id)


#: Limits of one page or request, whose cost grows with jobs times days.
LEDGER_JOBS = 20
LEDGER_MS = 31 * DAY_MS
#: How much time one transaction covers, and how long one request may take.
STRETCH_MS = 6 * HOUR_MS
LEDGER_SECONDS = 10.0


class LedgerQuery(msgspec.Struct, kw_only=True):
    """Which due times: in (since, until], 31 days at most. Default: the last day.

    A page has 20 jobs at most, whatever its limit. `q` is a part of the jobs' names, in any case.
    """

    app: Word | None = None
    q: Word | None = None
    since: InstantText | None = None
    until: InstantText | None = None
    limit: Limit = LEDGER_JOBS
    cursor: Cursor = None


class StretchQuery(msgspec.Struct, kw_only=True):
    """Which due times: in (since, until], 31 days at most. Default: the last day."""

    since: InstantText | None = None
    until: InstantText | None = None


class LedgerAnswer(msgspec.Struct, kw_only=True):
    """What happened at a job's due times; `lost`, `doubled` and `late` list the first of them."""

    app: str
    job: str
    since: str
    until: str
    due: int
    fired: int
    skipped: int
    cancelled: int
    purged: int
    lost: list[str]
    lost_count: int
    doubled: list[str]
    doubled_count: int
    late: list[str]
    late_count: int
    is_sound: bool


LedgerPage = page_type(LedgerAnswer)


class LedgerEndpoints:
    """The comparison of due times and runs."""

    name = "records"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/ledger", Scope.READ, LedgerPage, query=LedgerQuery, is_heavy=True)
    def ledger(self, call: Call) -> Any:
        """Show for each job what happened at every due time."""
        query, bounds = call.query, self._bounds(call.query)
        query.limit = min(query.limit, LEDGER_JOBS)
        give_up_at = time.monotonic() + LEDGER_SECONDS
        wanted = LedgerFilter(
            app_ids=asked_app_ids(self._services, call, query.app),
            job_ids=call.actor.job_ids,
            name=query.q,
            after_id=place_of(query, int) or 0,
            limit=query.limit + 1,
        )
        rows = self._services.database.read(lambda session: ledger.jobs(session, wanted))
        return page(
            LedgerPage,
            query,
            rows,
            lambda job: self._tally(job.id, job.app, job.name, bounds, give_up_at),
            lambda job: job.id,
        )

    @endpoint(
        "GET", "/ledger/<app>/<job>", Scope.READ, LedgerAnswer, query=StretchQuery, is_heavy=True
    )
    def ledger_of_job(self, call: Call, app: str, job: str) -> LedgerAnswer:
        """Show what happened at every due time of one job."""
        job_id = job_id_of(self._services, call, app, job)
        give_up_at = time.monotonic() + LEDGER_SECONDS
        return self._tally(job_id, app, job, self._bounds(call.query), give_up_at)

    def _bounds(self, query: LedgerQuery | StretchQuery) -> tuple[int, int]:
        now_ms = self._services.now_ms()
        until = instant_ms("until", query.until)
        until = now_ms if until is None else min(until, now_ms)
        since = instant_ms("since", query.since)
        since = until - DAY_MS if since is None else since
        if not 0 <= until - since <= LEDGER_MS:
            raise at_parameter("since", "expected up to 31 days before until")
        return since, until

    def _stretch(self, job_id: int, bounds: tuple[int, int], session: Session) -> JobTally | None:
        return audit_job(session, job_id, bounds, self._services.timezone)

    def _tally(
        self, job_id: int, app: str, name: str, bounds: tuple[int, int], give_up_at: float
    ) -> LedgerAnswer:
        tally = JobTally(job_id=job_id, name=name)
        for stretch in _stretches(bounds):
            if time.monotonic() > give_up_at:
                raise at_parameter("since", "it takes too long; ask for fewer jobs or days")
            part = self._services.database.read(partial(self._stretch, job_id, stretch))
            if part is not None:
                tally.merge(part)
        return LedgerAnswer(
            app=app,
            job=name,
            since=_text_of(bounds[0]),
            until=_text_of(bounds[1]),
            due=tally.due,
            fired=tally.fired,
            skipped=tally.skipped,
            cancelled=tally.cancelled,
            purged=tally.purged,
            lost=[_text_of(fault.tick) for fault in tally.lost],
            lost_count=tally.lost_count,
            doubled=[_text_of(fault.tick) for fault in tally.doubled],
            doubled_count=tally.doubled_count,
            late=[_text_of(fault.tick) for fault in tally.late],
            late_count=tally.late_count,
            is_sound=tally.is_sound,
        )


def _stretches(bounds: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield (after, until] in parts that are short enough for one transaction each."""
    for start in range(bounds[0], bounds[1], STRETCH_MS):
        yield start, min(start + STRETCH_MS, bounds[1])


def _text_of(instant_ms: int) -> str:
    return moment(instant_ms).isoformat(timespec="milliseconds")


class BoardEndpoints:
    """How the jobs of the token's apps are doing."""

    name = "board"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(board_operations.show_board)
    def show(self, call: Call) -> Board:
        app, now_ms = call.query.app, self._services.now_ms()
        app_id = None if app is None else app_id_of(self._services, call, app)
        return self._services.database.read(
            lambda session: board_view.read(session, call.actor, now_ms=now_ms, app_id=app_id)
        ).board

    @serves(board_operations.mute_job)
    def mute(self, call: Call, app: str, name: str) -> JobMute:
        job_id = job_id_of(self._services, call, app, name)
        until_ms = body_instant_ms("/until", call.body.until)
        if until_ms is None:
            raise Problem(Code.MUTE_END, "until", most=MAX_DAYS, got="null")
        self._services.commands(call.actor).mutes.mute(
            job_id, until_ms=until_ms, why=call.body.why, silent=call.body.silent
        )
        return JobMute(
            by=call.actor.who,
            why=call.body.why,
            until=Instant.of(until_ms),
            silent=call.body.silent,
        )

    @serves(board_operations.unmute_job)
    def unmute(self, call: Call, app: str, name: str) -> None:
        job_id = job_id_of(self._services, call, app, name)
        self._services.commands(call.actor).mutes.unmute(job_id)
