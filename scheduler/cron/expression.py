"""Cron expressions with Quartz's syntax and semantics, or with cron's, in any time zone.

Six or seven fields: second minute hour day-of-month month day-of-week [year]. croniter expands
the plain fields, handed to it in the spellings on which it agrees with Quartz; L, W, #, weekday
numbers, years and daylight saving are ours (here and in `wall_clock`).

Quartz has three rules of its own for fields: a range may wrap around (`22-2`), `7/6` means from 7
to the field's end, and a step above its size is an error. What Quartz accepts and then ignores
(`MON-FRI/2`, `1-15W`, a step of 0) is refused, because it never does what it says.

A rule sees a month only as its length and the weekday of its first day, so each rule has at most
28 answers. Weekdays are Quartz's: 1 is Sunday, 7 is Saturday.

An expression matches *wall seconds*: seconds since 1970-01-01 00:00 on the wall clock of a place,
where every day has 86,400, so a `Pattern` knows nothing of time zones. The seconds of a day are the
product of hours, minutes and seconds, so they can be counted and picked without a loop; days are
looked through month by month.

Five fields are read as cron reads them: minute hour day-of-month month day-of-week. Weekdays are
0-7, both ends Sunday. A day fires if either day field matches; if one of them begins with `*`, both
must.
"""

import re
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from croniter import croniter

from warren.scheduler.cron.wall_clock import ClockChange, WallClock, load_zone
from warren.scheduler.problems import Code, Problem, Word, echo

