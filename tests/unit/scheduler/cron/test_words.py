"""Cron expressions in words, in both languages."""

# ruff: noqa: RUF001, ISC004 - Chinese punctuation; long sentences

from datetime import UTC, datetime
from pathlib import Path

import pytest

from warren.scheduler.cron.expression import next_fires
from warren.scheduler.cron.words import cron_words, weekday_hint

CASES = [
    ("* * * * * ?", "Every second", "每秒"),
    ("0 * * * * ?", "Every minute", "每分钟"),
    ("30 * * * * ?", "Every minute at second 30", "每分钟的第 30 秒"),
    ("0/10 * * * * ?", "Every 10 seconds", "每 10 秒"),
    ("5/10 * * * * ?", "Every 10 seconds from second 5", "每 10 秒（从第 5 秒起）"),
    ("0 */5 * * * ?", "Every 5 minutes", "每 5 分钟"),
    ("0 3/5 * * * ?", "Every 5 minutes from minute 3", "每 5 分钟（从第 3 分起）"),
    ("0 0 * * * ?", "Every hour", "每小时"),
    ("0 30 * * * ?", "Every hour at minute 30", "每小时的第 30 分"),
    ("0 0 */2 * * ?", "Every 2 hours", "每 2 小时"),
    (
        "0 15 1/6 * * ?",
        "Every 6 hours from hour 1 at minute 15",
        "每 6 小时（从 1 点起）的第 15 分",
    ),
    ("0 0 2 * * ?", "At 02:00, every day", "每天，02:00"),
    ("30 15 2 * * ?", "At 02:15:30, every day", "每天，02:15:30"),
    ("0 0 8,12,18 * * ?", "At 08:00, 12:00, 18:00, every day", "每天，08:00、12:00、18:00"),
    (
        "0 0/15 9-17 ? * MON-FRI",
        "Every 15 minutes, from 09:00 to 17:59, on Monday to Friday",
        "每周一至周五，09:00 至 17:59，每 15 分钟",
    ),
    ("0 0 9 ? * 6#3", "At 09:00, on the third Friday of the month", "每月第三个周五，09:00"),
    ("0 0 9 ? * 6L", "At 09:00, on the last Friday of the month", "每月最后一个周五，09:00"),
    ("0 0 0 ? * L", "At 00:00, on Saturday", "每周六，00:00"),
    ("0 0 0 ? * *", "At 00:00, every day", "每天，00:00"),
    ("0 0 9 L * ?", "At 09:00, on the last day of the month", "每月最后一天，09:00"),
    (
        "0 0 9 L-3 * ?",
        "At 09:00, on day 3 before the last day of the month",
        "每月最后一天的前 3 天，09:00",
    ),
    (
        "0 0 9 15W * ?",
        "At 09:00, on the weekday nearest to day 15 of the month",
        "每月离 15 日最近的工作日，09:00",
    ),
    (
        "0 0 9 LW * ?",
        "At 09:00, on the weekday nearest to the last day of the month",
        "每月离最后一天最近的工作日，09:00",
    ),
    (
        "0 0 9 1-5,L JAN,MAR-MAY ? 2027",
        "At 09:00, on day 1 to 5 and the last day of the month, in January and March to May, "
        "in 2027",
        "2027 年，1月和3月至5月，每月 1至5 日和最后一天，09:00",
    ),
    ("0 0 9-17 * * ?", "Every hour, from 09:00 to 17:59", "09:00 至 17:59，每小时"),
    (
        "10-20 5,6 3 * * ?",
        "At second 10 to 20, at minute 5 and 6, at hour 3, every day",
        "每天，第 10至20 秒、第 5和6 分、3 点",
    ),
    ("0 5,35 * * * ?", "At minute 5 and 35, of every hour", "每小时，第 5和35 分"),
    (
        "0 0 0 1/10 2-11/3 ?",
        "At 00:00, on day 1 to 31 in steps of 10 of the month, "
        "in February to November in steps of 3",
        "2月至11月（步长 3），每月 1至31（步长 10） 日，00:00",
    ),
]


@pytest.mark.parametrize(("expression", "english", "chinese"), CASES, ids=[c[0] for c in CASES])
def test_an_expression_is_said_in_both_languages(
    expression: str, english: str, chinese: str
) -> None:
    assert cron_words(expression, "en") == english
    assert cron_words(expression, "zh-CN") == chinese


def test_traditional_chinese_has_its_own_words() -> None:
    assert cron_words("0 0 2 ? * MON", "zh-TW") == "每週一，02:00"
    assert cron_words("0 0/5 * * * ?", "zh-TW") == "每 5 分鐘"


def test_an_unknown_language_is_answered_in_english() -> None:
    assert cron_words("0 0 2 * * ?", "fr") == "At 02:00, every day"


@pytest.mark.parametrize(
    ("weekday", "english", "chinese"),
    [
        (
            "1-5",
            "1-5 is Sunday to Thursday; did you mean MON-FRI?",
            "1-5 是周日至周四；是否应为 MON-FRI？",
        ),
        ("1", "1 is Sunday; did you mean MON?", "1 是周日；是否应为 MON？"),
        (
            "6,7",
            "6,7 is Friday and Saturday; did you mean SAT,SUN?",
            "6,7 是周五和周六；是否应为 SAT,SUN？",
        ),
        (
            "MON,3",
            "MON,3 is Monday and Tuesday; did you mean MON,WED?",
            "MON,3 是周一和周二；是否应为 MON,WED？",
        ),
        (
            "6#3",
            "6#3 is on the third Friday of the month; did you mean SAT#3?",
            "6#3 是每月第三个周五；是否应为 SAT#3？",
        ),
        (
            "6L",
            "6L is on the last Friday of the month; did you mean SATL?",
            "6L 是每月最后一个周五；是否应为 SATL？",
        ),
        ("2-6", "2-6 is Monday to Friday", "2-6 是周一至周五"),
        ("1,7", "1,7 is Sunday and Saturday", "1,7 是周日和周六"),
        ("2/2", "2/2 is Monday to Saturday in steps of 2", "2/2 是周一至周六（步长 2）"),
        ("MON-FRI", "", ""),
        ("MON#3", "", ""),
        ("*/2", "", ""),
        ("*", "", ""),
        ("L", "", ""),
    ],
)
def test_numbers_of_weekdays_are_said_with_what_was_likely_meant(
    weekday: str, english: str, chinese: str
) -> None:
    assert weekday_hint(f"0 0 2 ? * {weekday}", "en") == english
    assert weekday_hint(f"0 0 2 ? * {weekday}", "zh-CN") == chinese


def test_an_expression_without_weekdays_has_no_hint() -> None:
    assert weekday_hint("0 0 2 1-5 * ?", "en") == ""


@pytest.mark.parametrize("expression", ["", "0 0 25 * * ?", "* * * * *", "0 0 0 1 1 1"])
def test_what_is_no_expression_is_refused_as_by_the_schedule(expression: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        cron_words(expression, "en")


def test_every_expression_that_can_be_scheduled_has_words() -> None:
    lines = (
        (Path(__file__).parents[3] / "data/quartz_cron_cases.tsv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    said = 0
    for expression in {line.split("\t")[2] for line in lines[1:]}:
        try:
            next_fires(expression, after=datetime.now(UTC), timezone="UTC", count=1)
        except ValueError:
            continue

        assert cron_words(expression, "en")
        assert cron_words(expression, "zh")
        said += 1

    assert said > 50
