"""The kinds of schedules, by their value in a job's row, and what they say about a job.

A row may hold an unknown kind, written by a newer version. It cannot be parsed, which stops its
job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from warren.scheduler.cron.expression import Cron, as_the_daemon, unix_cron
from warren.scheduler.cron.words import cron_words, weekday_hint
from warren.scheduler.problems import Code, Problem, echo
from warren.scheduler.schedules.options import NEWEST_RULE, ScheduleOptions
from warren.scheduler.schedules.schedule import (
    Schedule,
    SingleTick,
    Translate,
    ValueForm,
)
from warren.sql.models.job_tables import NO_SCHEDULE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_WORKDAY = re.compile(
    r"(-?(?:[1-9]|1\d|2[0-3])) ([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class OneTime(SingleTick):
    """One instant, whatever the time zone of the job."""

    kind = "AT"
    keyword = "at"
    value_form = ValueForm.INSTANT
    title = "once"
    advice = "Runs once."
    sentence = "Once, at %(value)s"

    at_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read an ISO 8601 instant with its offset."""
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            raise Problem(Code.INSTANT, got=echo(value))
        return cls((at - _EPOCH) // _MILLISECOND)

    def tick(self, _anchor_ms: int) -> int | None:
        return self.at_ms


@dataclass(frozen=True, slots=True)
class NoSchedule(SingleTick):
    """No tick; its value is ignored."""

    kind = NO_SCHEDULE
    keyword = "none"
    value_form = ValueForm.NOTHING
    title = "none"
    advice = "Manually, through the API, or as a child of another job."
    sentence = "No schedule"
    fires = False

    @classmethod
    def read(cls, _value: str, _timezone: str) -> Self:
        """Return the schedule without ticks."""
        return cls()

    @classmethod
    def written(cls, _value: str) -> str:
        """Return the keyword alone."""
        return cls.keyword

    @classmethod
    def in_job_file(cls, _value: str) -> dict[str, str | int]:
        """Return nothing: it is the default."""
        return {}

    def tick(self, _anchor_ms: int) -> int | None:
        return None


_SECONDS = re.compile(r"0{0,9}[1-9][0-9]{0,8}")


def period_ms(value: str) -> int:
    """Parse whole seconds, at least 1, into milliseconds; raises `Problem`."""
    if not _SECONDS.fullmatch(value):
        raise Problem(Code.PERIOD, got=echo(value))
    return int(value) * 1_000


def _span(value: str, translate: Translate) -> str:
    """Return whole seconds in the units of the console, such as `2 min` or `1 h 5 s`."""
    if not _SECONDS.fullmatch(value):
        return value
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    parts = {"%(n)s h": hours, "%(n)s min": minutes, "%(n)s s": seconds}
    return " ".join(translate(words) % {"n": number} for words, number in parts.items() if number)


@dataclass(frozen=True, slots=True)
class FixedRate(Schedule):
    """anchor + n * period, for every whole n."""

    kind = "FIX_RATE"
    keyword = "every"
    value_form = ValueForm.SECONDS
    unit = " s"
    takes_options = True
    is_rhythmic = True
    title = "fixed rate"
    advice = "Every N seconds, regardless of how long a run takes."
    sentence = "Every %(value)s"

    period_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read whole seconds."""
        return cls(period_ms(value))

    @classmethod
    def in_words(cls, value: str, translate: Translate, _language: str) -> str:
        """Return how often it fires."""
        return translate(cls.sentence) % {"value": _span(value, translate)}

    @classmethod
    def newest_rule(cls, begin: str) -> int:
        """Return the newest one if there is a `from`, which sets the rhythm."""
        return NEWEST_RULE if begin else 1

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        return anchor_ms + (self._rank(after_ms, anchor_ms) + 1) * self.period_ms

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        last = anchor_ms + self._rank(until_ms, anchor_ms) * self.period_ms
        return last if last > after_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks in this span."""
        return max(0, self._rank(until_ms, anchor_ms) - self._rank(after_ms, anchor_ms))

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Begin one period from now, on a whole second."""
        first = -(-(now_ms + self.period_ms) // 1_000) * 1_000
        return first - self.period_ms, first

    def fixed_period_ms(self) -> int:
        """Return the period, which never varies."""
        return self.period_ms

    def _rank(self, instant_ms: int, anchor_ms: int) -> int:
        return (instant_ms - anchor_ms) // self.period_ms


@dataclass(frozen=True, slots=True)
class FixedDelay(SingleTick):
    """The one open tick, the anchor; the end of its run sets the next one."""

    kind = "FIX_DELAY"
    keyword = "delay"
    value_form = ValueForm.SECONDS
    unit = " s"
    title = "fixed delay"
    advice = "N seconds after the previous run finishes."
    sentence = "%(value)s after each run has ended"
    waits_for_completion = True

    delay_ms: int

    @classmethod
    def read(cls, value: str, _timezone: str) -> Self:
        """Read whole seconds."""
        return cls(period_ms(value))

    @classmethod
    def in_words(cls, value: str, translate: Translate, _language: str) -> str:
        """Return how long after a run it fires."""
        return translate(cls.sentence) % {"value": _span(value, translate)}

    @classmethod
    def waiting_for(cls, value: str) -> str:
        """Say that the job waits for a run to end, and what follows."""
        return f"{value} s after the end of its run"

    def tick(self, anchor_ms: int) -> int | None:
        return anchor_ms

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Fire at once."""
        return now_ms, now_ms + 1

    def after_completion(self, finished_ms: int) -> int | None:
        """Return the end of the delay."""
        return finished_ms + self.delay_ms

    def least_distance_ms(self) -> int | None:
        """Return the delay, as a run's duration cannot be computed."""
        return self.delay_ms


@dataclass(frozen=True, slots=True)
class CronSchedule(Schedule):
    """The instants that an expression matches."""

    kind = "CRON"
    keyword = "cron"
    value_form = ValueForm.EXPRESSION
    uses_timezone = True
    takes_options = True
    title = "cron expression"
    advice = "At calendar times: every night at two, on the last Friday."

    expression: str
    cron: Cron

    @classmethod
    def read(cls, value: str, timezone: str) -> Self:
        """Compile an expression."""
        return cls(value, Cron.parse(value, timezone))

    @classmethod
    def in_words(cls, value: str, _translate: Translate, language: str) -> str:
        """Return an expression in words, or unchanged if it cannot be parsed."""
        try:
            return cron_words(value, language)
        except Problem:
            return value

    @classmethod
    def hint(cls, value: str, language: str) -> str:
        """Say which weekdays the numbers in an expression mean."""
        try:
            return weekday_hint(value, language)
        except Problem:
            return ""

    @property
    def meaning(self) -> tuple[object, ...]:
        """What decides its ticks, apart from the time zone."""
        return self.cron.pattern, self.cron.runs_after_gap

    def next_after(self, after_ms: int, _anchor_ms: int) -> int | None:
        """Return the first match after this instant."""
        return self.cron.next_after(after_ms)

    def last_until(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int | None:
        """Return the last match of this span."""
        return self.cron.last_until(after_ms, until_ms)

    def count(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int:
        """Count the matches in this span."""
        return self.cron.count(after_ms, until_ms)

    def check_new(self, now_ms: int) -> None:
        """Refuse an expression that never matches again."""
        if self.cron.next_after(now_ms) is None:
            raise Problem(Code.CRON_NEVER_FIRES, cron=self.expression)


@dataclass(frozen=True, slots=True)
class UnixCronSchedule(CronSchedule):
    """The instants that five fields match, as cron reads them."""

    kind = "UNIX_CRON"
    keyword = "unix_cron"
    title = "crontab line"
    advice = "Five fields, as in a crontab: day of month or weekday."

    @classmethod
    def read(cls, value: str, timezone: str) -> Self:
        """Compile five fields."""
        return cls(value, unix_cron(value, timezone))

    @classmethod
    def newest_rule(cls, _begin: str) -> int:
        """Return the one of the cron daemon."""
        return NEWEST_RULE

    @property
    def meaning(self) -> tuple[object, ...]:
        """What decides its ticks by the newest rule, apart from the time zone."""
        cron = as_the_daemon(self.expression, self.cron)
        return cron.pattern, cron.runs_after_gap

    def by_rule(self, rule: int) -> Self:
        return replace(self, cron=as_the_daemon(self.expression, self.cron)) if rule > 1 else self

    @classmethod
    def in_words(cls, value: str, _translate: Translate, _language: str) -> str:
        """Return the fields unchanged."""
        return value

    @classmethod
    def hint(cls, _value: str, _language: str) -> str:
        """Return nothing: its weekdays are those that everybody knows from cron."""
        return ""


@dataclass(frozen=True, slots=True)
class WorkdaySchedule(SingleTick):
    """The nth working day of each month, or from its end, at a time of day."""

    kind = "WORKDAY"
    keyword = "workday"
    value_form = ValueForm.WORKDAY
    more_keys = ("time",)
    uses_timezone = True
    takes_options = True
    needs_calendar = True
    title = "working day of the month"
    advice = "On the first, the third, the last working day of each month."
    sentence = "On a working day of each month: %(value)s"

    nth: int
    cron: Cron

    @classmethod
    def read(cls, value: str, timezone: str) -> Self:
        """Read a number and a time of day, such as `-1 18:30`."""
        match = _WORKDAY.fullmatch(value)
        if match is None:
            raise Problem(Code.WORKDAY, got=echo(value))
        hour, minute, second = (int(part or 0) for part in match.groups()[1:])
        return cls(int(match[1]), Cron.parse(f"{second} {minute} {hour} * * ?", timezone))

    @classmethod
    def value_of(cls, said: object, more: Mapping[str, object]) -> str:
        """Return the number and the time of day; without one it is midnight."""
        return f"{said} {more.get('time') or '00:00'}"

    @classmethod
    def in_job_file(cls, value: str) -> dict[str, str | int]:
        """Return the number and the time of day by their keywords."""
        nth, _, at = value.partition(" ")
        return {cls.keyword: int(nth) if _WORKDAY.fullmatch(value) else nth, "time": at}

    def tick(self, _anchor_ms: int) -> int | None:
        """Return None: without a calendar, it has none."""
        return None


KINDS: Mapping[str, type[Schedule]] = {
    kind.kind: kind
    for kind in (
        NoSchedule,
        CronSchedule,
        UnixCronSchedule,
        WorkdaySchedule,
        FixedRate,
        FixedDelay,
        OneTime,
    )
}


def means_the_same(kind: str, value: str, other: str) -> bool:
    """Whether two values of a kind have the same ticks, in whatever time zone: `0/5` and `*/5`."""
    try:
        one, two = (KINDS[kind].read(text, "UTC") for text in (value, other))
    except (KeyError, Problem):
        return False
    if isinstance(one, CronSchedule) and isinstance(two, CronSchedule):
        return one.meaning == two.meaning
    return one == two


#: The kinds whose next tick is set by the end of a run.
WAITING_KINDS = frozenset(kind for kind, schedule in KINDS.items() if schedule.waits_for_completion)

#: The kinds whose ticks depend on the time zone.
ZONED_KINDS = frozenset(kind for kind, schedule in KINDS.items() if schedule.uses_timezone)


def has_schedule(kind: str) -> bool:
    """Whether a row's kind can make its job due; an unknown kind may."""
    return kind not in KINDS or KINDS[kind].fires


def shown_as(kind: str) -> type[Schedule]:
    """Return the class that displays a row's value; `NoSchedule` for an unknown kind."""
    return KINDS.get(kind, NoSchedule)


def hint(kind: str, value: str | None, language: str = "en") -> str:
    """Explain in words what is easily misread in a row's schedule; empty if nothing is."""
    return shown_as(kind).hint(value or "", language)


def written(kind: str, value: str | None, options: str | None = None) -> str:
    """Return a row's schedule in the words of a job file; an unknown kind by its own name."""
    if kind not in KINDS:
        return f"{kind} {value or ''}".strip()
    words, said = KINDS[kind].written(value or ""), ScheduleOptions.from_json(options)
    return f"{words} ({said})" if said else words


#: The kinds that have several rules, and those that have them if there is a `from`.
RULED_KINDS = frozenset(kind for kind, schedule in KINDS.items() if schedule.newest_rule("") > 1)
RULED_FROM_KINDS = frozenset(
    kind for kind, schedule in KINDS.items() if schedule.newest_rule("2026-12-01") > 1
)


def newest_rule(kind: str, options: ScheduleOptions) -> int:
    """Return the newest rule for a schedule: 1 if its kind has only one."""
    return KINDS[kind].newest_rule(options.begin) if kind in KINDS else 1
