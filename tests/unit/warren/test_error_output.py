"""Every error is a line, or a few, and a status."""

import errno

import click
import pytest

from warren.broker.errors import BrokerUnavailable
from warren.error_output import report_of
from warren.errors import CommandError, JobFileError
from warren.executor.errors import StateFolderInUse
from warren.executor.handlers.handler_registry import HandlersError
from warren.sql.errors import Ambiguous, DatabaseUnavailable, LookupFailure, NotFound


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CommandError("no database"), "no database"),
        (NotFound(LookupFailure.NO_JOB_NAMED, name="x"), "no job named 'x'"),
        (
            Ambiguous(LookupFailure.SEVERAL_JOBS_NAMED, name="x"),
            "several apps have a job named 'x'; write APP/x",
        ),
        (DatabaseUnavailable("cannot use\nthe database"), "cannot use the database"),
        (BrokerUnavailable("cannot reach the broker"), "cannot reach the broker"),
        (StateFolderInUse("another process holds x"), "another process holds x"),
        (ValueError("expected a time"), "expected a time"),
        (
            UnicodeEncodeError("utf-8", "caf\udce9 au lait", 3, 4, "surrogates not allowed"),
            r"expected text in UTF-8, got: '\udce9'",
        ),
        (OSError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
        (OSError("strange"), "strange"),
        (
            ModuleNotFoundError("No module named 'sqlalchemy.orm'", name="sqlalchemy.orm"),
            (
                "this command needs the server, and sqlalchemy.orm is not installed: "
                "install Warren's wheel with [server]"
            ),
        ),
        (
            ModuleNotFoundError("No module named 'psycopg'", name="psycopg"),
            (
                "this database needs psycopg, which is not installed: "
                "install Warren's wheel with [server,postgresql]"
            ),
        ),
    ],
)
def test_what_a_user_can_put_right_is_one_line_and_status_one(error: Exception, line: str) -> None:
    said = report_of(error)

    assert (said.lines, said.status, said.is_unexpected) == ((line,), 1, False)


def test_module_that_nobody_should_miss_is_unexpected() -> None:
    assert report_of(ModuleNotFoundError("No module named 'x'", name="x")).is_unexpected
    assert report_of(ModuleNotFoundError("import of x halted")).is_unexpected


def test_every_problem_of_a_job_file_has_its_line() -> None:
    said = report_of(JobFileError(["jobs.yaml:1: x", "jobs.yaml:2: y"]))

    assert said.lines == ("jobs.yaml:1: x", "jobs.yaml:2: y")


def test_traceback_of_the_users_own_handlers_comes_first() -> None:
    said = report_of(HandlersError("cannot load handlers from 'x.py'", "Traceback …\n"))

    assert said.preface == "Traceback …\n"
    assert said.lines == ("cannot load handlers from 'x.py'",)


def test_wrong_usage_is_one_line_with_a_hint_and_status_two() -> None:
    context = click.Context(click.Command("jobs"), info_name="warren jobs")

    said = report_of(click.UsageError("No such\noption '--x'.", context))

    assert said.lines == ("No such option '--x'. (see: warren jobs --help)",)
    assert said.status == 2


def test_unexpected_error_names_its_kind_in_one_line() -> None:
    said = report_of(ZeroDivisionError("division\nby zero"))

    [line] = said.lines
    assert line.startswith("unexpected ZeroDivisionError: division by zero")
    assert (said.status, said.is_unexpected) == (1, True)
