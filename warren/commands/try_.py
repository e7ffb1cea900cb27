"""`warren try`: runs a handler here, without starting any services."""

import math
import re
import sys

import click

from warren.command_options import examples
from warren.executor.processes.trial import try_handler as run_handler
from warren.logs import configure_logs
from warren.scheduler.jobs.param import check_param

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


def _read_shard(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, int]:
    """Return index and total of a shard; `0/3` is the first of three."""
    found = _SHARD.fullmatch(text)
    if not found or int(found[1]) >= int(found[2]):
        raise click.BadParameter(f"expected a shard like 0/3, got: {text!r}")
    return int(found[1]), int(found[2])


def _read_timeout(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Return the timeout; a range lets "nan" through."""
    if math.isnan(seconds):
        raise click.BadParameter(f"expected seconds, got: {seconds}")
    return seconds


@click.command(
    "try",
    epilog=examples(
        "warren try handlers.py report.daily", "warren try handlers.py load --param x --shard 0/3"
    ),
)
@click.argument("file")
@click.argument("handler")
@click.option("--param", default="", help="The run's parameter.")
@click.option(
    "--shard",
    metavar="INDEX/TOTAL",
    callback=_read_shard,
    default="0/1",
    help="Run as one of several shards, e.g. 0/3.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 9_999_999),
    callback=_read_timeout,
    default=0,
    help="Timeout in seconds; 0 means none.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="How many times to run it, in one job process.",
)
def try_handler(  # noqa: PLR0917 - click passes its parameters by name
    file: str, handler: str, param: str, shard: tuple[int, int], timeout: float, runs: int
) -> int:
    """Run HANDLER from FILE in a job process, without starting any services.

    Its output is printed. The exit status is 0 if it succeeded, each time with --runs.
    """
    check_param(param)
    configure_logs("warning")
    index, total = shard
    return run_handler(file, handler, param, index, total, timeout, sys.stdout, runs)
