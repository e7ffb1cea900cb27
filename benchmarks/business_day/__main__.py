"""Measures the business day and prints one table: `python -m benchmarks.business_day`."""

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from benchmarks.business_day import flows, limits, plans
from benchmarks.servers import Servers, servers
from benchmarks.stack import Stack
from benchmarks.table import Row, Table

#: The file for the figures, relative to the current folder.
JSON = Path("build/bench-business-day.json")
PARTS = ("ticks", "plans", "flows", "limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    jobs: int = 10_000
    ticks: int = 300
    flows: int = 500
    width: int = 1_000
    runs: int = 3_000
    times: int = 5


QUICK = Sizes(jobs=50, ticks=9, flows=5, width=20, runs=50, times=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.business_day", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small figures, in a minute")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be repeated")
    parser.add_argument("--json", type=Path, default=JSON, help=f"where to write; default {JSON}")
    told = parser.parse_args(arguments)
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # print nothing but the table
    sizes, parts = QUICK if told.quick else Sizes(), told.only or PARTS
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        print(own.facts(), flush=True)
        table = Table(own.facts())
        table.add([Row("what", "measured", "beside it", "goal")])
        if "ticks" in parts:
            table.add(plans.tick_rows())
        if "plans" in parts:
            found = plans.rows(own, jobs=sizes.jobs, ticks=sizes.ticks, times=sizes.times)
            table.add(found)
        if "flows" in parts:
            _on_stack(own, table, "flows", lambda stack: _flow_rows(stack, sizes))
        if "limits" in parts:
            _on_stack(own, table, "limits", lambda stack: limits.rows(stack, runs=sizes.runs))
    table.save(told.json)


def _flow_rows(stack: Stack, sizes: Sizes) -> Iterator[Row]:
    return flows.rows(stack, flows=sizes.flows, width=sizes.width, times=sizes.times)


def _on_stack(
    own: Servers, table: Table, name: str, rows: Callable[[Stack], Iterator[Row]]
) -> None:
    stack = Stack(own, name=name)
    try:
        stack.start()
        table.add(rows(stack))
        stack.audit()
    finally:
        stack.close()


if __name__ == "__main__":
    main()
