"""What is told about handlers when jobs are saved, and how much work that may be."""

from dataclasses import replace

from warren.broker.messages import Catalogue, HandlerFacts
from warren.scheduler.expectations import Expectations
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.views.job_warnings import (
    MAX_COMPARISONS,
    HandlerCheck,
    OnlineExecutor,
    job_warnings,
)
from warren.sql.engine import Database


def check(*handlers: str) -> HandlerCheck:
    told = Catalogue(handlers=tuple(HandlerFacts(name=one) for one in handlers))
    return HandlerCheck({"reports": [OnlineExecutor("a", told)]})


def said(known: HandlerCheck, handler: str, **fields: str) -> str:
    return str(known.of(JobSpec(name="x", app="reports", handler=handler, **fields)) or "")


def test_a_name_that_is_like_none_is_told_without_a_guess() -> None:
    assert said(check("orders.feed"), "mail") == "no online executor has 'mail'"


def test_a_job_with_a_script_needs_no_handler() -> None:
    assert said(check("orders.feed"), "", script_language="shell") == ""


def test_very_many_mistyped_names_are_all_told_but_not_all_compared() -> None:
    known = check(*(f"handler-{number}" for number in range(MAX_COMPARISONS // 2)))

    told = [said(known, f"handlr-{number}") for number in range(4)]

    assert [words.partition(";")[0] for words in told] == [
        f"no online executor has 'handlr-{number}'" for number in range(4)
    ]
    assert ["did you mean" in words for words in told] == [True, True, False, False]


def test_an_expectation_that_needs_a_history_says_when_it_begins_to_be_watched(
    sqlite_schema_url: str,
) -> None:
    script = JobSpec(name="x", app="reports", script_language="shell")
    spec = replace(script, expect=Expectations(longest="3x usual"))

    database = Database(sqlite_schema_url)
    told = database.read(lambda session: job_warnings(session, spec, 0))
    database.close()

    assert told == ["longest '3 x usual' is watched once the job has 5 successes"]


def test_a_success_that_pauses_of_the_schedule_forbid_is_told(sqlite_schema_url: str) -> None:
    script = JobSpec(name="x", app="reports", script_language="shell", schedule_kind="CRON")
    database = Database(sqlite_schema_url)

    def told(cron: str, every: str) -> list[str]:
        spec = replace(script, schedule_value=cron, expect=Expectations(success_every=every))
        return database.read(lambda session: job_warnings(session, spec, 0))

    weekdays = "0 0 2 ? * MON-FRI"
    line = (
        "success_every '26h' is shorter than a pause of the schedule, 72h: "
        "each such pause opens an incident"
    )
    assert told(weekdays, "26h") == [line]
    assert told(weekdays, "74h") == told("0 0 2 * * ?", "26h") == []
    database.close()
