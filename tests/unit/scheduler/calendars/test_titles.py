# ruff: noqa: RUF001 - titles have brackets as people type them
"""Which titles of events say that people work on a day off."""

from warren.scheduler.calendars.feeds import is_working_day

WORKING_DAYS = """
补班
補班
上班
春节（班）
春节(班)
国庆节【班】
班(中秋)
【班】中秋节
中秋节 班
班 春节
春节班
国庆节补班
补班 春节
补班（国庆节）
补班 · 国庆节
春节 补班 第1天/共2天
春节补班(第1天/共2天)
春节（补班）第 2 天 / 共 2 天
調休
国庆节调休
五一调休上班
调休 劳动节
工作日
工作日（春节）
春节 [工作日]
補行上班
補行上班日
補班日
端午節補行上班
小年夜 補班
周六上班
星期日补班
10月11日上班
春节前上班
国庆节后补班
正常上班
照常上班、照常上課
2/7 補班
和平紀念日補班
Make-up (work)
国庆节 上班 1/2
元旦 「補班」
"""
#: Other words that end alike, denials, and holidays themselves.
OTHERS = """
值班
加班
下班
航班
夜班
早班
晚班
培训班
不上班
非工作日
停班
停班停課
轮班
换班
交接班
跟班学习
领班会议
班会
班级聚会
上班族聚会
春节值班
国庆加班
春节不上班
国庆节后不上班
值班（春节）
春节（值班）
上海航班
航班 CA123 国庆
调休假
国庆节调休放假
春节 调休（休）
无需上班
不 上班
工作日志
工作日历
兴趣班
英语补习班
高三（1）班
十一班
班车停运
毕业班 春节
夜班（工作日）
春节
国庆节（休）
Non-working day
Work party
第1天/共3天 春节
兴趣班(春节)
班
"""


def test_titles_of_moved_working_days_count_and_no_others() -> None:
    working, others = WORKING_DAYS.strip().splitlines(), OTHERS.strip().splitlines()

    missed = [title for title in working if not is_working_day(title)]
    taken = [title for title in others if is_working_day(title)]

    assert len(others) > 30
    assert (missed, taken) == ([], [])
