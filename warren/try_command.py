"""`warren try`: one handler, here and now."""

import re
import sys

import click

from executor.trial import try_handler as run_handler
from scheduler.job_rules import check_param
from warren.logs import configure_logs
from warren.options import examples

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


class Shard(click.ParamType[tuple[int, int]]):
    """`0/3`: the first of three shards."""

    name = "INDEX/TOTAL"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return index and total."""
        if isinstance(value, tuple):
            return value
        found = _SHARD.fullmatch(str(value))
        if not found or int(found[1]) >= int(found[2]):
            self.fail(f"expected a shard like 0/3, got: {value!r}", param, ctx)
        return int(found[1]), int(found[2])


@click.command(
    "try",
    epilog=examples(
        "warren try handlers.py report.daily", "warren try handlers.py load --param x --shard 0/3"
    ),
)
@click.argument("file")
@click.argument("handler")
@click.option("--param", default="", help="The run's parameter.")
@click.option("--shard", type=Shard(), default="0/1", help="Be one shard of several, e.g. 0/3.")
@click.option(
    "--timeout", type=click.FloatRange(0, 9_999_999), default=0, help="Seconds; 0 = none."
)
def try_handler(file: str, handler: str, param: str, shard: tuple[int, int], timeout: float) -> int:
    """Run HANDLER of FILE once, in a job process, without any service.

    What it prints is printed; the status is 0 when it succeeded.
    """
    check_param(param)
    configure_logs("warning")
    index, total = shard
    return run_handler(file, handler, param, index, total, timeout, sys.stdout)
