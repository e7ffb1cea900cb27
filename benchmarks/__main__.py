"""Measures everything and prints one table: `python -m benchmarks`; `--help` shows what else."""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from benchmarks import (
    broadcasts,
    chains,
    claims,
    comparison,
    databases,
    embedded,
    routes,
    storms,
    throughput,
)
from benchmarks.rates import Rate
from benchmarks.servers import Servers, servers
from benchmarks.stack import Stack, running
from benchmarks.storms import StormSizes
from benchmarks.table import Row, Table
from warren.scheduler.routing.routes import Route

#: The file for the figures, relative to the current folder.
JSON = Path("build/bench.json")
#: Jobs in a chain of children.
CHAIN = 10
#: The goal relative to the bare pipeline.
GOALS = (">= 0.80",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured; `loads` are pairs of jobs and runs."""

    rounds: int
    loads: tuple[tuple[int, int], ...]
    storms: StormSizes = field(default_factory=StormSizes)
    fresh_runs: int = 2_000
    embedded_jobs: int = 3_000
    claimed_runs: int = 500
    decisions: int = 20_000
    executors: int = 50
    broadcasts: int = 40
    chains: int = 5


FULL = Sizes(rounds=3, loads=((16, 10_000),))
SHORT = Sizes(rounds=3, loads=((16, 4_000),))
QUICK = Sizes(
    rounds=1,
    loads=((16, 300),),
    storms=StormSizes(few=50, many=60, ticking_jobs=10, ticking_seconds=2.0, idle_seconds=0.0),
    fresh_runs=30,
    embedded_jobs=50,
    claimed_runs=50,
    decisions=200,
    executors=10,
    broadcasts=3,
    chains=1,
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small figures, in a minute")
    parser.add_argument("--short", action="store_true", help="throughput alone, in a minute")
    parser.add_argument("--storms", action="store_true", help="many jobs due at once alone")
    parser.add_argument(
        "--idle", type=float, metavar="MINUTES", help="idle before a storm; default 10"
    )
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
        table.add([Row("what", "measured", "ratio", "goal")])
        sizes = _sizes(arguments)
        if not arguments.short:
            with running(own, name="storms") as stack:
                table.add(storms.measure(own, stack, sizes.storms))
        if not arguments.storms:
            with running(own) as stack:
                _measure(own, stack, table, sizes, is_short=arguments.short)
    table.save(arguments.json)
    print(f"all of it as JSON: {arguments.json}", flush=True)


def _sizes(arguments: argparse.Namespace) -> Sizes:
    sizes = QUICK if arguments.quick else SHORT if arguments.short else FULL
    if arguments.idle is None:
        return sizes
    return replace(sizes, storms=replace(sizes.storms, idle_seconds=60 * arguments.idle))


def _measure(own: Servers, stack: Stack, table: Table, sizes: Sizes, *, is_short: bool) -> None:
    found = comparison.compare(own, stack, sizes.loads, sizes.rounds)
    table.facts["throughput"] = [one.facts() for one in found]
    table.add(comparison.rows(found, GOALS))
    if is_short:
        return
    table.add(_fresh_rows(stack, found[0].ours, sizes))
    table.add(_embedded_rows(sizes))
    table.add(_chain_rows(stack, sizes))
    table.add(_broadcast_rows(stack, sizes))
    table.add(_claim_rows(own, sizes))
    table.add(_route_rows(sizes))


def _fresh_rows(stack: Stack, reused: list[Rate], sizes: Sizes) -> list[Row]:
    jobs = throughput.jobs(stack, 16, process="fresh")
    fresh = throughput.measure(stack, jobs, sizes.fresh_runs).runs_per_second
    share = fresh / max(rate.runs_per_second for rate in reused)
    what = f"runs/s, a fresh process each, {sizes.fresh_runs:,} runs"
    return [Row(what, f"{fresh:,.0f}", f"{share:.2f} of end to end", ">= 500")]


def _embedded_rows(sizes: Sizes) -> list[Row]:
    what = f"embedded, {sizes.embedded_jobs:,} jobs due in one second: all done after"
    return [Row(what, f"{embedded.storm(sizes.embedded_jobs):.2f} s", "", "<= 1.2 s")]


def _chain_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    seconds = chains.measure(stack, CHAIN, sizes.chains)
    return [Row(f"a chain of {CHAIN} children: done after", f"{seconds:.2f} s")]


def _broadcast_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    found = broadcasts.measure(stack, sizes.executors, sizes.broadcasts)
    to = f"to {sizes.executors} simulated executors"
    each = f"shards/s, {sizes.broadcasts} broadcasts at once {to}"
    return [
        Row(each, f"{found.shards_per_second:,.0f}"),
        Row(f"one broadcast {to}: done after", f"{found.alone_seconds:.2f} s"),
    ]


def _claim_rows(own: Servers, sizes: Sizes) -> list[Row]:
    cost, runs = claims.measure(own, sizes.claimed_runs), f"{sizes.claimed_runs:,}"
    what = f"scheduler's CPU to send {runs} runs of {runs} jobs"
    ratio = f"{cost.ratio:.2f} of {runs} runs of one"
    return [Row(what, f"{cost.many_jobs_ms:.0f} ms", ratio, "<= 1.50")]


def _route_rows(sizes: Sizes) -> Iterator[Row]:
    for route in Route:
        speed = routes.decisions(route, sizes.executors, sizes.decisions)
        yield Row(f"decisions/s, {sizes.executors} executors, {route}", f"{speed:,.0f}")


if __name__ == "__main__":
    main()
