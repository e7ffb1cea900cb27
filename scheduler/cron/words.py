"""Cron expressions in the words of a language: what the fields say, not when they fire.

The words of each language are in `languages`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    spans,
)
from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.languages import CHINESE, ENGLISH, TRADITIONAL_CHINESE, Language

#: The most times of day that are listed one by one.
MAX_LISTED_TIMES = 6
#: The number of a weekday, as opposed to a step or the number after `#`.
_WEEKDAY_NUMBER = re.compile(r"(?<![/#0-9])[1-7]")
#: Quartz's numbers of working days and of the weekend, which are probably meant as written.
_LIKELY_WEEKDAYS = ({2, 3, 4, 5, 6}, {1, 7})
_LANGUAGES = {"en": ENGLISH, "zh": CHINESE, "zh-TW": TRADITIONAL_CHINESE}


def cron_words(expression: str, tag: str) -> str:
    """Return an expression in words; `tag` names a language, such as `en` or `zh-CN`.

    Languages other than Chinese get English. Raises `Problem` like `Cron.parse`.
    """
    second, minute, hour, month_day, month, weekday, year = _fields(expression)
    language = _language(tag)
    day = _weekdays(language, weekday) if month_day == "?" else _month_days(language, month_day)
    return language.sentence(
        time=_times(language, _Part(SECOND, second), _Part(MINUTE, minute), _Part(HOUR, hour)),
        # "Every minute" says it already.
        day=day if day != language.every_day or _Part(HOUR, hour).singles else "",
        month=_named(language.in_months, month, lambda text: _months(language, text)),
        year=_named(language.in_years, year, lambda text: _numbers(language, YEAR, text)),
    )


def weekday_hint(expression: str, tag: str) -> str:
    """Return which weekdays an expression's numbers are; empty if it has names or no weekdays.

    In other programs 1 is Monday. If that is likely to be meant, the hint also offers the field
    with names. `tag` is as for `cron_words`.
    """
    text, language = _fields(expression)[5], _language(tag)
    if text in ("*", "?") or not _WEEKDAY_NUMBER.search(text):
        return ""
    hint = language.number_is.format(text, _weekday_words(language, text))
    names = _names_from_monday(text)
    return hint + (language.did_you_mean.format(names) if names else "")


def _fields(expression: str) -> tuple[str, ...]:
    """Return the seven fields. Raises `Problem` like `Cron.parse`."""
    Cron.parse(expression, "UTC")
    return (*expression.upper().split(), "*")[:7]


def _language(tag: str) -> Language:
    return _LANGUAGES.get(tag) or _LANGUAGES.get(tag.partition("-")[0], ENGLISH)


def _names_from_monday(text: str) -> str:
    """Return a field with names for its numbers, as if 1 were Monday; empty if that is unlikely."""
    if "/" in text:  # a step has no names
        return ""
    if text[-1:] != "L" and "#" not in text:
        days = {day for span in spans(DAY_OF_WEEK, text) for day in span.numbers(DAY_OF_WEEK)}
        if days in _LIKELY_WEEKDAYS:
            return ""
    return _WEEKDAY_NUMBER.sub(lambda number: DAY_OF_WEEK.names[int(number[0]) % 7], text)


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
        """The numbers, if the field lists single ones; empty otherwise."""
        field_spans = self.spans
        return (
            [span.first for span in field_spans]
            if all(span.first == span.last for span in field_spans)
            else []
        )

    @property
    def step(self) -> Span | None:
        """The span, if the whole field is one that goes in steps to the field's end; else None."""
        field_spans = self.spans
        is_step = (
            len(field_spans) == 1
            and field_spans[0].step > 1
            and field_spans[0].last == self.field.high
        )
        return field_spans[0] if is_step else None


def _times(language: Language, second: _Part, minute: _Part, hour: _Part) -> str:
    if len(second.singles) == 1:
        return _whole_minutes(language, second.singles[0], minute, hour)
    if minute.is_all and second.is_all:
        return language.with_hours(language.every_second, _hours(language, hour))
    if minute.is_all and second.step:
        every = _steps(language.every_seconds, language.from_second, second.step)
        return language.with_hours(every, _hours(language, hour))
    return _field_by_field(language, second, minute, hour)


