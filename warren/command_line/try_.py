"""`warren try`: runs a handler here, without starting any services."""

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.command_options import Duration, examples, param_values, read_values
from warren.executor.processes.trial import try_handler as run_handler
from warren.logs import configure_logs
from warren.scheduler.jobs.param_schema import check_param, param_problems
from warren.scheduler.problems import Refused
from warren.scheduler.schedules.run_date import RunDateRule, parse_date, run_date_of
from warren.settings.setting_rules import local_timezone
from warren.sql.run_status import Kind
from warren.terminal.output import read_moment

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


def _read_shard(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, int]:
    """Return index and total of a shard; `0/3` is the first of three."""
    match = _SHARD.fullmatch(text)
    if not match or int(match[1]) >= int(match[2]):
        raise click.BadParameter(f"expected a shard like 0/3, got: {text!r}")
    return int(match[1]), int(match[2])


def _read_at(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    return None if text is None else read_moment(text, "--at", zone=ZoneInfo(local_timezone()))


def _read_date(_context: click.Context, _option: click.Parameter, text: str | None) -> date | None:
    return None if text is None else parse_date(text)


@click.command(
    "try",
    epilog=examples(
        "warren try handlers.py report.daily",
        "warren try handlers.py load --param x --shard 0/3",
        "warren try handlers.py load --set day=2026-12-01 --pdb",
        "warren try handlers.py load --at 2026-12-01T02:00 --attempt 1 --kind RETRY",
    ),
)
@click.argument("file")
@click.argument("handler")
@click.option("--param", default="", help="The run's parameter.")
@param_values
@click.option(
    "--shard",
    metavar="INDEX/TOTAL",
    callback=_read_shard,
    default="0/1",
    help="Run as one of several shards, e.g. 0/3.",
)
@click.option(
    "--timeout",
    type=Duration(most=9_999_999),
    metavar="DURATION",
    default="0",
    help="Timeout, such as 90s or 5m; 0 means none.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="How many times to run it, in one job process.",
)
@click.option("--at", metavar="T", callback=_read_at, help="Its due time, ISO 8601; default: now.")
@click.option(
    "--run-date",
    metavar="DATE",
    callback=_read_date,
    help="The date that it is about, such as 2026-12-01; default: the day on which it is due.",
)
@click.option(
    "--attempt", type=click.IntRange(0, 1_000), default=0, help="0 is the first, 1 its first retry."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in Kind], case_sensitive=False),
    default=Kind.MANUAL.value,
    help="What the run comes from.",
)
@click.option(
    "--result",
    "results",
    metavar="JOB=VALUE",
    multiple=True,
    callback=read_values,
    help="The result of JOB, if the handler calls it and waits. VALUE is JSON, or else plain text.",
)
@click.option(
    "--pdb", "is_post_mortem", is_flag=True, help="Stop in the debugger where a run has failed."
)
def try_handler(  # noqa: PLR0917 - click passes its parameters by name
    file: str,
    handler: str,
    param: str,
    values: Mapping[str, Any],
    shard: tuple[int, int],
    timeout: float,
    runs: int,
    at: int | None,
    run_date: date | None,
    attempt: int,
    kind: str,
    results: Mapping[str, Any],
    is_post_mortem: bool,
) -> int:
    """Run HANDLER from FILE in a job process, without starting any services.

    Its output is printed. The exit status is 0 if it succeeded, each time with --runs. On a
    terminal, breakpoint() stops in the debugger.
    """
    if values and param:
        raise click.UsageError("expected --param or --set, got both")
    if values:
        param = json.dumps(values, ensure_ascii=False)
    terminal = _terminal()
    if is_post_mortem and not terminal:
        raise click.UsageError("--pdb needs a terminal as standard input and output")
    check_param(param)
    configure_logs("warning")
    index, total = shard
    due_ms = int(time.time() * 1000) if at is None else at
    return run_handler(
        file,
        handler,
        param,
        index,
        total,
        timeout,
        sys.stdout,
        runs,
        kind=kind,
        attempt=attempt,
        scheduled_at_ms=due_ms,
        run_date=(run_date or run_date_of(due_ms, local_timezone(), RunDateRule())).isoformat(),
        terminal=terminal,
        is_post_mortem=is_post_mortem,
        check_param=_check_typed,
        results={job: json.dumps(result) for job, result in results.items()},
    )


def _check_typed(schema: str, param: str) -> None:
    if problems := param_problems(json.loads(schema), param):
        raise Refused(problems)


def _terminal() -> str:
    """Return the name of the terminal that a person sits at; empty if there is none."""
    return os.ttyname(0) if sys.stdin.isatty() and sys.stdout.isatty() else ""
