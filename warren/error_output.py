"""The message and the exit status for each error."""

from dataclasses import dataclass
from functools import singledispatch

import click
from click.exceptions import NoArgsIsHelpError

from warren.broker.errors import BrokerError
from warren.errors import WarrenError
from warren.executor.errors import ExecutorError
from warren.executor.handlers.handler_registry import HandlersError
from warren.program_name import shown_name
from warren.scheduler.problems import lookup_problem
from warren.sql.dialects.url_forms import FORMS
from warren.sql.errors import LookupFailed, SqlError

#: Installed with the extra [server]; executors do not need them.
SERVER_LIBRARIES = {
    *("alembic", "argon2", "croniter", "flask", "flask_babel", "flask_wtf"),
    *("holidays", "icalendar", "recurring_ical_events", "prometheus_client"),
    *("pymysql", "sqlalchemy", "waitress", "wtforms", "yaml"),
}

#: Installed with the extra [gateway].
GATEWAY_LIBRARIES = {"aiohttp"}

#: Drivers of databases, each installed with an extra of its own.
DRIVERS = {form.driver: form.extra for form in FORMS if form.extra}

FAILED = 1
WRONG_USAGE = 2


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The lines to print and the exit status.

    `is_help`: the lines are help, not an error. `preface` is output of the user's own code, printed
    first.
    """

    lines: tuple[str, ...]
    status: int = FAILED
    is_unexpected: bool = False
    is_help: bool = False
    preface: str = ""


@singledispatch
def report_of(error: Exception) -> ErrorReport:
    return _unexpected(error)


@report_of.register
def _of_absence(error: ModuleNotFoundError) -> ErrorReport:
    library = (error.name or "").partition(".")[0]
    if library in DRIVERS:
        line = f"this database needs {error.name}, which is not installed: "
        return ErrorReport((line + f"install Warren's wheel with [server,{DRIVERS[library]}]",))
    for extra, libraries in (("server", SERVER_LIBRARIES), ("gateway", GATEWAY_LIBRARIES)):
        if library in libraries:
            line = f"this command needs the {extra}, and {error.name} is not installed: "
            return ErrorReport((line + f"install Warren's wheel with [{extra}]",))
    return _unexpected(error)


def _unexpected(error: Exception) -> ErrorReport:
    words = _one_line(str(error))
    kind = type(error).__name__
    line = f"unexpected {kind}: {words} ({shown_name()} --debug … shows the stack trace)"
    return ErrorReport((line,), is_unexpected=True)


@report_of.register
def _of_ours(error: WarrenError) -> ErrorReport:
    return ErrorReport(error.lines)


@report_of.register(SqlError)
@report_of.register(BrokerError)
@report_of.register(ExecutorError)
@report_of.register(ValueError)
def _of_a_package(error: Exception) -> ErrorReport:
    return ErrorReport((_one_line(str(error)),))


@report_of.register
def _of_lookup(error: LookupFailed) -> ErrorReport:
    return _of_a_package(lookup_problem(error))


@report_of.register
def _of_bad_text(error: UnicodeEncodeError) -> ErrorReport:
    """Report that an argument is not in the terminal's encoding, without printing all of it."""
    return ErrorReport((f"expected text in UTF-8, got: {error.object[error.start : error.end]!r}",))


@report_of.register
def _of_handlers(error: HandlersError) -> ErrorReport:
    return ErrorReport((_one_line(error.line),), preface=error.traceback)


@report_of.register
def _of_system(error: OSError) -> ErrorReport:
    words = error.strerror or _one_line(str(error)) or type(error).__name__
    return ErrorReport((f"{error.filename}: {words}" if error.filename else words,))


@report_of.register
def _of_usage(error: click.ClickException) -> ErrorReport:
    words = _one_line(error.format_message())
    context = getattr(error, "ctx", None)
    hint = f" (see: {context.command_path} --help)" if context else ""
    return ErrorReport((words + hint,), error.exit_code)


@report_of.register
def _of_no_arguments(error: NoArgsIsHelpError) -> ErrorReport:
    return ErrorReport(tuple(error.format_message().splitlines()), WRONG_USAGE, is_help=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
