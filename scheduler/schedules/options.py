"""What narrows and moves the ticks of a schedule, as written: window, calendar, jitter and so on.

Kept as canonical JSON, in the job and in its history, so that every tick can be computed again. A
calendar moves the days that a schedule means to others.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, Self
from zoneinfo import ZoneInfo

from warren.broker import durations
from warren.scheduler.cron.expression import Days
from warren.scheduler.problems import Code, Problem, found, unknown_word
from warren.scheduler.problems import FieldName as Name
from warren.scheduler.schedules.working_days import (
    MAX_MOVE_DAYS,
    CalendarVersion,
    date_of,
    day_of,
)

_DECEMBER = 12


class OnHoliday(StrEnum):
    """What becomes of a due time on a day off."""

    SKIP = "skip"
    NEXT = "next"
    PREVIOUS = "previous"


class NominalDays(Protocol):
    """Days that a calendar moves: how it is asked by `CalendarPlan`.

    `reach_back` and `reach_ahead` are how many days an actual day is at most after and before its
    nominal day; `moves_back` is whether it may come before it, or has no instant of its own.
    """

    reach_back: int
    reach_ahead: int
    moves_back: bool
    decided_by_nominal: bool

    def first_from(self, day: int) -> int | None:
        """Return the first nominal day from this one on."""

    def last_before(self, day: int) -> int | None:
        """Return the last nominal day before this one."""

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the nominal days whose times a version of the calendar moves to this day."""

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the day to which a version moves a nominal day's times."""

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the days up to this one to which a version moves later times."""


class MovedDays:
    """The days of an expression, moved off the days off."""

    def __init__(self, days: Days, on_holiday: OnHoliday) -> None:
        self._days = days
        self._on_holiday = on_holiday
        self.first_from = days.first_from
        self.last_before = days.last_before
        self.reach_back = MAX_MOVE_DAYS if on_holiday is OnHoliday.NEXT else 0
        self.reach_ahead = MAX_MOVE_DAYS if on_holiday is OnHoliday.PREVIOUS else 0
        self.moves_back = on_holiday is OnHoliday.PREVIOUS
        self.decided_by_nominal = on_holiday is OnHoliday.NEXT

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the day itself if it is meant, and days off next to it that move there."""
        if day > version.until_day or not version.is_working(day):
            return []
        moved: Iterable[int] = ()
        if self._on_holiday is OnHoliday.NEXT:
            moved = version.off_days_before(day)
        elif self._on_holiday is OnHoliday.PREVIOUS:
            moved = version.off_days_after(day)
        return [each for each in (day, *moved) if self.first_from(each) == each]

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the nearest working day in the direction of the move."""
        if self._on_holiday is OnHoliday.PREVIOUS:
            return version.working_until(nominal)
        if self._on_holiday is OnHoliday.NEXT:
            return version.working_from(nominal)
        known = nominal <= version.until_day and version.is_working(nominal)
        return nominal if known else None

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the last working day, if times move back to it."""
        last = version.working_until(day) if self.moves_back else None
        return set() if last is None else {last}


