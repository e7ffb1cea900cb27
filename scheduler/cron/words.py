"""Cron expressions in the words of a language: what the fields say, not when they fire."""
# ruff: noqa: RUF001 - Chinese has commas and parentheses of its own

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from warren.scheduler.cron.expression import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Cron,
    Field,
    Span,
    spans,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The phrases of a language, with placeholders.

    `time_first` = the time of day comes before the day, as in English.
    """

    time_first: bool
    comma: str
    last_and: str
    between: str
    every_second: str
    every_seconds: str
    every_minute: str
    every_minutes: str
    every_hour: str
    every_hours: str
    from_second: str
    from_minute: str
    from_hour: str
    at_second: str
    at_times: str
    at_seconds: str
    at_minutes: str
    at_hours: str
    past_hour: str
    of_every_hour: str
    in_hours: str
    from_to_time: str
    from_to: str
    every_nth: str
    every_day: str
    on: str
    day_numbers: str
    last_day: str
    before_last_day: str
    weekday_nearest: str
    on_weekdays: str
    on_nth_weekday: str
    on_last_weekday: str
    in_months: str
    in_years: str
    number_is: str
    did_you_mean: str
    nth: tuple[str, ...]
    weekdays: tuple[str, ...]
    months: tuple[str, ...]

    def sentence(self, *, time: str, day: str, month: str, year: str) -> str:
        """Join the parts in the language's order, with a capital first letter."""
        parts = (time, day, month, year) if self.time_first else (year, month, day, time)
        text = self.between.join(part for part in parts if part)
        return text[:1].upper() + text[1:]

    def with_hours(self, often: str, hours: str) -> str:
        """Return how often, and in which hours; `hours` is empty for the whole day."""
        if not hours:
            return often
        return self.between.join((often, hours) if self.time_first else (hours, often))

    def on_days(self, days: str) -> str:
        """Return the phrase for these days of the month."""
        return self.on.format(days)


ENGLISH = Language(
    time_first=True,
    comma=", ",
    last_and=" and ",
    between=", ",
    every_second="every second",
    every_seconds="every {} seconds",
    every_minute="every minute",
    every_minutes="every {} minutes",
    every_hour="every hour",
    every_hours="every {} hours",
    from_second=" from second {}",
    from_minute=" from minute {}",
    from_hour=" from hour {}",
    at_second=" at second {}",
    at_times="at {}",
    at_seconds="at second {}",
    at_minutes="at minute {}",
    at_hours="at hour {}",
    past_hour=" at minute {}",
    of_every_hour="of every hour",
    in_hours="in hour {}",
    from_to_time="from {} to {}",
    from_to="{} to {}",
    every_nth="{1} to {2} in steps of {0}",
    every_day="every day",
    on="on {} of the month",
    day_numbers="day {}",
    last_day="the last day",
    before_last_day="day {} before the last day",
    weekday_nearest="the weekday nearest to {}",
    on_weekdays="on {}",
    on_nth_weekday="on the {} {} of the month",
    on_last_weekday="on the last {} of the month",
    in_months="in {}",
    in_years="in {}",
    number_is="{} is {}",
    did_you_mean="; did you mean {}?",
    nth=("first", "second", "third", "fourth", "fifth"),
    weekdays=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    months=(
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ),
)

CHINESE = Language(
    time_first=False,
    comma="、",
    last_and="和",
    between="，",
    every_second="每秒",
    every_seconds="每 {} 秒",
    every_minute="每分钟",
    every_minutes="每 {} 分钟",
    every_hour="每小时",
    every_hours="每 {} 小时",
    from_second="（从第 {} 秒起）",
    from_minute="（从第 {} 分起）",
    from_hour="（从 {} 点起）",
    at_second="的第 {} 秒",
    at_times="{}",
    at_seconds="第 {} 秒",
    at_minutes="第 {} 分",
    at_hours="{} 点",
    past_hour="的第 {} 分",
    of_every_hour="每小时",
    in_hours="{} 点",
    from_to_time="{} 至 {}",
    from_to="{}至{}",
    every_nth="{1}至{2}（步长 {0}）",
    every_day="每天",
    on="每月{}",
    day_numbers=" {} 日",
    last_day="最后一天",
    before_last_day="最后一天的前 {} 天",
    weekday_nearest="离{}最近的工作日",
    on_weekdays="每{}",
    on_nth_weekday="每月{}{}",
    on_last_weekday="每月最后一个{}",
    in_months="{}",
    in_years="{} 年",
    number_is="{} 是{}",
    did_you_mean="；是否应为 {}？",
    nth=("第一个", "第二个", "第三个", "第四个", "第五个"),
    weekdays=("周日", "周一", "周二", "周三", "周四", "周五", "周六"),
    months=tuple(f"{number}月" for number in range(1, 13)),
)
TRADITIONAL_CHINESE = replace(
    CHINESE,
    every_minute="每分鐘",
    every_minutes="每 {} 分鐘",
    every_hour="每小時",
    every_hours="每 {} 小時",
    from_second="（從第 {} 秒起）",
    from_minute="（從第 {} 分起）",
    from_hour="（從 {} 點起）",
    at_hours="{} 點",
    of_every_hour="每小時",
    in_hours="{} 點",
    every_nth="{1}至{2}（間隔 {0}）",
    last_day="最後一天",
    before_last_day="最後一天的前 {} 天",
    weekday_nearest="離{}最近的工作日",
    on_last_weekday="每月最後一個{}",
    did_you_mean="；是否應為 {}？",
    nth=("第一個", "第二個", "第三個", "第四個", "第五個"),
    weekdays=("週日", "週一", "週二", "週三", "週四", "週五", "週六"),
)


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
