"""Measures everything and prints one table: `python -m benchmarks [--quick | --short]`."""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from benchmarks import (
    broadcasts,
    chains,
    claims,
    comparison,
    embedded,
    measures,
    routes,
    throughput,
)
from benchmarks.rates import Rate
from benchmarks.servers import Servers, servers
from benchmarks.stack import SLOTS, Stack
from benchmarks.table import Row, Table
from warren.scheduler.routing.routes import Route

#: The file for the figures, relative to the current folder.
JSON = Path("build/bench.json")
#: Jobs in a chain of children.
CHAIN = 10
#: How long the first ticks of hundreds of jobs take to make their processes.
PROCESSES_SECONDS = 6.0
#: Goals relative to the bare pipeline, for few jobs with many runs and for many with one each.
GOALS = (">= 0.80", ">= 0.65")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured; `loads` are pairs of jobs and runs."""

    rounds: int
    loads: tuple[tuple[int, int], ...]
    fresh_runs: int = 2_000
    ticking_jobs: int = 200
    ticking_seconds: float = 10.0
    storm_jobs: int = 2_000
    embedded_jobs: int = 3_000
    claimed_runs: int = 500
    decisions: int = 20_000
    executors: int = 50
    broadcasts: int = 40
    chains: int = 5


FULL = Sizes(rounds=3, loads=((16, 10_000), (2_000, 2_000)))
SHORT = Sizes(rounds=3, loads=((16, 4_000),))
QUICK = Sizes(
    rounds=1,
    loads=((16, 300), (30, 30)),
    fresh_runs=30,
    ticking_jobs=10,
    ticking_seconds=2.0,
    storm_jobs=50,
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
    parser.add_argument("--json", type=Path, default=JSON, help=f"where to write; default {JSON}")
    arguments = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # print nothing but the table
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        print(own.facts(), flush=True)
        table = Table(own.facts())
        stack = Stack(own)
        stack.start()
        try:
            _measure(own, stack, table, arguments)
            stack.audit()
        finally:
            stack.close()
    table.save(arguments.json)
    print(f"all of it as JSON: {arguments.json}", flush=True)


def _measure(own: Servers, stack: Stack, table: Table, arguments: argparse.Namespace) -> None:
    sizes = QUICK if arguments.quick else SHORT if arguments.short else FULL
    table.add([Row("what", "measured", "ratio", "goal")])
    found = comparison.compare(own, stack, sizes.loads, sizes.rounds)
    table.facts["throughput"] = [one.facts() for one in found]
    table.add(comparison.rows(found, GOALS[: len(found)]))
    if arguments.short:
        return
    table.add(_fresh_rows(stack, found[0].ours, sizes))
    table.add(_lateness_rows(stack, sizes))
    table.add(_kept_processes_rows(own, sizes))
    table.add(_storm_rows(stack, sizes))
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
    return [Row(what, f"{fresh:,.0f}", f"{share:.2f} of end to end", ">= 300")]


def _lateness_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    jobs, seconds = sizes.ticking_jobs, sizes.ticking_seconds
    spread = measures.lateness_spread(stack, per_second=jobs, seconds=seconds)
    at_once = measures.lateness_at_full_seconds(stack, jobs=jobs, seconds=seconds)
    return [
        _lateness_row(f"lateness, {jobs} ticks/s spread over the second", spread),
        _lateness_row(f"lateness, {jobs} ticks at each full second", at_once),
    ]


def _kept_processes_rows(own: Servers, sizes: Sizes) -> list[Row]:
    """Measure lateness where no run needs a new process."""
    jobs, kept = sizes.ticking_jobs, sizes.ticking_jobs + SLOTS
    stack = Stack(own, name="kept")
    try:
        stack.start(executor_env={"WARREN_IDLE_PROCESSES": str(kept)})
        late = measures.lateness_at_full_seconds(
            stack,
            jobs=jobs,
            seconds=sizes.ticking_seconds,
            settling_seconds=PROCESSES_SECONDS,
        )
        stack.audit()
    finally:
        stack.close()
    return [_lateness_row(f"the same with WARREN_IDLE_PROCESSES={kept}", late)]


def _lateness_row(what: str, late: measures.Lateness) -> Row:
    return Row(what, f"p50 {late.p50:.0f} ms, p99 {late.p99:.0f} ms", "", "p99 <= 150 ms")


def _storm_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    storm = measures.storm(stack, sizes.storm_jobs)
    jobs = f"{sizes.storm_jobs:,} jobs due in one second"
    return [
        Row(f"{jobs}: all sent after", f"{storm.sent_seconds:.2f} s", "", "<= 2 s"),
        Row(f"{jobs}: all done after", f"{storm.done_seconds:.2f} s"),
    ]


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
