"""Cron expressions with Quartz's syntax and semantics, in any time zone.

Six or seven fields: second minute hour day-of-month month day-of-week [year]. croniter expands
the plain fields, handed to it in the spellings on which it agrees with Quartz; L, W, #, weekday
numbers, years and daylight saving are ours (`cron_fields`, `days`, `wall_clock`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from croniter import croniter

from warren.scheduler.cron.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    Span,
    echo,
    spans,
)
from warren.scheduler.cron.days import DayRule, MonthDays, month_rule, week_rule
from warren.scheduler.cron.pattern import Days, DayTimes, Pattern
from warren.scheduler.cron.wall_clock import WallClock, load_zone
from warren.scheduler.problems import Code, Problem

#: Longest expression, in characters; all seven fields written out as lists need about 600.
LONGEST_EXPRESSION = 1_000
#: Instants outside these fire nothing, and this keeps them within what `datetime` can show.
_EARLIEST, _LATEST = -2 * 86_400, 32_503_852_800  # 1969-12-30 and 3000-01-03
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ANY_DAY = "?"
_CRONITERS_ORDER = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, SECOND)


@dataclass(frozen=True, slots=True, eq=False)
class Cron:
    """A compiled expression in its time zone. Instants are epoch milliseconds.

    What fires is one fixed set of whole seconds: all three questions are asked of that set.
    """

    pattern: Pattern
    clock: WallClock

    @staticmethod
    def parse(expression: str, timezone: str) -> "Cron":
        """Compile, or return what was compiled before (the last 4,096 are kept).

        Raises `Problem` naming the field at fault, or the unknown time zone.
        """
        return _compile(expression, timezone)

    def next_after(self, after_ms: int) -> int | None:
        """Return the first fire after this instant; None when there is none up to the year 2999."""
        wall: int | None = self._wall_after(after_ms)
        while wall is not None and (wall := self.pattern.first_from(wall)) is not None:
            instant = self.clock.instant_of(wall)
            if instant is not None:
                return instant * 1_000
            _, wall = self.clock.gap_around(wall)
        return None

    def last_until(self, after_ms: int, until_ms: int) -> int | None:
        """Return the last fire after `after_ms` and not after `until_ms`; None if there is none."""
        wall: int | None = self._wall_after(until_ms)
        while wall is not None and (wall := self.pattern.last_before(wall)) is not None:
            instant = self.clock.instant_of(wall)
            if instant is not None:
                return instant * 1_000 if instant * 1_000 > after_ms else None
            wall, _ = self.clock.gap_around(wall)
        return None

    def count(self, after_ms: int, until_ms: int) -> int:
        """Count the fires after `after_ms` and not after `until_ms`, by arithmetic."""
        if until_ms <= after_ms:
            return 0
        total = self.pattern.count(self._wall_after(after_ms), self._wall_after(until_ms))
        skipped = self.clock.gaps(_second_after(after_ms), _second_after(until_ms))
        return total - sum(self.pattern.count(start, end) for start, end in skipped)

    def _wall_after(self, instant_ms: int) -> int:
        return self.clock.wall_from(_second_after(instant_ms))


def next_fires(expression: str, *, after: datetime, timezone: str, count: int) -> list[datetime]:
    """Return the next `count` fires strictly after an aware datetime, aware in `timezone`.

    Fewer, even none, when no more exist up to the year 2999. Raises `ValueError` naming the field
    at fault, an unknown time zone, or a naive `after`.
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
    if len(expression) > LONGEST_EXPRESSION:
        raise Problem(Code.CRON_TOO_LONG, most=LONGEST_EXPRESSION, got=len(expression))
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
    """Read both day fields; return the rule, and the plain days of month still to be expanded."""
    if (month_day == _ANY_DAY) == (weekday == _ANY_DAY):
        raise Problem(Code.CRON_DAY_FIELDS, days=echo(month_day), weekdays=echo(weekday))
    return month_rule(month_day) if weekday == _ANY_DAY else (week_rule(weekday), "")


def _years(text: str) -> Sequence[int]:
    if text == "*":
        return range(YEAR.low, YEAR.high + 1)
    return sorted({year for walk in spans(YEAR, text) for year in walk.numbers(YEAR)})


@lru_cache(maxsize=4_096)
def _expand(field: Field, text: str) -> tuple[int, ...]:
    """Have croniter expand a field; it knows them in the order of cron, with seconds last.

    A field alone, as jobs by the thousand share their fields and not their expressions.
    """
    place = _CRONITERS_ORDER.index(field)
    spelt = ["*"] * len(_CRONITERS_ORDER)
    spelt[place] = _spell(field, spans(field, text))
    expanded, _ = croniter.expand(" ".join(spelt))
    found = expanded[place]
    return tuple(range(field.low, field.high + 1) if found == ["*"] else map(int, found))


def _spell(field: Field, walks: Iterable[Span]) -> str:
    """Spell a field so that croniter means by it what Quartz means.

    They agree on every `a-b/s` with a < b (all 230,415 were compared); but to croniter `5-5` is
    `*`, and `22-2/3` starts anew at the field's low end.
    """
    items = (
        f"{walk.first}-{walk.last}/{walk.step}"
        if walk.first < walk.last
        else ",".join(str(number) for number in walk.numbers(field))
        for walk in walks
    )
    return ",".join(items) or "*"
