"""Measures what stored runs take on the disk while more come: `python -m benchmarks.endurance`.

Jobs that do nothing fire at a steady rate. Bytes of each stored run and dead rows must level off.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog
from sqlalchemy import func, select

from benchmarks import cpu, databases
from benchmarks.databases import Sizes
from benchmarks.measures import every_second
from benchmarks.servers import Servers, servers
from benchmarks.stack import Stack, none_open, running
from benchmarks.table import Row, Table
from warren.sql.models import Run

JSON = Path("build/bench-endurance.json")
#: How often it is looked at, in all.
LOOKS = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="default 60")
    parser.add_argument("--rate", type=int, default=40, help="runs a second; default 40")
    databases.add_option(parser)
    parser.add_argument("--json", type=Path, default=JSON, help=f"where to write; default {JSON}")
    arguments = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # print nothing but the table
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder), arguments.database) as own,
    ):
        print(own.facts(), flush=True)
        table = Table(own.facts())
        with running(own) as stack:
            table.add(_rows(own, stack, arguments.minutes * 60.0, arguments.rate))
        table.save(arguments.json)
    print(f"all of it as JSON: {arguments.json}", flush=True)


def _rows(own: Servers, stack: Stack, seconds: float, rate: int) -> Iterator[Row]:
    """Let jobs fire; yield a line now and then."""
    specs = every_second("steady", rate, handler="noop")
    ids = stack.apply(specs)
    names = [spec.name for spec in specs]
    stack.begin(names)
    began, before = time.monotonic(), 0
    for look in range(1, LOOKS + 1):
        meter = cpu.Meter(own.clocks())
        time.sleep(max(0.0, began + seconds * look / LOOKS - time.monotonic()))
        stored = stack.database.read(lambda s: s.execute(select(func.count(Run.id))).scalar_one())
        spent = meter.spent(max(1, stored - before))
        yield from _look(
            time.monotonic() - began, stored, own.measured.sizes(stack.schema_name), spent
        )
        before = stored
    stack.stop(names)
    stack.wait(none_open)
    stack.check(ids)


def _look(seconds: float, stored: int, sizes: Sizes, spent: Mapping[str, float]) -> Iterator[Row]:
    bytes_each = f"{sizes.runs / max(1, stored):,.0f} bytes a run"
    costs = ", ".join(f"{name} {us:,.0f}" for name, us in spent.items())
    yield Row(
        f"after {seconds / 60:.1f} min: {stored:,} runs", bytes_each, f"CPU us a run: {costs}"
    )
    dead = f", dead rows {sizes.dead_runs:,}" if sizes.dead_runs is not None else ""
    others = f", dead rows {sizes.dead_others:,}" if sizes.dead_others is not None else ""
    yield Row(f"    runs {_mb(sizes.runs)}{dead}; other tables {_mb(sizes.others)}{others}")


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