class MonthWorkdays:
    """The nth working day of each month, or from its end; a month's first day stands for it."""

    reach_back = MAX_MOVE_DAYS
    reach_ahead = 0
    moves_back = True
    decided_by_nominal = False

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._known: dict[tuple[int, int], int | None] = {}

    def first_from(self, day: int) -> int | None:
        """Return the first of a month."""
        on = date_of(day)
        if on.day == 1:
            return day
        year, month = divmod(on.year * _DECEMBER + on.month, _DECEMBER)
        return day_of(on.replace(year=year, month=month + 1, day=1))

    def last_before(self, day: int) -> int:
        """Return the first of the month before, or of this one."""
        return day_of(date_of(day - 1).replace(day=1))

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the month of a day that is its nth working day."""
        month = day_of(date_of(day).replace(day=1))
        return [month] if self.actual(version, month) == day else []

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the nth working day of a month; None if it has fewer, or is not known whole."""
        key = (id(version), nominal)
        if key not in self._known:
            self._known[key] = self._of_month(version, nominal)
        return self._known[key]

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the day of this month and of the month before, if it has come."""
        this_month = self.last_before(day + 1)
        months = (this_month, self.last_before(this_month))
        days = (self.actual(version, month) for month in months)
        return {each for each in days if each is not None and each <= day}

    def _of_month(self, version: CalendarVersion, first: int) -> int | None:
        end = self.first_from(first + 1) or first
        if end - 1 > version.until_day and self._nth < 0:
            return None
        known = range(first, min(end, version.until_day + 1))
        working = [day for day in known if version.is_working(day)]
        at = self._nth - 1 if self._nth > 0 else self._nth
        return working[at] if -len(working) <= at < len(working) else None


#: The names of calendars.
CALENDAR_PATTERN = r"[a-z][a-z0-9-]{0,31}"
GAPS = ("skip", "run_after")
#: The longest jitter, in seconds.
MAX_JITTER = 86_400
#: The rule by which new and edited schedules are read. 1: a unix_cron fires like a cron at clock
#: changes, but right after a gap; a rate that begins after its `from` has a rhythm of its own. 2: a
#: unix_cron follows the cron daemon's rule, and a rate always has the rhythm of its `from`.
NEWEST_RULE = 2
DAY_SECONDS = 86_400

_WINDOW = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})", re.ASCII)
_MILLISECOND = timedelta(milliseconds=1)
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class Window:
    """Times of day in seconds, from `start` to `end`, both included; may cross midnight."""

    start: int
    end: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a text such as `08:00-20:00`; raises `Problem`."""
        match = _WINDOW.fullmatch(text.strip())
        parts = [int(part) for part in match.groups()] if match else [0, 60, 0, 60]
        start, end = parts[0] * 60 + parts[1], parts[2] * 60 + parts[3]
        is_time = max(parts[1], parts[3]) < 60 and start < 1_440 and end <= 1_440  # noqa: PLR2004
        if not is_time or start == end:
            raise Problem(Code.WINDOW, "window", got=text[:100])
        return cls(start * 60, end * 60)

    def __str__(self) -> str:
        return "-".join(f"{at // 3_600:02}:{at // 60 % 60:02}" for at in (self.start, self.end))

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return the seconds of a day that it has, each span from its first to before its second.

        One that crosses midnight has two on each day.
        """
        if self.start < self.end:
            return ((self.start, min(self.end + 1, DAY_SECONDS)),)
        return ((0, self.end + 1), (self.start, DAY_SECONDS))

    def seconds_left(self, second: int) -> int:
        """Return the seconds from a second of a day, which it has, to its end."""
        end = self.end
        if self.start > self.end and second >= self.start:
            end += DAY_SECONDS
        return max(0, end - second)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """The options of a schedule; empty = as without it. Valid values are in canonical form.

    Attributes:
        calendar: the name of the calendar whose days off count.
        on_holiday: what happens to a due time on a day off: `skip`, `next` or `previous`.
        window: the times of day between which due times count: `08:00-20:00`.
        jitter: up to how long after its due time a run begins: `5m`.
        gap: what happens to times that a clock change leaves out: `skip` or `run_after`.
        begin: the first date, or date and time, of due times: `from` in a job file.
        until: the last one.
        rule: by which rule a kind that has several is read. People never give it: a stored
            schedule keeps its own until it is edited or moved, so it does not count as a
            difference. Stored options without it have rule 1.

    """

    calendar: str = ""
    on_holiday: str = ""
    window: str = ""
    jitter: str = ""
    gap: str = ""
    begin: str = ""
    until: str = ""
    rule: int = field(default=NEWEST_RULE, compare=False)

    def __post_init__(self) -> None:
        for name, canonical in _CANONICAL.items():
            text = getattr(self, name).strip()
            object.__setattr__(self, name, canonical(text) if text else "")

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in OPTIONS.values())

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the options among values by their keys in a job file; others are ignored."""
        said: Any = {name: str(values[key]) for key, name in OPTIONS.items() if values.get(key)}
        return cls(**said)

    @classmethod
    def from_json(cls, stored: str | None) -> "ScheduleOptions":
        """Return what a column holds."""
        return _read(stored) if stored else _FIRST_RULE

    def to_json(self) -> str | None:
        """Return the canonical form that is stored; None if there is nothing to store."""
        said = self.given() | ({"rule": self.rule} if self.rule > 1 else {})
        return json.dumps(said, sort_keys=True, separators=(",", ":")) if said else None

    def by_rule(self, rule: int) -> "ScheduleOptions":
        if rule == self.rule:
            return self
        return replace(self, rule=rule) if self or rule > 1 else _FIRST_RULE

    def given(self) -> dict[str, str]:
        """Return the options that are set, by their keys in a job file."""
        return {key: value for key, name in OPTIONS.items() if (value := getattr(self, name))}

    def __str__(self) -> str:
        return ", ".join(f"{key}: {value}" for key, value in self.given().items())

    def check(self) -> None:
        """Raise `Problem` for the first option that is not as it should be."""
        for problem in self.problems():
            raise problem

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with the options, whatever the schedule."""
        if self.calendar and not re.fullmatch(CALENDAR_PATTERN, self.calendar):
            facts = {"pattern": CALENDAR_PATTERN, "got": self.calendar[:100]}
            yield Problem(Code.CALENDAR_NAME, "calendar", **facts)
        for key, known in (("on_holiday", tuple(OnHoliday)), ("gap", GAPS)):
            value = getattr(self, key)
            if value and value not in known:
                yield unknown_word(key, Name(key), value, known)
        if self.on_holiday and not self.calendar:
            yield Problem(Code.ON_HOLIDAY_ALONE, "on_holiday")
        if self.jitter and not self.jitter_seconds:
            yield Problem(Code.JITTER, "jitter", got=self.jitter[:100])
        wrong = [
            *(found(lambda: _instant(self.begin, _UTC, "from")) if self.begin else ()),
            *(found(lambda: _instant(self.until, _UTC, "until")) if self.until else ()),
        ]
        yield from wrong or found(lambda: self.bounds_ms(_UTC))
        if self.window:
            yield from found(lambda: Window.read(self.window))

    @property
    def opening(self) -> Window | None:
        return Window.read(self.window) if self.window else None

    @property
    def jitter_seconds(self) -> int:
        """Its jitter; 0 = none, or it is not a duration of a whole second to a day."""
        seconds = durations.whole_seconds(self.jitter) or 0
        return seconds if seconds <= MAX_JITTER else 0

    def bounds_ms(self, zone: ZoneInfo) -> tuple[int | None, int | None]:
        """Return the first and the last instant of due times; None = no bound.

        Raises:
            Problem: one is not a date or time, or they are the wrong way round.

        """
        begin = _instant(self.begin, zone, "from") if self.begin else None
        until = _instant(self.until, zone, "until", is_end=True) if self.until else None
        if begin is not None and until is not None and begin > until:
            raise Problem(Code.FROM_AFTER_UNTIL, "from", begin=self.begin, until=self.until)
        return begin, until


#: The options by their keys in a job file.
OPTIONS: Mapping[str, str] = {
    "from" if each.name == "begin" else each.name: each.name
    for each in fields(ScheduleOptions)
    if each.compare
}


def _instant(text: str, zone: ZoneInfo, key: str, *, is_end: bool = False) -> int:
    at: datetime | None = None
    try:
        if len(text) == len("2026-12-01"):
            day = date.fromisoformat(text)
            at = datetime.combine(day, time.max if is_end else time.min, zone)
        elif "T" in text:
            at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo not in (None, zone):
        raise Problem(Code.SCHEDULE_BOUND, key, what=key, got=text[:100])
    # Of a time that comes twice, the second one is the end.
    at = at.replace(tzinfo=zone, fold=1 if is_end else 0)
    try:
        return int(at.timestamp() * 1_000)
    except (OverflowError, ValueError) as error:
        raise Problem(Code.SCHEDULE_BOUND, key, what=key, got=text[:100]) from error


def _window(text: str) -> str:
    try:
        return str(Window.read(text))
    except Problem:
        return text


def _duration(text: str) -> str:
    seconds = durations.whole_seconds(text)
    return durations.shown(seconds) if seconds else text


def _bound(text: str) -> str:
    """Return a date, or a date and time with a `T` between and no zero seconds."""
    if "T" in text.replace(" ", "T"):
        return (
            text.replace(" ", "T").removesuffix(":00")
            if text.count(":") > 1
            else text.replace(" ", "T")
        )
    return text


_CANONICAL: Mapping[str, Any] = {
    "calendar": str,
    "on_holiday": str,
    "window": _window,
    "jitter": _duration,
    "gap": str,
    "begin": _bound,
    "until": _bound,
}
NO_OPTIONS = ScheduleOptions()
_FIRST_RULE = ScheduleOptions(rule=1)


@lru_cache(maxsize=4_096)
def _read(stored: str) -> ScheduleOptions:
    """Read JSON; thousands of jobs have the same."""
    said = json.loads(stored)
    return replace(ScheduleOptions.of(said), rule=int(said.get("rule", 1)))
