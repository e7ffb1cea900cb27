"""What an edit changes, in words."""

import time
from typing import Any

import pytest

from warren.scheduler.jobs.records import DIFF_LINES, differences, script_difference
from warren.scheduler.jobs.spec import JobSpec, changed, columns_of
from warren.sql.models import Job


def told(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Return how an edit is told, of the fields that are given."""
    old, new = (JobSpec(name="nightly", app="reports", **fields) for fields in (before, after))
    job = Job(**columns_of(old))
    return differences(job, new, changed(job, new))


NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"}


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"param": "old"}, {"param": "new"}, "param: 'old' -> 'new'"),
        ({"param": "old"}, {}, "param: 'old' -> ''"),
        ({}, {"timeout": 30}, "timeout: 0 -> 30"),
        ({}, {"process": "fresh"}, "process: default -> fresh"),
        ({"process": "job"}, {"process": "handler"}, "process: job -> handler"),
        ({}, {"route": "ROUND"}, "route: default -> ROUND"),
        ({}, {"alarm_emails": ("a@example.com",)}, "alarm emails: '' -> 'a@example.com'"),
        ({}, {"timezone": "Asia/Shanghai"}, "timezone: '' -> 'Asia/Shanghai'"),
        (
            NIGHTLY,
            {"schedule_kind": "CRON", "schedule_value": "0 0 3 * * ?"},
            "schedule: cron 0 0 2 * * ? -> cron 0 0 3 * * ?",
        ),
        (
            NIGHTLY,
            {"schedule_kind": "FIX_RATE", "schedule_value": "30"},
            "schedule: cron 0 0 2 * * ? -> every 30 s",
        ),
        (NIGHTLY, {}, "schedule: cron 0 0 2 * * ? -> none"),
    ],
)
def test_a_change_is_told_by_the_names_of_a_job_file(
    before: dict[str, Any], after: dict[str, Any], line: str
) -> None:
    assert told(before, after) == (line,)


def test_of_long_texts_the_first_difference_is_shown() -> None:
    [line] = told({"param": "x" * 500 + "a"}, {"param": "x" * 500 + "b"})

    assert line == f"param: …'{'x' * 15}a' -> …'{'x' * 15}b'"


def test_a_webhooks_secret_is_not_shown() -> None:
    [line] = told(
        {"alarm_webhook": "https://example.com/robot?token=secret"},
        {"alarm_webhook": "https://example.org/other?token=hidden"},
    )

    assert line == "alarm webhook: https://example.com/… -> https://example.org/…"


def test_a_script_s_difference_is_a_unified_diff() -> None:
    assert script_difference("a\nb\nc\n", "a\nB\nc\n") == (
        "--- stored",
        "+++ new",
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+B",
        " c",
    )
    assert script_difference("same", "same") == ()
    assert script_difference("", "a")[-1] == "+a"
    assert script_difference("a\r\n", "a\n")[-2:] == ("-a␍", "+a")


def test_a_long_difference_is_cut() -> None:
    lines = script_difference("", "\n".join(map(str, range(500))))

    assert len(lines) == DIFF_LINES + 1
    assert lines[-1] == f"… and {500 + 3 - DIFF_LINES} more lines"


def test_two_huge_scripts_cost_no_time() -> None:
    began = time.process_time()

    lines = script_difference("a\n" * 260_000, "b\na\n" * 130_000)

    assert lines == ("260000 lines -> 260000 lines",)
    assert time.process_time() - began < 5
