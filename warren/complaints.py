"""Which words and which exit status an error gets on the terminal."""

from dataclasses import dataclass

import click

from broker.errors import BrokerError
from executor.errors import ExecutorError
from sql.errors import SqlError
from warren.errors import WarrenError

FAILED = 1
WRONG_USAGE = 2


@dataclass(frozen=True, slots=True)
class Complaint:
    """What to say, a line each, and the status to end with; `is_help` = it is no error."""

    lines: tuple[str, ...]
    status: int = FAILED
    is_unexpected: bool = False
    is_help: bool = False


def complaint(error: Exception) -> Complaint:
    """Return what to say about an error."""
    if isinstance(error, WarrenError):
        return Complaint(error.lines)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return Complaint(tuple(error.format_message().splitlines()), WRONG_USAGE, is_help=True)
    if isinstance(error, click.ClickException):
        return Complaint((_usage(error),), error.exit_code)
    if isinstance(error, SqlError | BrokerError | ExecutorError | ValueError):
        return Complaint((_one_line(str(error)),))
    if isinstance(error, OSError):
        return Complaint((_of_system(error),))
    kind = type(error).__name__
    words = f"unexpected {kind}: {_one_line(str(error))} (warren --debug … shows more)"
    return Complaint((words,), is_unexpected=True)


def _usage(error: click.ClickException) -> str:
    words = _one_line(error.format_message())
    context = getattr(error, "ctx", None)
    return f"{words} (see: {context.command_path} --help)" if context else words


def _of_system(error: OSError) -> str:
    words = error.strerror or _one_line(str(error)) or type(error).__name__
    return f"{error.filename}: {words}" if error.filename else words


def _one_line(text: str) -> str:
    return " ".join(text.split())
