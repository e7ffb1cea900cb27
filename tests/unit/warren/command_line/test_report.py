"""The day report as it is shown."""

from datetime import date

import pytest

from warren.command_line.report import report_lines, share
from warren.resources.reports import Day
from warren.sql.run_status import RunStatus
from warren.sql.runs.day_reports import Counts, of_statuses

FRIDAY = date(2026, 11, 20)


def of_day(
    day: date, running: int = 0, succeeded: int = 0, failed: int = 0, skipped: int = 0
) -> Day:
    return Day(
        day=day,
        total=running + succeeded + failed + skipped,
        succeeded=succeeded,
        failed=failed,
        skipped=skipped,
        running=running,
        success_share=None,
    )


def test_numbers_stand_flush_right_and_the_last_line_is_the_sum() -> None:
    days = [of_day(FRIDAY, 1, 12_345, 0, 3), of_day(date(2026, 11, 21), 0, 0, 2)]

    assert report_lines(days) == [
        ("2026-11-20 Fri", "12,349", "   12,345", "     0", "      3", "      1", "100.0 %"),
        ("2026-11-21 Sat", "     2", "        0", "     2", "      0", "      0", "  0.0 %"),
        ("all", "12,351", "   12,345", "     2", "      3", "      1", " 99.9 %"),
    ]


def test_one_day_needs_no_sum() -> None:
    assert len(report_lines([of_day(FRIDAY)])) == 1
    assert report_lines([]) == []


@pytest.mark.parametrize(
    ("succeeded", "failed", "words"),
    [(0, 0, ""), (1, 0, "100.0 %"), (999_999, 1, "99.9 %"), (0, 1, "0.0 %")],
)
def test_one_failure_among_many_is_not_all_successes(
    succeeded: int, failed: int, words: str
) -> None:
    assert share(succeeded, failed) == words


def test_every_status_but_cancelled_is_counted_once() -> None:
    counted = of_statuses(dict.fromkeys(RunStatus, 1))

    assert counted == Counts(running=4, succeeded=1, failed=6, skipped=1)
    assert counted.total == len(RunStatus) - 1
