"""Reads stored schedules: their ticks, and the next ones for display.

The planner does not use the next due times given here.
"""

from dataclasses import replace
from functools import lru_cache

from warren.scheduler.cron.cron_fields import echo
from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.nominal_days import MonthWorkdays, OnHoliday
from warren.scheduler.schedules.open_rate import OpenHours, OpenRate
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.refined import RefinedTicks, WallTicks
from warren.scheduler.schedules.registry import (
    KINDS,
    CronSchedule,
    FixedRate,
    UnixCronSchedule,
    WorkdaySchedule,
)
from warren.scheduler.schedules.schedule import Schedule, Ticks
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendar, Calendars
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.listings.job_search import ListedJob
from warren.sql.models import Job


def read_schedule(facts: ScheduleFacts, calendars: Calendars = NO_CALENDARS) -> Ticks:
    """Return the ticks of a schedule; raises `Problem`.

    `calendars` has the one that it names, with all its versions.
    """
    kind = KINDS.get(facts.kind)
    if kind is None:
        raise Problem(Code.SCHEDULE_KIND, known=", ".join(KINDS), got=echo(facts.kind))
    if not facts.options and not kind.needs_calendar:
        return kind.read(facts.value, facts.timezone)
    name = ScheduleOptions.from_json(facts.options).calendar
    if name and name not in calendars:
        raise Problem(Code.CALENDAR_UNKNOWN, "calendar", got=echo(name))
    return _refined(facts, calendars[name] if name else None)


@lru_cache(maxsize=8_192)
def _refined(facts: ScheduleFacts, calendar: Calendar | None) -> Ticks:
    """Return the ticks of a schedule with options; the last ones are kept."""
    plain = KINDS[facts.kind].read(facts.value, facts.timezone)
    options = ScheduleOptions.from_json(facts.options)
    _check_options(plain, options)
    zone = load_zone(facts.timezone)
    inner: Ticks = plain
    if isinstance(plain, WorkdaySchedule):
        inner = WallTicks.of(
            _with_gap(plain.cron, options), options, calendar, MonthWorkdays(plain.nth)
        )
    elif isinstance(plain, CronSchedule):
        if isinstance(plain, UnixCronSchedule):
            plain = plain.by_rule(options.rule)
        plain = replace(plain, cron=_with_gap(plain.cron, options))
        inner = plain
        if options.window or calendar:
            inner = WallTicks.of(plain.cron, options, calendar)
    elif options.window or calendar:
        inner = OpenRate(plain, OpenHours(zone, options.opening, calendar))
    if not options:
        return inner  # nothing but a rule
    known = None if isinstance(plain, WorkdaySchedule) else plain
    return RefinedTicks.of(inner, options, zone, calendar, known)


def _with_gap(cron: Cron, options: ScheduleOptions) -> Cron:
    """Return a cron that treats clock changes as options say, if they say it."""
    return replace(cron, runs_after_gap=options.gap == "run_after") if options.gap else cron


def _check_options(schedule: Schedule, options: ScheduleOptions) -> None:
    """Refuse options that are wrong, or that this kind of schedule does not take."""
    options.check()
    for key in options.given():
        if not schedule.takes_options:
            raise Problem(Code.OPTION_NOT_TAKEN, key, what=key, kind=schedule.keyword)
    if schedule.needs_calendar and not options.calendar:
        raise Problem(Code.WORKDAY_WITHOUT_CALENDAR, "calendar")
    refused = {"on_holiday"} if isinstance(schedule, WorkdaySchedule) else set()
    if isinstance(schedule, FixedRate):
        # Its ticks have no day of their own that they could move from.
        refused = {"gap", *({"on_holiday"} if options.on_holiday != OnHoliday.SKIP else ())}
    for key in options.given():
        if key in refused:
            raise Problem(Code.OPTION_NOT_TAKEN, key, what=key, kind=schedule.keyword)


def next_fires(
    job: ListedJob | Job,
    *,
    now_ms: int,
    count: int,
    timezone: str,
    calendars: Calendars = NO_CALENDARS,
) -> list[int]:
    """Return the next ticks in epoch milliseconds; for a stopped job, as if it were started now.

    A fixed delay has one at most: the end of a run sets the next one. Raises `Problem` when the
    schedule cannot be read.
    """
    schedule = read_schedule(ScheduleFacts.of(job, job.timezone or timezone), calendars)
    anchor = job.next_tick_at if job.is_enabled else 0
    if schedule.waits_for_completion:
        return [] if is_waiting(job) else [anchor or now_ms]
    return schedule.ticks(now_ms, PARKED_MS, anchor or now_ms, count)


def first_fires(
    facts: ScheduleFacts, *, now_ms: int, count: int, calendars: Calendars = NO_CALENDARS
) -> list[int]:
    """Return the ticks of a schedule if it were started now; raises `Problem` likewise.

    A fixed delay has only the first: it fires at once.
    """
    schedule = read_schedule(facts, calendars)
    if schedule.waits_for_completion:
        return [now_ms]
    watermark, first = schedule.start(now_ms)
    return schedule.ticks(watermark, PARKED_MS, first or now_ms, count)


def is_waiting(job: ListedJob | Job) -> bool:
    """Whether the end of a run will set a job's next tick."""
    return bool(job.is_enabled and job.next_tick_at == PARKED_MS)


def next_fire(
    job: ListedJob | Job, *, now_ms: int, timezone: str, calendars: Calendars = NO_CALENDARS
) -> int | None:
    """Return an enabled job's next tick; None if it is stopped or has none."""
    if not job.is_enabled:
        return None
    try:
        fires = next_fires(job, now_ms=now_ms, count=1, timezone=timezone, calendars=calendars)
    except Problem:
        # The schedule was broken in the database: the scheduler will stop the job.
        return None
    return fires[0] if fires else None
