"""Which words and which exit status an error gets on the terminal."""

from dataclasses import dataclass
from functools import singledispatch

import click
from click.exceptions import NoArgsIsHelpError

from broker.errors import BrokerError
from executor.errors import ExecutorError
from executor.handlers import HandlersError
from sql.errors import SqlError
from warren.errors import WarrenError

FAILED = 1
WRONG_USAGE = 2


@dataclass(frozen=True, slots=True)
class Complaint:
    """What to say, a line each, and the status to end with.

    `is_help`: it is no error. `preface` is what the user's own code said, shown before.
    """

    lines: tuple[str, ...]
    status: int = FAILED
    is_unexpected: bool = False
    is_help: bool = False
    preface: str = ""


@singledispatch
def complaint(error: Exception) -> Complaint:
    """Return what to say about an error, by its kind."""
    words = _one_line(str(error))
    kind = type(error).__name__
    line = f"unexpected {kind}: {words} (warren --debug … shows where)"
    return Complaint((line,), is_unexpected=True)


@complaint.register
def _of_ours(error: WarrenError) -> Complaint:
    return Complaint(error.lines)


@complaint.register(SqlError)
@complaint.register(BrokerError)
@complaint.register(ExecutorError)
@complaint.register(ValueError)
def _of_a_package(error: Exception) -> Complaint:
    return Complaint((_one_line(str(error)),))


@complaint.register
def _of_handlers(error: HandlersError) -> Complaint:
    return Complaint((_one_line(error.line),), preface=error.traceback)


@complaint.register
def _of_system(error: OSError) -> Complaint:
    words = error.strerror or _one_line(str(error)) or type(error).__name__
    return Complaint((f"{error.filename}: {words}" if error.filename else words,))


@complaint.register
def _of_usage(error: click.ClickException) -> Complaint:
    words = _one_line(error.format_message())
    context = getattr(error, "ctx", None)
    hint = f" (see: {context.command_path} --help)" if context else ""
    return Complaint((words + hint,), error.exit_code)


@complaint.register
def _of_no_arguments(error: NoArgsIsHelpError) -> Complaint:
    return Complaint(tuple(error.format_message().splitlines()), WRONG_USAGE, is_help=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
