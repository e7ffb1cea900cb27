"""Why something is so is shown in the viewer's language, and nothing else is changed."""
# ruff: noqa: RUF001 - Chinese signs are what is shown

import re
from collections.abc import Iterator

import pytest
from flask import Flask

from warren.admin_web.language.labels import reason_text, stored_text
from warren.broker.reasons import Reason, Why
from warren.broker.stored_reasons import places, to_json

BUSY = Why.BUSY(address="a:1", why=Why.NO_FREE_SLOT())
KILL = Why.KILLED_BEFORE_START(why=Why.KILL_REQUESTED())
#: Names that are the same in every language.
NAMES = re.compile(
    r"JobHandler|Python|SIG[A-Z]+|[A-Z]+_[A-Z]+|MISFIRE|NUL|PATH|CPU|misfire|ms\b|x\b"
)


@pytest.fixture
def chinese(app: Flask) -> Iterator[None]:
    with app.test_request_context(headers={"Accept-Language": "zh-CN"}):
        yield


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("text", "why", "shown"),
    [
        (
            "no scheduler could send it in time; policy DO_NOTHING",
            '{"code":"MISSED","facts":{"policy":"DO_NOTHING"}}',
            "没有调度器能够及时发送；其任务跳过错过的调度",
        ),
        (
            "misfired, 570.0 s late; policy CATCH_UP",
            '{"code":"MISFIRED","facts":{"seconds":"570.0","policy":"CATCH_UP"}}',
            "晚了 570.0 秒；其任务跳过错过的调度",
        ),
        (
            "DISCARD_LATER: another run of the job is running or waiting here",
            '{"code":"DISCARDED"}',
            "该任务的另一个运行正在此处运行或等待",
        ),
        (
            "killed before it started (COVER_EARLY: a newer run of the job is running or waiting",
            '{"code":"KILLED_BEFORE_START","facts":{"why":{"code":"OUTDATED"}}}',
            "在开始之前被终止（该任务有更新的运行正在此处运行或等待）",
        ),
        (
            "CRON, attempt 1, 0 retries left; scheduler s; online: a; ROUND, turn 7",
            (
                '{"code":"ROUTED","facts":{"kind":"CRON","attempt":1,"left":0,"node":"s",'
                '"addresses":"a","how":[{"code":"TURN","facts":{"route":"ROUND","n":7}}]}}'
            ),
            "定时触发，第 1 次尝试，还可重试 0 次；调度器 s；在线：a；轮询，第 7 轮",
        ),
    ],
)
def test_what_0_1_0_stored_is_told_in_chinese(text: str, why: str, shown: str) -> None:
    assert stored_text(text, why) == shown


@pytest.mark.usefixtures("chinese")
def test_each_reason_is_told_in_chinese_with_its_facts() -> None:
    shown = {}
    for why in Why:
        reason = why(**dict.fromkeys(places(why), 7))
        shown[why] = stored_text(str(reason), to_json(reason))

    assert {why: text for why, text in shown.items() if text.count("7") < len(places(why))} == {}
    english = {why: re.findall(r"[a-z]{2,}", NAMES.sub("", text)) for why, text in shown.items()}
    assert {why: words for why, words in english.items() if words} == {}


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            Why.ROUTED(
                kind="schedule",
                attempt=1,
                left=3,
                node="node-1",
                addresses="a, b",
                how=(Why.LISTED_AND_AWAY(addresses="c"), Why.TURN(route="round robin", n=7)),
            ),
            (
                "定时触发，第 1 次尝试，还可重试 3 次；调度器 node-1；在线：a, b；"
                "已列出但不在线：c；轮询，第 7 轮"
            ),
        ),
        (
            Why.ASKED(route="busyover", what=(BUSY, Why.IDLE(address="a:2", n=3))),
            "忙碌转移：a:1 繁忙：所有槽位都被占用；a:2 空闲，可用槽位 3 个",
        ),
        (
            Why.ASKED(route="BUSYOVER", what=(BUSY, Why.BEST(address="a:1"))),
            "忙碌转移：a:1 繁忙：所有槽位都被占用；没有空闲的执行器，最合适的是 a:1",
        ),
        (KILL, "在开始之前被终止（按请求终止）"),
        (
            Why.NEEDED_SIGKILL(stop=Why.TIMED_OUT(seconds=3), seconds=5),
            "超过 3 秒的时限；收到 SIGTERM 后 5 秒内未结束，已用 SIGKILL 终止",
        ),
        (
            Why.NOTED(words="300 orders", notes=(Why.EXIT_CODE_AT_EXIT(code=3),)),
            "300 orders（退出时的退出码 3）",
        ),
        (Why.CPU_BUSY(n=99, most=90), "CPU 为 99 %，上限 90 %"),
    ],
)
@pytest.mark.usefixtures("chinese")
def test_reasons_within_reasons_are_told_too(reason: Reason, shown: str) -> None:
    assert stored_text(str(reason), to_json(reason)) == reason_text(reason) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("killed by request", None),  # of a row from before reasons were kept
        ("killed by request", ""),
        ("no luck", '{"code": "OF_ANOTHER_VERSION"}'),
        ("no luck", "{"),
        ("no luck", to_json(KILL)),  # somebody's own words, whatever stands beside them
        ("killed before it started (killed by ann)", to_json(KILL)),
        ("", to_json(KILL)),
        (None, to_json(KILL)),
        (None, None),
    ],
)
@pytest.mark.usefixtures("chinese")
def test_text_without_its_reason_stays_as_it_is(text: str | None, why: str | None) -> None:
    assert stored_text(text, why) == (text or "")


@pytest.mark.usefixtures("chinese")
def test_beginning_of_a_text_is_enough_for_its_reason() -> None:
    assert stored_text(str(KILL)[:20], to_json(KILL)) == "在开始之前被终止（按请求终止）"


@pytest.mark.usefixtures("chinese")
def test_facts_are_no_part_of_the_sentence() -> None:
    hostile = Why.NOT_TAKEN(fault="%(fault)s %s 100 % <script>")

    assert stored_text(str(hostile), to_json(hostile)) == "无法接收：%(fault)s %s 100 % <script>"


def test_in_english_nothing_is_changed(app: Flask) -> None:
    with app.test_request_context():
        for reason in (KILL, BUSY, Why.CPU_BUSY(n=99, most=90)):
            assert stored_text(str(reason), to_json(reason)) == str(reason)
