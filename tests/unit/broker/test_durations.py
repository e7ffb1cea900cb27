"""Durations as users write them: one grammar, wherever one is read."""

import pytest

from warren.broker.durations import read_duration, seconds_of, shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90", 90), ("90s", 90), ("5m", 300), ("2h", 7_200), ("1d", 86_400), ("1w", 604_800)),
        *((" 1.5 ", 1.5), ("1h30m", 5_400), ("5 m", 300), ("1d 2h", 93_600), ("1.5s", 1.5)),
    ],
)
def test_a_duration_is_seconds_or_has_units(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "nan", "1e3", "m", "30m1h", "5m5m", "1.5h", "soon", "1 2", "٣m", "1h\n30m"],
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 90s, 5m, 2h or 1d"):
        read_duration(text)


def test_a_refusal_names_what_it_is_about() -> None:
    with pytest.raises(ValueError, match=r"expected --for to be a duration .*, got: 'x'"):
        read_duration("x", "--for")


def test_digits_alone_are_no_duration_where_they_might_mean_minutes() -> None:
    assert seconds_of("30", needs_unit=True) is None
    assert seconds_of("30m", needs_unit=True) == 1_800


def test_a_duration_is_shown_as_it_is_written() -> None:
    lengths = [0, 1, 59, 60, 5_400, 86_400, 90_061]

    assert [seconds_of(shown(length)) for length in lengths] == lengths
