"""What is refused is a value: doors read its code, its field and its facts."""

import pytest

from warren.scheduler.cron.expression import Cron
from warren.scheduler.problems import (
    Code,
    FieldName,
    Problem,
    ProblemKind,
    Refused,
    Word,
    found,
    lookup_problem,
    unknown_word,
)
from warren.sql.errors import Ambiguous, LookupFailure, NotFound


def test_problem_says_its_facts_in_its_sentence() -> None:
    problem = Problem(Code.INTEGER, "retries", what=FieldName("retries"), least=0, most=9, got=-1)

    assert str(problem) == "expected retries to be an integer from 0 to 9, got: -1"
    assert problem.field == "retries"
    assert problem.code.kind is ProblemKind.INVALID
    assert problem.problems == (problem,)


def test_several_problems_are_one_refusal_that_says_all() -> None:
    several = Refused([Problem(Code.HANDLER_AND_SCRIPT), Problem(Code.CHILD_TWICE, got="a")])

    assert str(several) == "expected either handler or script, got: both; duplicate child 'a'"


def test_what_is_wrong_finds_its_field() -> None:
    [problem] = found(lambda: Cron.parse("0 0 25 * * ?", "UTC"), "schedule")

    assert (problem.code, problem.field) == (Code.CRON_NUMBER, "schedule")
    assert problem.facts == {"what": Word.HOUR, "least": 0, "most": 23, "got": "25"}
    assert found(lambda: None, "schedule") == ()


@pytest.mark.parametrize("failure", LookupFailure)
def test_every_failed_lookup_has_its_sentence(failure: LookupFailure) -> None:
    kind = ProblemKind.UNKNOWN if failure.name.startswith("NO_") else ProblemKind.CONFLICT

    assert Code[failure.name].kind is kind


def test_what_was_not_found_is_a_problem_with_the_same_facts() -> None:
    missing = lookup_problem(NotFound(LookupFailure.NO_SCRIPT_VERSION, id=7, version=2))
    several = lookup_problem(Ambiguous(LookupFailure.SEVERAL_JOBS_NAMED, name="a"))

    assert str(missing) == "job 7 has no version 2 of its script"
    assert missing.facts == {"id": 7, "version": 2}
    assert str(several) == "several apps have a job named 'a'; write APP/a"


def test_near_word_is_offered_and_else_all_of_them() -> None:
    near = unknown_word("route", FieldName("route"), "FURST", ("FIRST", "LAST", "ROUND"))
    none = unknown_word("route", FieldName("route"), "x", ("FIRST", "LAST", "ROUND"))

    assert str(near) == "unknown route 'FURST', did you mean 'FIRST'?"
    assert str(none) == "unknown route 'x'; expected FIRST, LAST or ROUND"
