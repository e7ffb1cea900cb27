"""The day report as it is shown."""

from datetime import date, datetime

import pytest

from warren.errands.doing.runs import Day, day_json, report_lines, share
from warren.sql.instants import epoch_ms
from warren.sql.run_status import RunStatus
from warren.sql.runs.day_reports import Counts, of_statuses

FRIDAY = date(2026, 11, 20)


def test_a_day_is_one_json_object() -> None:
    counted_at = epoch_ms(datetime.fromisoformat("2026-11-20T15:00:00"))

    assert day_json(FRIDAY, Day(Counts(1, 3, 1, 2), counted_at), "Asia/Shanghai") == {
        "day": "2026-11-20",
        "timezone": "Asia/Shanghai",
        "total": 7,
        "succeeded": 3,
        "failed": 1,
        "skipped": 2,
        "running": 1,
        "success_share": 0.75,
        "counted_at": "2026-11-20T15:00:00.000+00:00",
    }


def test_a_day_without_a_report_has_zeros_and_no_share() -> None:
    shown = day_json(FRIDAY, Day(Counts(), None), "UTC")

    assert (shown["total"], shown["success_share"], shown["counted_at"]) == (0, None, None)


def test_numbers_stand_flush_right_and_the_last_line_is_the_sum() -> None:
    days = {FRIDAY: Counts(1, 12_345, 0, 3), date(2026, 11, 21): Counts(0, 0, 2)}

    assert report_lines(days) == [
        ("2026-11-20 Fri", "12,349", "   12,345", "     0", "      3", "      1", "100.0 %"),
        ("2026-11-21 Sat", "     2", "        0", "     2", "      0", "      0", "  0.0 %"),
        ("all", "12,351", "   12,345", "     2", "      3", "      1", " 99.9 %"),
    ]


def test_one_day_needs_no_sum() -> None:
    assert len(report_lines({FRIDAY: Counts()})) == 1
    assert report_lines({}) == []


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(5, 0, 0), ""),
        (Counts(0, 1, 0), "100.0 %"),
        (Counts(0, 999_999, 1), "99.9 %"),
        (Counts(0, 0, 1), "0.0 %"),
    ],
)
def test_one_failure_among_many_is_not_all_successes(counts: Counts, words: str) -> None:
    assert share(counts) == words


def test_every_status_but_cancelled_is_counted_once() -> None:
    counted = of_statuses(dict.fromkeys(RunStatus, 1))

    assert counted == Counts(running=4, succeeded=1, failed=6, skipped=1)
    assert counted.total == len(RunStatus) - 1
