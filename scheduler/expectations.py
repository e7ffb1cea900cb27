"""What a job's owner expects of it, as written and in milliseconds. Pure.

Durations are written like `90s`, `5m`, `26h` or `1h30m`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import time
from enum import StrEnum
from typing import Self

from warren.broker import durations
from warren.broker.durations import shown
from warren.resources.spelling import nearest
from warren.scheduler.problems import Code, Problem, Word, refusal, unknown_word
from warren.scheduler.schedules.registry import has_schedule, shown_as
from warren.scheduler.schedules.schedule import ValueForm

#: The longest duration, in seconds: a year.
MAX_SECONDS = 366 * 86_400


def seconds_of(text: str) -> int | None:
    """Return a duration in whole seconds, from 1 to MAX_SECONDS; digits alone are seconds.

    None if the text is not such a duration.
    """
    seconds = durations.whole_seconds(text) or 0
    return seconds if 1 <= seconds <= MAX_SECONDS else None


_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_USUAL_FACTOR = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*x\s+usual", re.ASCII)


class Rule(StrEnum):
    """The rules that a job may break; all but `waiting` are declared by its owner."""

    START_WITHIN = "start_within"
    FINISH_BY = "finish_by"
    LONGEST = "longest"
    SUCCESS_EVERY = "success_every"
    #: Watched for every job: its runs wait although executors are online.
    WAITING = "waiting"


#: The rules that are fields of `Expectations`, in the order of a job file.
DECLARED = tuple(rule.value for rule in Rule if rule is not Rule.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What is expected of a job; empty = nothing. Valid values are kept in their canonical form.

    Attributes:
        start_within: how long after its due time a run starts at the latest.
        finish_by: the time of day in the job's zone by which a due time has succeeded.
        longest: how long a run may take, or `N x usual`.
        success_every: how long it may be without a success.

    """

    start_within: str = ""
    finish_by: str = ""
    longest: str = ""
    success_every: str = ""

    def __post_init__(self) -> None:
        for name in DECLARED:
            text = " ".join(getattr(self, name).split())
            object.__setattr__(self, name, _canonical(name, text))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in DECLARED)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the expectations among these values; unknown names are ignored."""
        return cls(**{name: str(values[name]) for name in DECLARED if values.get(name)})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a text such as `start_within: 5m, finish_by: 07:00`.

        Raises:
            Refused: with each part that is not a rule.

        """
        values: dict[str, str] = {}
        wrong: list[Problem] = []
        for part in (part.strip() for part in re.split(r"[,;\n]", text)):
            name, colon, value = (piece.strip() for piece in part.partition(":"))
            if not part:
                continue
            if colon and name not in DECLARED and nearest(name, DECLARED):
                wrong.append(unknown_word("expect", Word.OPTION, name, DECLARED))
            elif not (colon and value) or name not in DECLARED or name in values:
                wrong.append(Problem(Code.EXPECT_RULE, "expect", got=part[:100]))
            else:
                values[name] = value.strip("\"'")
        if wrong:
            raise refusal(wrong)
        return cls(**values)

    @classmethod
    def from_json(cls, stored: str | None) -> Self:
        """Return what a column holds."""
        return cls.of(json.loads(stored)) if stored else cls()

    def to_json(self) -> str | None:
        """Return the canonical form that is stored; None if nothing is expected."""
        return json.dumps(self.rules(), separators=(",", ":")) if self else None

    def rules(self) -> dict[str, str]:
        """Return the rules that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.rules().items())

    @property
    def start_within_ms(self) -> int:
        """How long after its due time a run may start; 0 = not watched."""
        return (seconds_of(self.start_within) or 0) * 1_000

    @property
    def success_every_ms(self) -> int:
        """How long it may be without a success; 0 = not watched."""
        return (seconds_of(self.success_every) or 0) * 1_000

    @property
    def finish_by_time(self) -> time | None:
        """The time of day; None = not watched."""
        return time_of(self.finish_by)

    def longest_ms(self, usual_ms: int | None) -> int:
        """Return how long a run may take; 0 = not watched, or not known yet what is usual."""
        if factor := usual_factor(self.longest):
            return int(factor * usual_ms) if usual_ms else 0
        return (seconds_of(self.longest) or 0) * 1_000

    @property
    def needs_usual(self) -> bool:
        """Whether the job's usual duration is needed."""
        return usual_factor(self.longest) is not None


def time_of(text: str) -> time | None:
    """Return a time of day, HH:MM or HH:MM:SS; None if the text is not one."""
    match = _TIME.fullmatch(text)
    if not match:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    return time(hour, minute, second)


def usual_factor(text: str) -> float | None:
    """Return the factor of a text like `3 x usual`, over 1; None if the text is not like that."""
    match = _USUAL_FACTOR.fullmatch(text)
    factor = float(match[1]) if match else 0.0
    return factor if factor > 1 else None


def _canonical(name: str, text: str) -> str:
    if name == Rule.FINISH_BY:
        at = time_of(text)
        return at.isoformat("seconds" if at.second else "minutes") if at else text
    if name == Rule.LONGEST and (factor := usual_factor(text)):
        return f"{factor:g} x usual"
    seconds = seconds_of(text)
    return shown(seconds) if seconds else text


NO_EXPECTATIONS = Expectations()


_OF_SCHEDULE = (Rule.START_WITHIN, Rule.FINISH_BY)


def expectation_problems(
    expect: Expectations, *, schedule_kind: str, schedule_value: str, timeout_seconds: int
) -> Iterator[Problem]:
    """Yield what is wrong with the expectations of a job with this schedule and timeout."""
    before = 0
    for name, value in expect.rules().items():
        for problem in _of_value(name, value):
            before += 1
            yield problem
    if not before:
        yield from _contradictions(expect, schedule_kind, schedule_value, timeout_seconds)


def _of_value(name: str, value: str) -> Iterator[Problem]:
    got = value[:100]
    if name == Rule.FINISH_BY:
        if time_of(value) is None:
            yield Problem(Code.EXPECT_TIME, f"expect/{name}", what=name, got=got)
    elif name == Rule.LONGEST:
        if usual_factor(value) is None and seconds_of(value) is None:
            yield Problem(Code.EXPECT_LONGEST, f"expect/{name}", what=name, got=got)
    elif seconds_of(value) is None:
        yield Problem(Code.EXPECT_DURATION, f"expect/{name}", what=name, got=got)


def _contradictions(
    expect: Expectations, kind: str, value: str, timeout_seconds: int
) -> Iterator[Problem]:
    if not has_schedule(kind):
        for rule in _OF_SCHEDULE:
            if getattr(expect, rule):
                yield Problem(Code.EXPECT_NO_SCHEDULE, f"expect/{rule}", what=rule.value)
    longest = seconds_of(expect.longest)
    if longest and 0 < timeout_seconds <= longest:
        facts = {"what": Rule.LONGEST.value, "got": expect.longest, "most": timeout_seconds}
        yield Problem(Code.EXPECT_OVER_TIMEOUT, f"expect/{Rule.LONGEST}", **facts)
    every = seconds_of(expect.success_every)
    is_period = shown_as(kind).value_form is ValueForm.SECONDS and value.isdecimal()
    if every and is_period and every < int(value):
        facts = {"what": Rule.SUCCESS_EVERY.value, "got": expect.success_every}
        yield Problem(
            Code.EXPECT_UNDER_PERIOD, f"expect/{Rule.SUCCESS_EVERY}", least=int(value), **facts
        )
