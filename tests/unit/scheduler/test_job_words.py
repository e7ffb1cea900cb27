"""What an edit changes, in words."""

import time
from typing import Any

import pytest

from scheduler.job_words import DIFF_LINES, differences, schedule_words, script_difference
from sql.models import Job


def job(**columns: Any) -> Job:
    facts = {"schedule_type": "CRON", "schedule_conf": "0 0 2 * * ?", "executor_param": "old"}
    return Job(**(facts | columns))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"executor_param": "new"}, "param: 'old' -> 'new'"),
        ({"executor_param": None}, "param: 'old' -> ''"),
        ({"executor_timeout": 30}, "timeout: 0 -> 30"),
        ({"fresh_process": 1}, "fresh_process: false -> true"),
        ({"executor_route_strategy": "ROUND"}, "route: FIRST -> ROUND"),
        ({"alarm_email": "a@example.com"}, "alarm emails: '' -> 'a@example.com'"),
        ({"schedule_conf": "0 0 3 * * ?"}, "schedule: cron 0 0 2 * * ? -> cron 0 0 3 * * ?"),
        (
            {"schedule_type": "FIX_RATE", "schedule_conf": "30"},
            "schedule: cron 0 0 2 * * ? -> every 30 s",
        ),
        ({"schedule_type": "NONE", "schedule_conf": ""}, "schedule: cron 0 0 2 * * ? -> none"),
    ],
)
def test_a_change_is_told_by_the_names_of_a_job_file(changed: dict[str, Any], line: str) -> None:
    before = job(executor_timeout=0, fresh_process=0, executor_route_strategy="FIRST")

    assert differences(before, changed) == (line,)


def test_of_long_texts_the_first_difference_is_shown() -> None:
    [line] = differences(job(executor_param="x" * 500 + "a"), {"executor_param": "x" * 500 + "b"})

    assert line == f"param: …'{'x' * 15}a' -> …'{'x' * 15}b'"


def test_a_webhooks_secret_is_not_shown() -> None:
    before = job(alarm_webhook="https://example.com/robot?token=secret")

    [line] = differences(before, {"alarm_webhook": "https://example.org/other?token=hidden"})

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
    assert lines[-1] == f"… and {500 + 3 - DIFF_LINES} lines more"


def test_two_huge_scripts_cost_no_time() -> None:
    began = time.monotonic()

    lines = script_difference("a\n" * 260_000, "b\na\n" * 130_000)

    assert lines == ("260000 lines -> 260000 lines",)
    assert time.monotonic() - began < 5


def test_a_schedule_by_itself_has_words() -> None:
    assert schedule_words("FIX_DELAY", "60") == "delay 60 s"
    assert schedule_words("AT", "2026-12-01T08:00:00+08:00") == "at 2026-12-01T08:00:00+08:00"
    assert schedule_words("NONE", None) == "none"