_PLAIN = re.compile(
    r"(?:(?P<all>\*)|(?P<first>[A-Z]{3}|[0-9]{1,4})(?:-(?P<last>[A-Z]{3}|[0-9]{1,4}))?)?"
    r"(?:/(?P<step>[0-9]{1,4}))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the seven fields: what it is called and which numbers it takes."""

    name: Word
    low: int
    high: int
    names: tuple[str, ...] = ()
    wraps: bool = True

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.high - self.low + 1

    @property
    def max_step(self) -> int:
        """The longest step: 59 seconds, 23 hours, 31 days, 12 months, 7 weekdays."""
        return self.high

    def refusal(self, text: str) -> Problem:
        """Return the error for a text that is not a number of this field."""
        numbers = {"what": self.name, "least": self.low, "most": self.high, "got": echo(text)}
        if not self.names:
            return Problem(Code.CRON_NUMBER, **numbers)
        return Problem(
            Code.CRON_NUMBER_OR_NAME, first=self.names[0], last=self.names[-1], **numbers
        )


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` to `last` in steps; wraps around the field's end if `last` is smaller."""

    first: int
    last: int
    step: int

    def numbers(self, field: Field) -> Iterator[int]:
        """Yield the numbers, beginning with `first`."""
        last = self.last if self.last >= self.first else self.last + field.size
        for number in range(self.first, last + 1, self.step):
            yield (number - field.low) % field.size + field.low


SECOND = Field(Word.SECOND, 0, 59)
MINUTE = Field(Word.MINUTE, 0, 59)
HOUR = Field(Word.HOUR, 0, 23)
DAY_OF_MONTH = Field(Word.DAY_OF_MONTH, 1, 31)
MONTH = Field(
    Word.MONTH,
    1,
    12,
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
DAY_OF_WEEK = Field(Word.DAY_OF_WEEK, 1, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
#: Quartz gives up searching after 2999.
YEAR = Field(Word.YEAR, 1970, 2999, wraps=False)


def spans(field: Field, text: str) -> tuple[Span, ...]:
    """Read a whole field of plain items: numbers, names, ranges, steps, `*`, joined by commas.

    Raises `Problem` naming the field for anything else. An empty text has no spans.
    """
    if not text:
        return ()
    return tuple(dict.fromkeys(span(field, item) for item in text.split(",")))


def span(field: Field, item: str) -> Span:
    """Read one plain item of a field."""
    match = _PLAIN.fullmatch(item)
    if match is None or not item:
        raise field.refusal(item)
    start, step = match["first"], _step(field, item, match["step"])
    if start is None:
        return Span(field.low, field.high, step)
    if start.isalpha() and match["step"]:
        raise Problem(Code.CRON_STEP_OF_NAME, what=field.name, got=echo(item))
    first = number(field, start)
    if match["last"] is None:
        return Span(first, field.high if match["step"] else first, step)
    last = number(field, match["last"])
    if start.isalpha() != match["last"].isalpha() or (last < first and not field.wraps):
        raise field.refusal(item)
    return Span(first, last, step)


def number(field: Field, text: str) -> int:
    """Read one number or name of a field."""
    if text in field.names:
        return field.names.index(text) + field.low
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise field.refusal(text)
    return int(text)


def _step(field: Field, item: str, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if not 1 <= step <= field.max_step:
        raise Problem(Code.CRON_STEP, what=field.name, most=field.max_step, got=echo(item))
    return step


_SUNDAY, _SATURDAY, _WEEK = 1, 7, 7
#: `L-30` is the first of a month of 31 days.
_MAX_BEFORE_LAST = 30

_FROM_END = re.compile(r"L(?:-(?P<before>[0-9]{1,2}))?(?P<near>W)?")
_NEAR = re.compile(r"(?P<day>[0-9]{1,2})W")
_LAST_WEEKDAY = re.compile(r"(?P<day>[0-9]|[A-Z]{3})L")
_NTH_WEEKDAY = re.compile(r"(?P<day>[0-9]|[A-Z]{3})#(?P<nth>[0-9]{1,4})")


class DayRule(Protocol):
    """Says which days of a month are meant."""

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days of a month that starts on this weekday and has this many days."""


@dataclass(frozen=True, slots=True)
class MonthDays:
    """Days by number, those counted from the month's end, and the weekdays nearest to either."""

    numbers: frozenset[int] = frozenset()
    before_last: frozenset[int] = frozenset()
    near: frozenset[int] = frozenset()
    near_before_last: frozenset[int] = frozenset()

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days; a day that a short month lacks is left out, not moved."""
        exact = {*self.numbers, *(length - before for before in self.before_last)}
        moved = {*self.near, *(length - before for before in self.near_before_last)}
        near = {_nearest_weekday(day, first_weekday, length) for day in moved if 1 <= day <= length}
        return {day for day in exact if 1 <= day <= length} | near


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Every day that is one of these weekdays."""

    weekdays: frozenset[int]

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days of a month that starts on this weekday and has this many days."""
        return (d for d in range(1, length + 1) if _weekday(d, first_weekday) in self.weekdays)


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The nth occurrence of a weekday (`6#3`); none in a month that has fewer."""

    weekday: int
    nth: int

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        day = (self.weekday - first_weekday) % _WEEK + 1 + (self.nth - 1) * _WEEK
        return [day] if day <= length else []


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """The last occurrence of a weekday (`6L`)."""

    weekday: int

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the day, which every month has."""
        return [length - (_weekday(length, first_weekday) - self.weekday) % _WEEK]


def month_rule(text: str) -> tuple[MonthDays, str]:
    """Read day of month; return the rule of its L and W items, and the plain items left over.

    Raises `Problem` naming the field. The plain items are not checked.
    """
    sets: dict[str, set[int]] = {"before_last": set(), "near": set(), "near_before_last": set()}
    plain = []
    for item in text.split(","):
        if match := _FROM_END.fullmatch(item):
            kind = "near_before_last" if match["near"] else "before_last"
            sets[kind].add(_before_last(item, match["before"]))
        elif match := _NEAR.fullmatch(item):
            sets["near"].add(number(DAY_OF_MONTH, match["day"]))
        else:
            plain.append(item)
    return MonthDays(**{kind: frozenset(days) for kind, days in sets.items()}), ",".join(plain)


def week_rule(text: str) -> DayRule:
    """Read day of week. Raises `Problem` naming the field."""
    if text == "L":
        return Weekdays(frozenset({_SATURDAY}))
    if match := _LAST_WEEKDAY.fullmatch(text):
        return LastWeekday(number(DAY_OF_WEEK, match["day"]))
    if match := _NTH_WEEKDAY.fullmatch(text):
        nth = int(match["nth"])
        if not 1 <= nth <= 5:  # noqa: PLR2004 - no weekday comes six times a month
            raise Problem(Code.CRON_NTH_WEEKDAY, got=echo(text))
        return NthWeekday(number(DAY_OF_WEEK, match["day"]), nth)
    if "," in text and any(_is_special(item) for item in text.split(",")):
        raise Problem(Code.CRON_NOT_ALONE, got=echo(text))
    days = (day for span in spans(DAY_OF_WEEK, text) for day in span.numbers(DAY_OF_WEEK))
    return Weekdays(frozenset(days))


def _is_special(item: str) -> bool:
    return item == "L" or bool(_LAST_WEEKDAY.fullmatch(item) or _NTH_WEEKDAY.fullmatch(item))


def _before_last(item: str, text: str | None) -> int:
    before = int(text or 0)
    if before > _MAX_BEFORE_LAST:
        raise Problem(Code.CRON_BEFORE_LAST, got=echo(item))
    return before


def _weekday(day: int, first_weekday: int) -> int:
    return (first_weekday + day - 2) % _WEEK + 1


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """Return the nearest day from Monday to Friday in the same month."""
    weekday = _weekday(day, first_weekday)
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


DAY_SECONDS = 86_400
#: The ordinal (`date.toordinal`) of 1970-01-01.
_EPOCH_ORDINAL = 719_163
_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2


@dataclass(frozen=True, slots=True)
class DayTimes:
    """The seconds of a day at which an expression fires: all its hours, minutes and seconds."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def rank(self, second: int) -> int:
        """Count the firing seconds before this second of the day."""
        hour, rest = divmod(second, 3_600)
        minute, second = divmod(rest, 60)
        in_hours, hour_hit = _find(self.hours, hour)
        if not hour_hit:
            return in_hours * len(self.minutes) * len(self.seconds)
        in_minutes, minute_hit = _find(self.minutes, minute)
        in_seconds = bisect_left(self.seconds, second) if minute_hit else 0
        return (in_hours * len(self.minutes) + in_minutes) * len(self.seconds) + in_seconds

    def pick(self, rank: int) -> int:
        """Return the second with this many before it; the inverse of `rank`."""
        rest, second = divmod(rank, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3_600 + self.minutes[minute] * 60 + self.seconds[second]


@dataclass(frozen=True, slots=True)
class Days:
    """The days on which an expression fires, as days since 1970-01-01."""

    years: Sequence[int]
    months: tuple[int, ...]
    rule: DayRule
    _known: dict[tuple[int, int], tuple[int, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def first_from(self, day: int) -> int | None:
        """Return the first day that is not before this one; None if none is left."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        for year, month in self._months_from(start.year, start.month):
            zeroth, days = self._month(year, month)
            index = bisect_left(days, day - zeroth)
            if index < len(days):
                return zeroth + days[index]
        return None

    def last_before(self, day: int) -> int | None:
        """Return the last day before this one; None if there is none."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        for year, month in self._months_back_from(start.year, start.month):
            zeroth, days = self._month(year, month)
            index = bisect_left(days, day - zeroth)
            if index:
                return zeroth + days[index - 1]
        return None

    def count(self, start: int, end: int) -> int:
        """Count how many days from `start` to before `end`."""
        first, last = (date.fromordinal(day + _EPOCH_ORDINAL) for day in (start, end))
        total = 0
        for year, month in self._months_from(first.year, first.month):
            if (year, month) > (last.year, last.month):
                break
            zeroth, days = self._month(year, month)
            total += bisect_left(days, end - zeroth) - bisect_left(days, start - zeroth)
        return total

    def _months_from(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        for year_at in range(bisect_left(self.years, year), len(self.years)):
            for month_of in self.months:
                if self.years[year_at] > year or month_of >= month:
                    yield self.years[year_at], month_of

    def _months_back_from(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        for year_at in range(bisect_left(self.years, year + 1) - 1, -1, -1):
            for month_of in reversed(self.months):
                if self.years[year_at] < year or month_of <= month:
                    yield self.years[year_at], month_of

    def _month(self, year: int, month: int) -> tuple[int, tuple[int, ...]]:
        """Return the day before the month's first, and the days of the month that match."""
        ordinal = date(year, month, 1).toordinal()
        length = 29 if month == _FEBRUARY and isleap(year) else _MONTH_LENGTHS[month]
        shape = (ordinal % 7 + 1, length)
        days = self._known.get(shape)
        if days is None:
            days = self._known[shape] = tuple(sorted(self.rule.days(*shape)))
        return ordinal - _EPOCH_ORDINAL - 1, days


@dataclass(frozen=True, slots=True)
class Pattern:
    """All wall seconds at which an expression fires."""

    days: Days
    times: DayTimes

    def first_from(self, wall: int) -> int | None:
        """Return the first wall second that is not before this one; None if none is left."""
        day, second = divmod(wall, DAY_SECONDS)
        rank = self.times.rank(second)
        day_from = self.days.first_from(day if rank < len(self.times) else day + 1)
        if day_from is None:
            return None
        return day_from * DAY_SECONDS + self.times.pick(rank if day_from == day else 0)

    def last_before(self, wall: int) -> int | None:
        """Return the last wall second before this one; None if there is none."""
        day, second = divmod(wall, DAY_SECONDS)
        rank = self.times.rank(second)
        day_before = self.days.last_before(day + 1 if rank else day)
        if day_before is None:
            return None
        return day_before * DAY_SECONDS + self.times.pick(
            (rank if day_before == day else len(self.times)) - 1
        )

    def count(self, start: int, end: int) -> int:
        """Count how many from `start` to before `end`, which is not smaller."""
        return self._count_before(end, start // DAY_SECONDS) - self._count_before(
            start, start // DAY_SECONDS
        )

    def _count_before(self, wall: int, since_day: int) -> int:
        day, second = divmod(wall, DAY_SECONDS)
        today = self.times.rank(second) if self.days.first_from(day) == day else 0
        return self.days.count(since_day, day) * len(self.times) + today


def _find(numbers: tuple[int, ...], number: int) -> tuple[int, bool]:
    index = bisect_left(numbers, number)
    return index, index < len(numbers) and numbers[index] == number


#: The longest expression, in characters; all seven fields written out as lists need about 600.
MAX_LENGTH = 1_000
#: Nothing fires outside these instants, which are all within the range of `datetime`.
_EARLIEST, _LATEST = -2 * 86_400, 32_503_852_800  # 1969-12-30 and 3000-01-03
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ANY_DAY = "?"
_CRONITERS_ORDER = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, SECOND)


class WallSeconds(Protocol):
    """A set of wall seconds, such as a `Pattern`."""

    def first_from(self, wall: int) -> int | None:
        """Return the first that is not before this wall second; None if none is left."""

    def last_before(self, wall: int) -> int | None:
        """Return the last before this wall second; None when there is none."""

    def count(self, start: int, end: int) -> int:
        """Count how many from `start` to before `end`, which is not smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class Cron:
    """A compiled expression in its time zone. Instants are epoch milliseconds.

    What fires is one fixed set of whole seconds: all three questions are asked of that set. Wall
    seconds that the clock skips never fire, or together right after it (`runs_after_gap`). Those
    that come twice fire when `clock` says, and with `again` at the other coming too.
    """

    pattern: WallSeconds
    clock: WallClock
    runs_after_gap: bool = False
    again: WallClock | None = None

    @staticmethod
    def parse(expression: str, timezone: str) -> "Cron":
        """Compile an expression, or return it from the cache of the last 4,096.

        Raises `Problem` naming the field at fault, or the unknown time zone.
        """
        return _compile(expression, timezone)

    def next_after(self, after_ms: int) -> int | None:
        """Return the first fire after this instant; None if there is none up to the year 2999."""
        start = _second_after(after_ms)
        wall = self.clock.wall_from(start)
        fire = self._next(self.clock, wall)
        if self.again is None or (other := self.again.wall_from(start)) == wall:
            return fire  # before anything that comes twice can fire again, it fires once
        again = self._next(self.again, other)
        return min((each for each in (fire, again) if each is not None), default=None)

    def last_until(self, after_ms: int, until_ms: int) -> int | None:
        """Return the last fire after `after_ms` and not after `until_ms`; None if there is none."""
        fire = self._last(self.clock, after_ms, until_ms)
        if self.again is None:
            return fire
        other = self._last(self.again, after_ms, until_ms)
        return max((each for each in (fire, other) if each is not None), default=None)

    def count(self, after_ms: int, until_ms: int) -> int:
        """Count the fires after `after_ms` and not after `until_ms`, by arithmetic."""
        if until_ms <= after_ms:
            return 0
        start, end = _second_after(after_ms), _second_after(until_ms)
        total = self.pattern.count(self.clock.wall_from(start), self.clock.wall_from(end))
        for change in self.clock.changes(start - DAY_SECONDS, end):
            if change.is_gap:
                total += self._in_gap(change, start, end)
            elif self.again is not None:
                # Of its second coming, what lies in the span.
                last = min(end, change.instant + change.before - change.after)
                first = min(max(start, change.instant), last)
                total += self.pattern.count(first + change.after, last + change.after)
        return total

    def fires_in(self, change: ClockChange) -> bool:
        """Whether something fires at a wall second that a change leaves out or has twice."""
        return self.pattern.count(*change.walls) > 0

    def _in_gap(self, gap: ClockChange, start: int, end: int) -> int:
        """Return what a gap adds to a count of wall seconds from one instant to before another."""
        left_out = self.pattern.count(*gap.walls) if start < gap.instant <= end else 0
        if not self.runs_after_gap or not start <= gap.instant < end:
            return -left_out
        # What fires right after the gap only because of what the gap leaves out.
        is_extra = self.fires_in(gap) and self.pattern.first_from(gap.walls[1]) != gap.walls[1]
        return is_extra - left_out

    def _next(self, clock: WallClock, wall: int | None) -> int | None:
        while wall is not None and (wall := self.pattern.first_from(wall)) is not None:
            instant = clock.instant_of(wall)
            if instant is not None:
                return instant * 1_000
            _, after_gap = clock.gap_around(wall)
            if self.runs_after_gap:
                return _right_after(clock, after_gap)
            wall = after_gap
        return None

    def _last(self, clock: WallClock, after_ms: int, until_ms: int) -> int | None:
        wall: int | None = clock.wall_from(_second_after(until_ms))
        while wall is not None and (wall := self.pattern.last_before(wall)) is not None:
            instant = clock.instant_of(wall)
            if instant is not None:
                return instant * 1_000 if instant * 1_000 > after_ms else None
            wall, after_gap = clock.gap_around(wall)
            if self.runs_after_gap and _right_after(clock, after_gap) <= until_ms:
                change_ms = _right_after(clock, after_gap)
                return change_ms if change_ms > after_ms else None
        return None


def _right_after(clock: WallClock, after_gap: int) -> int:
    """Return the instant of the first wall second after a gap."""
    instant = clock.instant_of(after_gap)
    assert instant is not None
    return instant * 1_000


def next_fires(expression: str, *, after: datetime, timezone: str, count: int) -> list[datetime]:
    """Return the next `count` fires strictly after an aware datetime, aware in `timezone`.

    There may be fewer, or none, up to the year 2999. Raises `ValueError` naming the field at fault,
    an unknown time zone, or a naive `after`.
    """
    if after.tzinfo is None:
        raise ValueError(f"expected after to be an aware datetime, got: {after!r}")
    cron = Cron.parse(expression, timezone)
    fires: list[datetime] = []
    at_ms = (after - _EPOCH) // _MILLISECOND
    while len(fires) < count and (next_ms := cron.next_after(at_ms)) is not None:
        fires.append(datetime.fromtimestamp(next_ms // 1_000, cron.clock.zone))
        at_ms = next_ms
    return fires


def _second_after(instant_ms: int) -> int:
    return min(max(instant_ms // 1_000 + 1, _EARLIEST), _LATEST)


@lru_cache(maxsize=4_096)
def _compile(expression: str, timezone: str) -> Cron:
    clock = WallClock(load_zone(timezone))
    if len(expression) > MAX_LENGTH:
        raise Problem(Code.CRON_TOO_LONG, most=MAX_LENGTH, got=len(expression))
    fields = expression.upper().split()
    if len(fields) not in {6, 7}:
        raise Problem(Code.CRON_FIELD_COUNT, count=len(fields), got=echo(expression))
    return Cron(_pattern(fields), clock)


def _pattern(fields: Sequence[str]) -> Pattern:
    second, minute, hour, month_day, month, weekday, year = (*fields, "*")[:7]
    rule, plain_days = _day_rule(month_day, weekday)
    plain = {SECOND: second, MINUTE: minute, HOUR: hour, DAY_OF_MONTH: plain_days, MONTH: month}
    numbers = {field: _expand(field, text) for field, text in plain.items()}
    if isinstance(rule, MonthDays) and plain_days:
        rule = replace(rule, numbers=frozenset(numbers[DAY_OF_MONTH]))
    return Pattern(
        Days(_years(year), numbers[MONTH], rule),
        DayTimes(numbers[HOUR], numbers[MINUTE], numbers[SECOND]),
    )


def _day_rule(month_day: str, weekday: str) -> tuple[DayRule, str]:
    """Read both day fields; return the rule, and the plain days of month, not expanded yet."""
    if (month_day == _ANY_DAY) == (weekday == _ANY_DAY):
        raise Problem(Code.CRON_DAY_FIELDS, days=echo(month_day), weekdays=echo(weekday))
    return month_rule(month_day) if weekday == _ANY_DAY else (week_rule(weekday), "")


def _years(text: str) -> Sequence[int]:
    if text == "*":
        return range(YEAR.low, YEAR.high + 1)
    return sorted({year for span in spans(YEAR, text) for year in span.numbers(YEAR)})


@lru_cache(maxsize=4_096)
def _expand(field: Field, text: str) -> tuple[int, ...]:
    """Have croniter expand a field; it expects fields in the order of cron, with seconds last.

    Fields are cached one by one: thousands of jobs share fields, but not whole expressions.
    """
    position = _CRONITERS_ORDER.index(field)
    fields = ["*"] * len(_CRONITERS_ORDER)
    fields[position] = _spell(field, spans(field, text))
    expanded, _ = croniter.expand(" ".join(fields))
    values = expanded[position]
    return tuple(range(field.low, field.high + 1) if values == ["*"] else map(int, values))


def _spell(field: Field, field_spans: Iterable[Span]) -> str:
    """Write a field so that croniter reads it as Quartz does.

    They agree on every `a-b/s` with a < b (all 230,415 were compared); but to croniter `5-5` is
    `*`, and `22-2/3` starts again at the field's low end.
    """
    items = (
        f"{span.first}-{span.last}/{span.step}"
        if span.first < span.last
        else ",".join(str(number) for number in span.numbers(field))
        for span in field_spans
    )
    return ",".join(items) or "*"


_FIELDS = (
    replace(MINUTE, wraps=False),
    replace(HOUR, wraps=False),
    replace(DAY_OF_MONTH, wraps=False),
    replace(MONTH, wraps=False),
    replace(DAY_OF_WEEK, low=0, high=7, wraps=False),
)


@dataclass(frozen=True, slots=True)
class EitherOrBoth:
    """The days that either of two rules means; with `both`, those that both mean."""

    first: DayRule
    second: DayRule
    both: bool

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days of a month that starts on this weekday and has this many days."""
        first = set(self.first.days(first_weekday, length))
        second = set(self.second.days(first_weekday, length))
        return first & second if self.both else first | second


def as_the_daemon(expression: str, cron: Cron) -> Cron:
    """Return the compiled fields with the cron daemon's rule at clock changes.

    If minute or hour begin with `*`, they go by what the clock shows: on through an hour that comes
    twice, and nothing is made good of one that is left out. Fixed times run once: the first time of
    two, and right after a gap.
    """
    goes_on = any(field.startswith("*") for field in expression.split()[:2])
    return replace(
        cron,
        clock=WallClock(cron.clock.zone, is_first=True),
        runs_after_gap=not goes_on,
        again=cron.clock if goes_on else None,
    )


@lru_cache(maxsize=4_096)
def unix_cron(expression: str, timezone: str) -> Cron:
    """Compile five fields; times that a clock change leaves out run right after it.

    Of times that come twice, the second ones run; `as_the_daemon` has another rule.

    Raises `Problem` naming the field at fault, or the unknown time zone.
    """
    clock = WallClock(load_zone(timezone))
    if len(expression) > MAX_LENGTH:
        raise Problem(Code.CRON_TOO_LONG, most=MAX_LENGTH, got=len(expression))
    texts = expression.upper().split()
    if len(texts) != len(_FIELDS):
        raise Problem(Code.UNIX_CRON_FIELD_COUNT, count=len(texts), got=echo(expression))
    minutes, hours, days, months, weekdays = map(_numbers, _FIELDS, texts)
    rule = EitherOrBoth(
        MonthDays(frozenset(days)),
        Weekdays(frozenset(number % 7 + 1 for number in weekdays)),
        both=texts[2].startswith("*") or texts[4].startswith("*"),
    )
    years = range(YEAR.low, YEAR.high + 1)
    pattern = Pattern(Days(years, months, rule), DayTimes(hours, minutes, (0,)))
    return Cron(pattern, clock, runs_after_gap=True)


def _numbers(field: Field, text: str) -> tuple[int, ...]:
    numbers: set[int] = set()
    for item, walk in zip(
        text.split(","), (spans(field, item) for item in text.split(",")), strict=True
    ):
        if not item or not walk:
            raise field.refusal(item)
        numbers.update(number for each in walk for number in each.numbers(field))
    return tuple(sorted(numbers))
