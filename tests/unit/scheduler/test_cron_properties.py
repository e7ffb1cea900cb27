"""Whatever the expression: the three questions agree with each other and with a plain walk."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.scheduler.cron.expression import (
    DAY_OF_MONTH,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Cron,
    Field,
    Span,
    span,
)

ZONES = [
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Europe/Dublin",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
]
#: Days on which one of the zones changed its offset, and some on which none did.
STARTS = [
    datetime(2011, 12, 29, tzinfo=UTC),
    datetime(2026, 2, 15, tzinfo=UTC),
    datetime(2026, 3, 8, tzinfo=UTC),
    datetime(2026, 4, 4, tzinfo=UTC),
    datetime(2026, 4, 23, tzinfo=UTC),
    datetime(2026, 7, 1, tzinfo=UTC),
    datetime(2026, 10, 3, tzinfo=UTC),
    datetime(2026, 10, 24, tzinfo=UTC),
    datetime(2026, 10, 31, tzinfo=UTC),
]


def plain(field: Field) -> st.SearchStrategy[str]:
    number = st.integers(field.low, field.high)
    step = st.integers(1, field.max_step)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.builds("{}-{}".format, number, number),
        st.builds("{}/{}".format, number, step),
        st.builds("{}-{}/{}".format, number, number, step),
        st.lists(number.map(str), min_size=1, max_size=4).map(",".join),
    )


def days() -> st.SearchStrategy[str]:
    of_month = st.one_of(plain(DAY_OF_MONTH), st.sampled_from(["L", "LW", "L-3", "15W", "1W,L"]))
    of_week = st.sampled_from(["*", "2-6", "7,1", "1L", "6#3", "L", "6-2"])
    months = plain(MONTH)
    return st.one_of(
        st.builds("{} {} ?".format, of_month, st.one_of(st.just("*"), months)),
        st.builds("? {} {}".format, st.one_of(st.just("*"), months), of_week),
    )


def expressions(second: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    every_day = st.just("* * ?")
    return st.builds(
        "{} {} {} {}".format, second, plain(MINUTE), plain(HOUR), st.one_of(every_day, days())
    )


instants = st.builds(
    lambda start, seconds, ms: int(start.timestamp() + seconds) * 1_000 + ms,
    st.sampled_from(STARTS),
    st.integers(0, 2 * 86_400),
    st.sampled_from([0, 1, 999]),
)


def walked(cron: Cron, after_ms: int, until_ms: int) -> list[int]:
    """Step from fire to fire."""
    fires: list[int] = []
    at = cron.next_after(after_ms)
    while at is not None and at <= until_ms:
        fires.append(at)
        at = cron.next_after(at)
    return fires


@settings(max_examples=250)
@given(
    expressions(st.sampled_from(["0", "30", "0/20"])),
    st.sampled_from(ZONES),
    instants,
    st.integers(0, 2 * 86_400_000),
)
def test_count_and_last_agree_with_stepping(
    expression: str, zone: str, after_ms: int, length_ms: int
) -> None:
    cron = Cron.parse(expression, zone)
    until_ms = after_ms + length_ms

    steps = walked(cron, after_ms, until_ms)

    assert cron.count(after_ms, until_ms) == len(steps)
    assert cron.last_until(after_ms, until_ms) == (steps[-1] if steps else None)
    assert all(earlier < later for earlier, later in pairwise(steps))


@settings(max_examples=60)
@given(
    expressions(st.just("0")),
    st.sampled_from(ZONES),
    st.sampled_from(STARTS),
    st.integers(0, 86_400),
)
def test_fires_are_the_matching_wall_minutes_at_their_last_coming(
    expression: str, zone: str, start: datetime, seconds: int
) -> None:
    cron, tz = Cron.parse(expression, zone), ZoneInfo(zone)
    after = start + timedelta(seconds=seconds)
    until = after + timedelta(days=1)

    steps = walked(cron, ms(after), ms(until))

    minute = after.replace(second=0)
    expected = []
    while minute <= until:
        shown = minute.astimezone(tz)
        comes_again = not shown.fold and (
            shown.replace(fold=1).utcoffset() < shown.utcoffset()  # type: ignore[operator]
        )
        if minute > after and not comes_again and fires_in_utc(expression, shown):
            expected.append(ms(minute))
        minute += timedelta(minutes=1)
    assert steps == expected


def fires_in_utc(expression: str, shown: datetime) -> bool:
    """Whether this wall time fires, asked of UTC, where no clock is ever set."""
    wall_ms = ms(shown.replace(tzinfo=UTC))
    return Cron.parse(expression, "UTC").next_after(wall_ms - 1) == wall_ms


def ms(at: datetime) -> int:
    return int(at.timestamp()) * 1_000


@settings(max_examples=200)
@given(expressions(plain(SECOND)), st.sampled_from(ZONES), instants)
def test_next_is_later_and_nothing_lies_between(expression: str, zone: str, after_ms: int) -> None:
    cron = Cron.parse(expression, zone)

    fire = cron.next_after(after_ms)

    if fire is not None:
        assert fire > after_ms
        assert cron.next_after(fire - 1) == fire
        assert cron.count(after_ms, fire) == 1
        assert cron.last_until(after_ms, fire) == fire
        assert cron.last_until(after_ms, fire - 1) is None


@settings(max_examples=200)
@given(expressions(plain(SECOND)), st.sampled_from(ZONES), instants, instants, instants)
def test_counts_of_adjoining_spans_add_up(
    expression: str, zone: str, one: int, two: int, three: int
) -> None:
    cron = Cron.parse(expression, zone)
    first, second, third = sorted([one, two, three])

    whole = cron.count(first, third)

    assert whole == cron.count(first, second) + cron.count(second, third)


@settings(max_examples=500)
@given(st.text(alphabet="0123456789*?/,-LW#JANFRI ", max_size=40))
def test_any_text_is_compiled_or_refused_in_one_line(text: str) -> None:
    said = refusal(text)

    assert said == "" or said.startswith("expected ")
    assert "\n" not in said


def refusal(expression: str) -> str:
    try:
        Cron.parse(expression, "UTC").next_after(0)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("field", [SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH], ids=lambda f: f.name)
def test_croniter_and_our_own_reading_agree_on_what_it_is_given(field: Field) -> None:
    place = [MINUTE, HOUR, DAY_OF_MONTH, MONTH, None, SECOND].index(field)

    for first in range(field.low, field.high):
        for step in (1, 2, 3, 5, 7, field.max_step):
            fields = ["*"] * 6
            fields[place] = f"{first}-{field.high}/{step}"
            found = croniter.expand(" ".join(fields))[0][place]
            ours = list(span(field, fields[place]).numbers(field))
            assert ours == (list(range(field.low, field.high + 1)) if found == ["*"] else found)


def test_span_over_the_end_walks_on_from_the_start() -> None:
    assert list(Span(22, 3, 2).numbers(HOUR)) == [22, 0, 2]
    assert list(Span(30, 2, 1).numbers(DAY_OF_MONTH)) == [30, 31, 1, 2]
