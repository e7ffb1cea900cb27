"""Which expectations a job may have."""

from collections.abc import Iterator

from warren.scheduler.expectations.expectations import (
    Expectations,
    Rule,
    seconds_of,
    time_of,
    usual_factor,
)
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.registry import has_schedule, shown_as
from warren.scheduler.schedules.schedule import ValueForm

_OF_SCHEDULE = (Rule.START_WITHIN, Rule.FINISH_BY)


def problems(
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
