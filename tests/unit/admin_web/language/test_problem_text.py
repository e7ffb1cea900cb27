"""What is refused is said in the viewer's language."""

import re
from collections.abc import Iterator

import pytest
from flask import Flask

from warren.admin_web.language.labels import problem_text
from warren.scheduler.cron.expression import Cron
from warren.scheduler.jobs.rules import problems
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, FieldName, Problem, Refused, Word

#: A value for every place; what a sentence has no place for is left out of it.
FACTS = {name: "A1" for code in Code for name in re.findall(r"%\((\w+)\)", code.sentence)}


@pytest.fixture
def chinese(app: Flask) -> Iterator[None]:
    with app.test_request_context(headers={"Accept-Language": "zh-CN"}):
        yield


@pytest.mark.parametrize("word", [Word.HOUR, FieldName("retry_delay")])
@pytest.mark.usefixtures("chinese")
def test_every_refusal_is_said_in_chinese(word: Word | FieldName) -> None:
    said = {code.name: problem_text(Problem(code, **(FACTS | {"what": word}))) for code in Code}

    assert {code: text for code, text in said.items() if _english(text)} == {}


def test_every_refusal_reads_in_english_as_on_the_command_line(app: Flask) -> None:
    problems = [Problem(code, **(FACTS | {"what": Word.HOUR})) for code in Code]

    with app.test_request_context():
        assert [one.code for one in problems if problem_text(one) != str(one)] == []


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
    with pytest.raises(Refused) as refused:
        Cron.parse(expression, "UTC")

    [problem] = refused.value.problems
    assert not _english(problem_text(problem))


@pytest.mark.usefixtures("chinese")
def test_what_is_wrong_with_a_job_is_said_in_chinese() -> None:
    wrong = JobSpec(
        app="reports",
        name="a/b",
        handler="",
        author="x" * 99,
        schedule_kind="FIX_RATE",
        schedule_value="0",
        timezone="Nowhere/Town",
        route="FURST",
        block="SOMETIMES",
        timeout=-1,
        children=("a", "a", "b/"),
    )

    found = [problem_text(one) for one in problems(wrong, now_ms=0)]

    assert len(found) > 8
    assert [text for text in found if _english(text)] == []


def _english(text: str) -> list[str]:
    """Return the English words of a text, but for what was typed and the names of choices."""
    plain = re.sub(
        r"'[^']*'|\"[^\"]*\"|[A-Z][A-Z_]+|JobHandler|Cron|IANA|ISO|Webhook|http", "", text
    )
    return re.findall(r"[a-z]{3,}", plain)
