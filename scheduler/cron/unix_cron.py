"""Five fields as cron reads them: minute hour day-of-month month day-of-week.

Weekdays are 0-7, both ends Sunday. A day fires if either day field matches; if one of them begins
with `*`, both must. `scheduler/cron/expression.py` has the six fields of Quartz.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from warren.scheduler.cron.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    YEAR,
    DayRule,
    Field,
    MonthDays,
    Weekdays,
    echo,
    spans,
)
from warren.scheduler.cron.expression import MAX_LENGTH, Cron, Days, DayTimes, Pattern
from warren.scheduler.cron.wall_clock import WallClock, load_zone
from warren.scheduler.problems import Code, Problem

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
