"""Reads stored schedules and calendars: their ticks, and the next ones for display.

The planner does not use the next due times given here.

A fixed rate may be narrowed by a window and working days: ticks that do not count are dropped, and
the rate keeps its phase.

Calendars are rows with all their versions. A process keeps what it has read, as versions never
change.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy.orm import Session

from warren.resources.calendars import WEEKDAYS
from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.problems import Code, Problem, echo
from warren.scheduler.schedules.options import (
    DAY_SECONDS,
    MonthWorkdays,
    OnHoliday,
    ScheduleOptions,
    Window,
)
from warren.scheduler.schedules.refined import RefinedTicks, WallTicks
from warren.scheduler.schedules.registry import (
    KINDS,
    CronSchedule,
    FixedRate,
    UnixCronSchedule,
    WorkdaySchedule,
    shown_as,
)
from warren.scheduler.schedules.schedule import (
    Schedule,
    Scheduled,
    ScheduleFacts,
    Ticks,
    calendar_of,
)
from warren.scheduler.schedules.working_days import (
    NO_CALENDARS,
    Calendar,
    Calendars,
    CalendarVersion,
    day_of,
)
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.listings.job_search import ListedJob
from warren.sql.models import Job

WORK, OFF = "work", "off"
#: What is said of them.
NOT_TAKEN = (
    "events not taken: with hours %(timed)s, observances %(observances)s, "
    "unreadable %(unreadable)s; "
    "the first in line %(line)s: %(first)s"
)


class NotTaken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many events of a feed are no days of its calendar, why, and the first in its file.

    `observances` are days on which people work, `first` is its title with what is wrong.
    """

    timed: int = 0
    observances: int = 0
    unreadable: int = 0
    line: int
    first: str

    def __str__(self) -> str:
        return NOT_TAKEN % msgspec.structs.asdict(self)

    @classmethod
    def of(cls, row: VersionRow) -> "NotTaken | None":
        """Return what a row says of it."""
        return _not_taken_decoder.decode(row.not_taken) if row.not_taken else None


_not_taken_decoder = msgspec.json.Decoder(NotTaken)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDays:
    """What a version of a calendar says.

    Attributes:
        weekend: the weekdays that are off, such as `SAT`.
        days: `work` or `off` for each day that is not as its weekday says, with the name of a
            holiday behind it: `off National Day`.
        until: the last day that it knows.
        source: where the days are from.
        not_taken: the source's events that are not days of it; None = there are none.

    """

    weekend: tuple[str, ...]
    days: Mapping[date, str]
    until: date
    source: str = field(default="", compare=False)
    not_taken: NotTaken | None = field(default=None, compare=False)

    @property
    def stored_weekend(self) -> str:
        """The weekend as a row has it."""
        return ",".join(sorted(self.weekend, key=WEEKDAYS.index))

    @property
    def stored_days(self) -> str:
        """The days as a row has them."""
        ordered = {day.isoformat(): self.days[day] for day in sorted(self.days)}
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))

    @property
    def stored_not_taken(self) -> str | None:
        """What is left of a feed, as a row has it."""
        return msgspec.json.encode(self.not_taken).decode() if self.not_taken else None

    @property
    def digest(self) -> str:
        """What two versions that say the same have in common."""
        text = f"{self.stored_weekend}\n{self.until}\n{self.stored_days}"
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def of(cls, row: VersionRow, days: str) -> "CalendarDays":
        """Return what a row says."""
        return cls(
            weekend=tuple(row.weekend.split(",")) if row.weekend else (),
            days={date.fromisoformat(day): said for day, said in json.loads(days).items()},
            until=row.until,
            source=row.source,
        )

    def version(self, number: int, effective_ms: int) -> CalendarVersion:
        """Return the version with this number that counts from an instant on."""
        said = {day_of(day): said.partition(" ") for day, said in self.days.items()}
        return CalendarVersion(
            number=number,
            weekend=frozenset(map(WEEKDAYS.index, self.weekend)),
            days={day: word == WORK for day, (word, _, _) in said.items()},
            names={day: name for day, (_, _, name) in said.items() if name},
            until_day=day_of(self.until),
            effective_ms=effective_ms,
        )


def load_calendars(session: Session, names: Iterable[str]) -> Calendars:
    """Return the calendars of these names, with all their versions; empty names are left out.

    Without a name no statement is executed.
    """
    wanted = {name for name in names if name}
    if not wanted:
        return {}
    rows = calendars.versions(session, wanted)
    return {name: _calendar(session, name, list(of)) for name, of in groupby(rows, _name_of)}


def calendars_for(session: Session, rows: Iterable[Scheduled]) -> Calendars:
    """Return the calendars that the schedules of rows use."""
    return load_calendars(session, map(calendar_of, rows))


def _name_of(row: VersionRow) -> str:
    return row.name


