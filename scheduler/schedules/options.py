"""What narrows and moves the ticks of a schedule, as written: window, calendar, jitter and so on.

Kept as canonical JSON, in the job and in its history, so that every tick can be computed again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Self
from zoneinfo import ZoneInfo

from warren.broker import durations
from warren.scheduler.problems import Code, Problem, unknown_word
from warren.scheduler.problems import FieldName as Name
from warren.scheduler.schedules.nominal_days import OnHoliday

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
        if self.calendar and not re.fullmatch(CALENDAR_PATTERN, self.calendar):
            facts = {"pattern": CALENDAR_PATTERN, "got": self.calendar[:100]}
            raise Problem(Code.CALENDAR_NAME, "calendar", **facts)
        for key, known in (("on_holiday", tuple(OnHoliday)), ("gap", GAPS)):
            value = getattr(self, key)
            if value and value not in known:
                raise unknown_word(key, Name(key), value, known)
        if self.on_holiday and not self.calendar:
            raise Problem(Code.ON_HOLIDAY_ALONE, "on_holiday")
        if self.jitter and not self.jitter_seconds:
            raise Problem(Code.JITTER, "jitter", got=self.jitter[:100])
        self.bounds_ms(ZoneInfo("UTC"))
        if self.window:
            Window.read(self.window)

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
