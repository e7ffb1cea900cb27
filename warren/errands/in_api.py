"""Does the errands that command lines elsewhere send to an API."""

import time
from collections.abc import Callable
from zoneinfo import ZoneInfo

import click

from warren.admin_web.api.problem_answers import at_pointer
from warren.admin_web.services import CommandLine, Errands
from warren.errands.desk import Desk, TimeIsOver, do
from warren.errands.table import ERRANDS
from warren.error_output import WRONG_USAGE, report_of
from warren.errors import WarrenError
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql.errors import LookupFailed
from warren.views.terminal import Output

#: How long one errand may go on before the command line sends another one for the rest.
_LONG_SECONDS = 15.0
#: Lines of a list at most; more are for who has the database.
MAX_LINES = 10_000


def api_errands() -> Errands:
    """Return what an API needs to do errands."""
    scopes = {name: errand.scope for name, errand in ERRANDS.items()}
    return Errands(scopes=scopes, do=_done)


def _done(line: CommandLine) -> Output:
    limit = line.options.get("limit")
    if isinstance(limit, int) and limit > MAX_LINES:
        words = f"expected --limit to be up to {MAX_LINES} by an API, got: {limit}"
        return Output(errors=[words], status=WRONG_USAGE)
    desk = Desk(
        context=line.context,
        zone=_zone(line.timezone or line.context.timezone),
        once=line.once,
        shows_secrets=line.may_write,
        max_lines=MAX_LINES,
        on_progress=_end_at(time.monotonic() + _LONG_SECONDS),
    )
    try:
        return do(desk, line.errand, line.options)
    except Problem as problem:
        if problem.code is Code.NO_RIGHT:
            raise
        return _refused(problem)
    except (WarrenError, Refused, LookupFailed, click.ClickException) as error:
        return _refused(error)


def _refused(error: Exception) -> Output:
    """Return what a command on a database would say of an error."""
    report = report_of(error)
    return Output(errors=list(report.lines), status=report.status)


def _end_at(end_at: float) -> Callable[[int], None]:
    """Return what ends a long errand at a time of the monotonic clock."""

    def go_on(_count: int) -> None:
        if time.monotonic() >= end_at:
            raise TimeIsOver

    return go_on


def _zone(name: str) -> ZoneInfo:
    try:
        return load_zone(name)
    except Problem as problem:
        raise at_pointer("/timezone", str(problem)) from problem