def _whole_minutes(language: Language, second: int, minute: _Part, hour: _Part) -> str:
    times = [(h, m) for h in hour.singles for m in minute.singles]
    if times and len(times) <= MAX_LISTED_TIMES:
        return language.at_times.format(
            language.comma.join(_clock(*time, second) for time in times)
        )
    if len(minute.singles) == 1:
        return _hourly(language, minute.singles[0], second, hour)
    at_second = language.at_second.format(second) if second else ""
    if minute.is_all:
        return language.with_hours(language.every_minute + at_second, _hours(language, hour))
    if minute.step:
        every = _steps(language.every_minutes, language.from_minute, minute.step)
        return language.with_hours(every + at_second, _hours(language, hour))
    return language.with_hours(
        language.at_minutes.format(_numbers(language, MINUTE, minute.text)) + at_second,
        _hours(language, hour) or language.of_every_hour,
    )


def _hourly(language: Language, minute: int, second: int, hour: _Part) -> str:
    past = language.past_hour.format(minute) if minute or second else ""
    past += language.at_second.format(second) if second else ""
    if hour.step:
        return _steps(language.every_hours, language.from_hour, hour.step) + past
    return language.with_hours(language.every_hour + past, _hours(language, hour))


def _field_by_field(language: Language, second: _Part, minute: _Part, hour: _Part) -> str:
    texts = [
        words.format(_numbers(language, part.field, part.text))
        for words, part in (
            (language.at_seconds, second),
            (language.at_minutes, minute),
            (language.at_hours, hour),
        )
        if not part.is_all
    ]
    return language.comma.join(texts)


def _hours(language: Language, hour: _Part) -> str:
    """Return in which hours something happens more than once; empty for all."""
    if hour.is_all:
        return ""
    if len(hour.spans) == 1 and hour.spans[0].step == 1:
        range_ = hour.spans[0]
        return language.from_to_time.format(f"{range_.first:02}:00", f"{range_.last:02}:59")
    return language.in_hours.format(_numbers(language, HOUR, hour.text))


def _steps(every: str, from_: str, step: Span) -> str:
    return every.format(step.step) + (from_.format(step.first) if step.first else "")


def _month_days(language: Language, text: str) -> str:
    if text in ("*", "?"):
        return language.every_day
    return language.on_days(
        _listed(language, [_month_day(language, item) for item in text.split(",")])
    )


def _month_day(language: Language, item: str) -> str:
    day_text = item.removesuffix("W")
    if day_text.startswith("L"):
        before = int(day_text.removeprefix("L").removeprefix("-") or 0)
        day = language.before_last_day.format(before) if before else language.last_day
    else:
        day = language.day_numbers.format(_numbers(language, DAY_OF_MONTH, day_text))
    return language.weekday_nearest.format(day) if item.endswith("W") else day


def _weekdays(language: Language, text: str) -> str:
    if text == "*":
        return language.every_day
    if "#" in text:
        day, _, nth = text.partition("#")
        return language.on_nth_weekday.format(language.nth[int(nth) - 1], _weekday(language, day))
    if text.endswith("L") and len(text) > 1:
        return language.on_last_weekday.format(_weekday(language, text.removesuffix("L")))
    return language.on_weekdays.format(_weekday(language, "7" if text == "L" else text))


def _weekday_words(language: Language, text: str) -> str:
    """Return the weekdays of a field; with "on" only if it means the nth or last of a month."""
    if "#" in text or text.endswith("L"):
        return _weekdays(language, text)
    return _weekday(language, text)


def _weekday(language: Language, text: str) -> str:
    return _items(language, DAY_OF_WEEK, text, language.weekdays)


def _months(language: Language, text: str) -> str:
    return _items(language, MONTH, text, language.months)


def _numbers(language: Language, field: Field, text: str) -> str:
    return _items(language, field, text, ())


def _items(language: Language, field: Field, text: str, names: Sequence[str]) -> str:
    texts = [_span(language, field, span, names) for span in spans(field, text)]
    return _listed(language, texts)


def _span(language: Language, field: Field, span: Span, names: Sequence[str]) -> str:
    first, last = (names[n - field.low] if names else str(n) for n in (span.first, span.last))
    if span.first == span.last:
        return first
    if span.step == 1:
        return language.from_to.format(first, last)
    return language.every_nth.format(span.step, first, last)


def _listed(language: Language, texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return language.comma.join(texts[:-1]) + language.last_and + texts[-1]


def _named(words: str, text: str, say: Callable[[str], str]) -> str:
    return "" if text == "*" else words.format(say(text))


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"
