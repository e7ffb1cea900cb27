"""What users may expect of a job, and how it is kept."""

import pytest

from warren.broker.durations import shown
from warren.scheduler import expectations
from warren.scheduler.expectations import NO_EXPECTATIONS, Expectations, seconds_of

NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timeout_seconds": 0}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("300", 300),
        ("1h30m", 5_400),
        ("26h", 93_600),
        ("2d", 172_800),
        ("90s", 90),
        *(
            (wrong, None)
            for wrong in ("", "0", "0s", "-5m", "5 minutes", "m", "5m1h", "1.5h", "367d", "٣m")
        ),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_every_shown_duration_is_read_as_the_same() -> None:
    lengths = [1, 59, 60, 61, 3_599, 3_600, 5_400, 93_600, 366 * 86_400]

    assert [seconds_of(shown(one)) for one in lengths] == lengths


def test_other_spellings_of_the_same_expectations_are_equal() -> None:
    one = Expectations(start_within="300", finish_by="7:00", longest="3.0  x usual")

    assert one == Expectations(start_within="5m", finish_by="07:00", longest="3 x usual")
    assert one.to_json() == '{"start_within":"5m","finish_by":"07:00","longest":"3 x usual"}'
    assert Expectations.from_json(one.to_json()) == one


def test_the_text_of_a_form_is_read_back() -> None:
    one = Expectations(finish_by="07:00", longest="30m", success_every="26h")

    assert Expectations.from_text(str(one)) == one
    assert Expectations.from_text("") == NO_EXPECTATIONS
    for wrong in ("finish_by", "start: 5m", "longest: 5m, longest: 6m", "longest:"):
        with pytest.raises(ValueError, match=r"."):
            Expectations.from_text(wrong)


def test_nothing_expected_is_stored_as_nothing() -> None:
    assert NO_EXPECTATIONS.to_json() is None
    assert Expectations.from_json(None) == NO_EXPECTATIONS


def test_usual_is_unknown_without_history() -> None:
    one = Expectations(longest="3 x usual")

    assert (one.longest_ms(None), one.longest_ms(20_000)) == (0, 60_000)
    assert one.needs_usual


@pytest.mark.parametrize(
    ("rules", "others", "line"),
    [
        (
            {"start_within": "-5m"},
            {},
            "expected start_within to be a duration such as 90s, 5m, 2h or 1d, got: '-5m'",
        ),
        (
            {"finish_by": "25:00"},
            {},
            "expected finish_by to be a time of day like '07:00', got: '25:00'",
        ),
        (
            {"longest": "1 x usual"},
            {},
            (
                "expected longest to be a duration like 30m, or like '3 x usual' with a number "
                "over 1, got: '1 x usual'"
            ),
        ),
        (
            {"finish_by": "07:00"},
            {"schedule_kind": "NONE", "schedule_value": ""},
            "expected a schedule, because finish_by is set",
        ),
        (
            {"longest": "1h"},
            {"timeout_seconds": 30},
            "expected longest to be under the timeout of 30 s, got: 1h; it would never trigger",
        ),
        (
            {"success_every": "10m"},
            {"schedule_kind": "FIX_RATE", "schedule_value": "3600"},
            (
                "expected success_every to be at least the schedule's 3600 s, got: 10m; "
                "it could not be met"
            ),
        ),
    ],
)
def test_what_cannot_be_kept_is_one_line(
    rules: dict[str, str], others: dict[str, object], line: str
) -> None:
    found = expectations.expectation_problems(Expectations(**rules), **{**NIGHTLY, **others})  # type: ignore[arg-type]

    assert [str(one) for one in found] == [line]


def test_success_alone_may_be_expected_of_a_job_without_a_schedule() -> None:
    one = Expectations(success_every="26h")

    assert not list(
        expectations.expectation_problems(
            one, schedule_kind="NONE", schedule_value="", timeout_seconds=0
        )
    )