def _calendar(session: Session, name: str, rows: list[VersionRow]) -> Calendar:
    kept = _kept(name, tuple((row.number, row.effective_at, row.digest) for row in rows))
    if not kept:
        days = calendars.days(session, [row.id for row in rows])
        kept.append(
            Calendar(
                name,
                tuple(
                    CalendarDays.of(row, days[row.id]).version(row.number, row.effective_at)
                    for row in rows
                ),
            )
        )
    return kept[0]


@lru_cache(maxsize=256)
def _kept(_name: str, _versions: tuple[tuple[int, int, str], ...]) -> list[Calendar]:
    """Return where the calendar of these versions is kept; empty = it has not been read yet."""
    return []


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Days that are looked through for the next tick.
SEARCHED_DAYS = 4_000
_REMEMBERED = 1_000
_WHOLE_DAY = ((0, DAY_SECONDS),)

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpenHours:
    """The instants that count, in epoch milliseconds, day by day of a time zone."""

    zone: ZoneInfo
    window: Window | None
    calendar: Calendar | None
    _known: dict[int, Spans] = field(default_factory=dict, repr=False)

    def day_of(self, instant_ms: int) -> int:
        """Return the day that the zone's clock shows at an instant."""
        at = _EPOCH + instant_ms * _MILLISECOND
        return (at.astimezone(self.zone).date() - _EPOCH.date()).days

    def midnight(self, day: int) -> int:
        """Return the instant at which a day begins."""
        return self._instant(day, 0)

    def on(self, day: int) -> Spans:
        """Return the instants of a day that count: spans from their first to before their second.

        Of a time of day that comes twice, both count.
        """
        spans = self._known.get(day)
        if spans is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            spans = self._known[day] = tuple(self._spans(day))
        return spans

    def last_day_from(self, day: int) -> int:
        """Return the last day from this one on that matters and that the calendar knows."""
        last = day + SEARCHED_DAYS
        if self.calendar is None:
            return last
        return min(last, max(version.until_day for version in self.calendar.versions))

    def _spans(self, day: int) -> Iterator[tuple[int, int]]:
        for start, end in self.window.spans() if self.window else _WHOLE_DAY:
            first, last = self._instant(day, start), self._instant(day, end, fold=1)
            yield from self._on_working_days(day, first, last)

    def _on_working_days(self, day: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a span in which the calendar's version in force lets them count."""
        if self.calendar is None:
            yield start, end
            return
        versions = self.calendar.versions
        for at, version in enumerate(versions):
            low = start if at == 0 else max(start, version.effective_ms)
            high = end if at + 1 == len(versions) else min(end, versions[at + 1].effective_ms)
            if low < high and day <= version.until_day and version.is_working(day):
                yield low, high

    def _instant(self, day: int, second: int, *, fold: int = 0) -> int:
        shown = datetime(1970, 1, 1) + timedelta(days=day, seconds=second)  # noqa: DTZ001 - below
        return (shown.replace(tzinfo=self.zone, fold=fold) - _EPOCH) // _MILLISECOND


@dataclass(frozen=True, slots=True, eq=False)
class OpenRate(Ticks):
    """The ticks of a fixed rate that are within open hours."""

    rate: Ticks
    hours: OpenHours

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        day = self.hours.day_of(after_ms)
        last_day = self.hours.last_day_from(day)
        while day <= last_day:
            for start, end in self.hours.on(day):
                tick = self.rate.next_after(max(after_ms, start - 1), anchor_ms)
                if tick is not None and tick < end:
                    return tick
            # A long period has no tick on many days.
            tomorrow = self.hours.midnight(day + 1)
            following = self.rate.next_after(max(after_ms, tomorrow - 1), anchor_ms)
            day = max(day + 1, self.hours.day_of(tomorrow if following is None else following))
        return None

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        for day in range(self.hours.day_of(until_ms), self.hours.day_of(after_ms) - 1, -1):
            for start, end in reversed(self.hours.on(day)):
                since_ms, last_ms = max(after_ms, start - 1), min(until_ms, end - 1)
                tick = self.rate.last_until(since_ms, last_ms, anchor_ms)
                if tick is not None:
                    return tick
        return None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks in this span."""
        return sum(
            self.rate.count(max(after_ms, start - 1), min(until_ms, end - 1), anchor_ms)
            for day in range(self.hours.day_of(after_ms), self.hours.day_of(until_ms) + 1)
            for start, end in self.hours.on(day)
        )

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Begin one period from now, with the first tick that counts."""
        watermark, first = self.rate.start(now_ms)
        return watermark, None if first is None else self.next_after(watermark, first)


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
    """Return a cron that treats clock changes as the options say, if they do."""
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


def waits_for(job: ListedJob | Job) -> str:
    """Return what a job waits for until it has a next tick; empty if it waits for nothing."""
    if not is_waiting(job):
        return ""
    return shown_as(job.schedule_kind).waiting_for(job.schedule_value or "")


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
