"""Cron expressions in words of a language: what the fields say, not when they fire.

Pure. What each language calls things stands in `cron_tongues`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.cron import Cron
from scheduler.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    Span,
    spans,
)
from scheduler.cron_tongues import CHINESE, ENGLISH, Tongue

#: Most times of day that are listed one by one.
LISTED_TIMES = 6
_TONGUES = {"en": ENGLISH, "zh": CHINESE}


def cron_words(expression: str, language: str) -> str:
    """Return an expression in words; `language` is a tag such as `en` or `zh-CN`.

    Any other language than Chinese gets English. Raises `ValueError` like `Cron.parse`.
    """
    Cron.parse(expression, "UTC")
    fields = expression.upper().split()
    second, minute, hour, month_day, month, weekday, year = (*fields, "*")[:7]
    tongue = _TONGUES.get(language.partition("-")[0], ENGLISH)
    day = _weekdays(tongue, weekday) if month_day == "?" else _month_days(tongue, month_day)
    return tongue.sentence(
        time=_times(tongue, _Part(SECOND, second), _Part(MINUTE, minute), _Part(HOUR, hour)),
        # "Every minute" says it already.
        day=day if day != tongue.every_day or _Part(HOUR, hour).singles else "",
        month=_named(tongue.in_months, month, lambda text: _months(tongue, text)),
        year=_named(tongue.in_years, year, lambda text: _numbers(tongue, YEAR, text)),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """One field of a time of day."""

    field: Field
    text: str

    @property
    def spans(self) -> tuple[Span, ...]:
        return spans(self.field, self.text)

    @property
    def is_all(self) -> bool:
        return self.spans == (Span(self.field.low, self.field.high, 1),)

    @property
    def singles(self) -> list[int]:
        """The numbers, when each of them is named; none otherwise."""
        found = self.spans
        return [one.first for one in found] if all(one.first == one.last for one in found) else []

    @property
    def step(self) -> Span | None:
        """The walk, when the whole field is one in steps to its end."""
        found = self.spans
        is_step = len(found) == 1 and found[0].step > 1 and found[0].last == self.field.high
        return found[0] if is_step else None


def _times(tongue: Tongue, second: _Part, minute: _Part, hour: _Part) -> str:
    if len(second.singles) == 1:
        return _whole_minutes(tongue, second.singles[0], minute, hour)
    if minute.is_all and second.is_all:
        return tongue.with_hours(tongue.every_second, _hours(tongue, hour))
    if minute.is_all and second.step:
        every = _steps(tongue.every_seconds, tongue.from_second, second.step)
        return tongue.with_hours(every, _hours(tongue, hour))
    return _field_by_field(tongue, second, minute, hour)


def _whole_minutes(tongue: Tongue, second: int, minute: _Part, hour: _Part) -> str:
    times = [(h, m) for h in hour.singles for m in minute.singles]
    if times and len(times) <= LISTED_TIMES:
        return tongue.at_times.format(tongue.comma.join(_clock(*time, second) for time in times))
    if len(minute.singles) == 1:
        return _hourly(tongue, minute.singles[0], second, hour)
    at_second = tongue.at_second.format(second) if second else ""
    if minute.is_all:
        return tongue.with_hours(tongue.every_minute + at_second, _hours(tongue, hour))
    if minute.step:
        every = _steps(tongue.every_minutes, tongue.from_minute, minute.step)
        return tongue.with_hours(every + at_second, _hours(tongue, hour))
    return tongue.with_hours(
        tongue.at_minutes.format(_numbers(tongue, MINUTE, minute.text)) + at_second,
        _hours(tongue, hour) or tongue.of_every_hour,
    )


def _hourly(tongue: Tongue, minute: int, second: int, hour: _Part) -> str:
    past = tongue.past_hour.format(minute) if minute or second else ""
    past += tongue.at_second.format(second) if second else ""
    if hour.step:
        return _steps(tongue.every_hours, tongue.from_hour, hour.step) + past
    return tongue.with_hours(tongue.every_hour + past, _hours(tongue, hour))


def _field_by_field(tongue: Tongue, second: _Part, minute: _Part, hour: _Part) -> str:
    said = [
        words.format(_numbers(tongue, part.field, part.text))
        for words, part in (
            (tongue.at_seconds, second),
            (tongue.at_minutes, minute),
            (tongue.at_hours, hour),
        )
        if not part.is_all
    ]
    return tongue.comma.join(said)


def _hours(tongue: Tongue, hour: _Part) -> str:
    """Return in which hours something happens more than once; empty for all."""
    if hour.is_all:
        return ""
    if len(hour.spans) == 1 and hour.spans[0].step == 1:
        only = hour.spans[0]
        return tongue.from_to_time.format(f"{only.first:02}:00", f"{only.last:02}:59")
    return tongue.in_hours.format(_numbers(tongue, HOUR, hour.text))


def _steps(every: str, from_: str, step: Span) -> str:
    return every.format(step.step) + (from_.format(step.first) if step.first else "")


def _month_days(tongue: Tongue, text: str) -> str:
    if text in ("*", "?"):
        return tongue.every_day
    return tongue.on_days(_listed(tongue, [_month_day(tongue, item) for item in text.split(",")]))


def _month_day(tongue: Tongue, item: str) -> str:
    near = item.endswith("W")
    bare = item.removesuffix("W")
    if bare.startswith("L"):
        before = int(bare.removeprefix("L").removeprefix("-") or 0)
        day = tongue.before_last_day.format(before) if before else tongue.last_day
    else:
        day = tongue.day_numbers.format(_numbers(tongue, DAY_OF_MONTH, bare))
    return tongue.weekday_nearest.format(day) if near else day


def _weekdays(tongue: Tongue, text: str) -> str:
    if text == "*":
        return tongue.every_day
    if "#" in text:
        day, _, nth = text.partition("#")
        return tongue.on_nth_weekday.format(tongue.nth[int(nth) - 1], _weekday(tongue, day))
    if text.endswith("L") and len(text) > 1:
        return tongue.on_last_weekday.format(_weekday(tongue, text.removesuffix("L")))
    if text == "L":
        text = "7"
    return tongue.on_weekdays.format(_items(tongue, DAY_OF_WEEK, text, tongue.weekdays))


def _weekday(tongue: Tongue, text: str) -> str:
    return _items(tongue, DAY_OF_WEEK, text, tongue.weekdays)


def _months(tongue: Tongue, text: str) -> str:
    return _items(tongue, MONTH, text, tongue.months)


def _numbers(tongue: Tongue, field: Field, text: str) -> str:
    return _items(tongue, field, text, ())


def _items(tongue: Tongue, field: Field, text: str, names: Sequence[str]) -> str:
    said = [_span(tongue, field, one, names) for one in spans(field, text)]
    return _listed(tongue, said)


def _span(tongue: Tongue, field: Field, one: Span, names: Sequence[str]) -> str:
    first, last = (names[n - field.low] if names else str(n) for n in (one.first, one.last))
    if one.first == one.last:
        return first
    if one.step == 1:
        return tongue.from_to.format(first, last)
    return tongue.every_nth.format(one.step, first, last)


def _listed(tongue: Tongue, said: Sequence[str]) -> str:
    if len(said) == 1:
        return said[0]
    return tongue.comma.join(said[:-1]) + tongue.last_and + said[-1]


def _named(words: str, text: str, say: Callable[[str], str]) -> str:
    return "" if text == "*" else words.format(say(text))


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"
