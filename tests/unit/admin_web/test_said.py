"""What schedulers and executors say in English is shown in the viewer's language."""
# ruff: noqa: RUF001 - Chinese signs are what is shown

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from admin_web.said import said
from scheduler.cron import Cron
from scheduler.job_rules import problems
from scheduler.job_spec import JobSpec
from tests.support.sentences import sentences

ROOT = Path(__file__).parents[3]
#: Whose texts a page shows: refusals of what was typed, reasons, results.
SPEAKERS = {
    "scheduler": (
        "alarms/rules claiming commands completion confirmations cron cron_days cron_fields "
        "delay_audit dispatcher family_audit fleet_commands inquirer job_changes job_commands "
        "job_rules killer lineage misfire planner probe_answers rescuer route_strategies routing "
        "schedule script_source undertaker wall_clock alarms/webhook_url callbacks choosing"
    ),
    "executor": (
        "admission endings intake ledger questions readiness script_process scripts workload output"
    ),
    "sql": "drains jobs",
}
#: Values that fit the places: a number, a name, an address, a field, a sentence, several.
SAMPLES = ("A1", "7", "name", "app/x", "hour", "out of memory", "name 'x'")
#: Texts of these modules that no page shows, or only as a part of another one, by what they hold.
NOT_SHOWN = (
    "expected after to be an aware datetime",  # a mistake of a program
    "expected added routes to have new names",  # a console with such routes does not start
    "unknown style",  # asked by a list; its end is one of two hints
    "unknown A1",  # the same
    "state: ",  # before and after of the audit trail
    "expected app to be a name like",  # the form of apps has words of its own
    "expected title to be up to",
    "expected addresses to",
    "duplicate address",
    "children: ",
    ".trigger_status",  # SQL
    "day of ",  # a field's name, inside other sentences
    " circle",  # cut from the sentence with the circle's path
    ", did you mean",
    "; expected",
    "; listed and away:",
    "; wanted:",
    ", whose executor has left",
    " or A1",
    "A1 characters",  # what a field may be, as a part of its refusal
    "an integer from",
    "names of jobs",
    "no executor online",  # the reason in the log
    "did not answer within",  # behind the address of who was asked
    "answered in",
    "is idle, slots free",
    "is busy:",
    "it came before, and what became of it",  # in the log
)
#: Texts that are nothing but places.
NO_WORDS = {"A1 A1", "A1: A1"}


@pytest.fixture
def chinese(app: Flask) -> Iterator[None]:
    with app.test_request_context(headers={"Accept-Language": "zh-CN"}):
        yield


def _speakers() -> list[Path]:
    return [
        ROOT / package / f"{n}.py" for package, names in SPEAKERS.items() for n in names.split()
    ]


@pytest.mark.parametrize("path", _speakers(), ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.usefixtures("chinese")
def test_no_sentence_of_another_part_is_left_in_english(path: Path) -> None:
    left = [
        f"{path.name}:{line}: {texts[0]}"
        for line, texts in sentences(path, SAMPLES)
        if all(said(text) == text for text in texts)
        and texts[0] not in NO_WORDS
        and not any(part in texts[0] for part in NOT_SHOWN)
    ]

    assert left == []


@pytest.mark.parametrize("part", NOT_SHOWN)
def test_no_exception_is_left_of_a_sentence_that_is_gone(part: str) -> None:
    assert any(part in texts[0] for path in _speakers() for _, texts in sentences(path, SAMPLES))


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "0 0 25 * * ?",
        "0 0 0 ? * 9",
        "0 0 0 1 * 2",
        "0 0 0 L-40 * ?",
        "0 0/99 * * * ?",
        "x" * 999,
    ],
)
@pytest.mark.usefixtures("chinese")
def test_what_is_wrong_with_a_cron_expression_is_said_in_chinese(expression: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        Cron.parse(expression, "UTC")

    assert not _english(said(str(refused.value)))


@pytest.mark.usefixtures("chinese")
def test_what_is_wrong_with_a_job_is_said_in_chinese() -> None:
    wrong = JobSpec(
        app="reports",
        name="a/b",
        handler="",
        author="x" * 99,
        schedule_kind="FIX_RATE",
        schedule_conf="0",
        timezone="Nowhere/Town",
        route="FURST",
        block="SOMETIMES",
        timeout=-1,
        children=("a", "a", "b/"),
    )

    found = [said(one.text) for one in problems(wrong, now_ms=0)]

    assert len(found) > 8
    assert [text for text in found if _english(text)] == []


def _english(text: str) -> list[str]:
    """Return the English words of a text, but for what was typed and the names of choices."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|[A-Z][A-Z_]+|Cron|IANA|ISO|Webhook", "", text)
    return re.findall(r"[a-z]{3,}", plain)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "CRON, attempt 1, 3 retries left; scheduler node-1; online: a, b; ROUND, turn 7",
            "CRON，第 1 次尝试，还可重试 3 次；调度器 node-1；在线：a, b；ROUND，第 7 轮",
        ),
        (
            "BUSYOVER: a:1 is busy: every slot is taken; a:2 is idle, slots free: 3",
            "BUSYOVER：a:1 繁忙：所有槽位都被占用；a:2 空闲，可用槽位 3 个",
        ),
        ("killed before it started (killed by request)", "在开始之前被终止（按请求终止）"),
        (
            "timed out after 3 s; did not end on SIGTERM within 5 s, killed with SIGKILL",
            "超过 3 秒的时限；收到 SIGTERM 后 5 秒内未结束，已用 SIGKILL 终止",
        ),
        ("300 orders (exit code 3 at its exit)", "300 orders（退出时的退出码 3）"),
    ],
)
@pytest.mark.usefixtures("chinese")
def test_sentences_that_are_put_together_are_said_part_by_part(text: str, shown: str) -> None:
    assert said(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "3 of 4 orders",
        "ERROR: disk full",
        "ROUND: chose worker-1:9999, one of 4",
        "import succeeded",
        "disk full (at last)",
        "a; b",
        "second",
        "name",
        "out of memory\nTraceback",
        "expected a, got: " + "x" * 700,
        "",
    ],
)
@pytest.mark.usefixtures("chinese")
def test_a_jobs_own_words_stay_as_they_are(text: str) -> None:
    assert said(text) == text


def test_in_english_nothing_is_changed(app: Flask) -> None:
    with app.test_request_context():
        assert said("killed by request") == "killed by request"
