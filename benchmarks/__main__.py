"""Measures everything and prints one table: `python -m benchmarks [--quick]`."""

import argparse
import logging
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from benchmarks import broadcasts, chains, measures, pipeline, routes
from benchmarks.stack import Servers, Stack, servers
from scheduler.routing import Route


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int
    runs: int
    fresh_runs: int
    ticking_jobs: int
    ticking_seconds: float
    storm_jobs: int
    decisions: int
    executors: int
    broadcasts: int
    chains: int


FULL = Sizes(3, 10_000, 2_000, 200, 10.0, 2_000, 20_000, 50, 40, 5)
QUICK = Sizes(1, 300, 30, 10, 2.0, 50, 200, 10, 3, 1)

#: Jobs in a chain of children.
CHAIN = 10


#: Columns of the table, in characters.
WIDTHS = (58, 24, 20, 14)


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    ratio: str
    goal: str


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="small figures, in a minute")
    sizes = QUICK if arguments.parse_args().quick else FULL
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # the table is to stand alone
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        print(own.facts(), flush=True)
        for row in _measure(own, sizes):
            _print(row)


def _measure(own: Servers, sizes: Sizes) -> Iterator[Row]:
    stack = Stack(own)
    stack.start()
    try:
        measures.throughput(stack, 200)
        yield Row("what", "measured", "ratio", "goal")
        ceilings: list[float] = []
        ours: list[float] = []
        for _ in range(sizes.rounds):  # in turn, so that both have the same neighbours
            ceilings.append(_ceiling(own, sizes.runs))
            ours.append(measures.throughput(stack, sizes.runs))
        yield from _throughput_rows(ours, ceilings, sizes)
        yield from _fresh_rows(stack, statistics.median(ours), sizes)
        yield from _lateness_rows(stack, sizes)
        yield from _storm_rows(stack, sizes)
        yield from _chain_rows(stack, sizes)
        yield from _broadcast_rows(stack, sizes)
        yield from _route_rows(sizes)
    finally:
        stack.close()


def _ceiling(own: Servers, runs: int) -> float:
    broker_url = own.rabbitmq.vhost_url(own.rabbitmq.add_vhosts(1)[0])
    return pipeline.measure(own.mariadb.create_database(), broker_url, runs)


def _throughput_rows(ours: list[float], ceilings: list[float], sizes: Sizes) -> list[Row]:
    ratio = statistics.median(ours) / statistics.median(ceilings)
    return [
        Row(f"runs/s, end to end, {sizes.runs:,} runs", _median(ours), f"{ratio:.2f}", ">= 0.40"),
        Row("runs/s, bare pipeline (the ceiling)", _median(ceilings), "1.00", ""),
    ]


def _fresh_rows(stack: Stack, reused: float, sizes: Sizes) -> list[Row]:
    fresh = measures.throughput(stack, sizes.fresh_runs, fresh_process=True)
    what = f"runs/s, a fresh process each, {sizes.fresh_runs:,} runs"
    return [Row(what, f"{fresh:,.0f}", f"{fresh / reused:.2f} of end to end", ">= 300")]


def _lateness_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    jobs, seconds = sizes.ticking_jobs, sizes.ticking_seconds
    spread = measures.lateness_spread(stack, per_second=jobs, seconds=seconds)
    at_once = measures.lateness_at_full_seconds(stack, jobs=jobs, seconds=seconds)
    return [
        _lateness_row(f"lateness, {jobs} ticks/s spread over the second", spread),
        _lateness_row(f"lateness, {jobs} ticks at each full second", at_once),
    ]


def _lateness_row(what: str, late: measures.Lateness) -> Row:
    return Row(what, f"p50 {late.p50:.0f} ms, p99 {late.p99:.0f} ms", "", "p99 <= 150 ms")


def _storm_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    storm = measures.storm(stack, sizes.storm_jobs)
    jobs = f"{sizes.storm_jobs:,} jobs due in one second"
    return [
        Row(f"{jobs}: all sent after", f"{storm.sent_seconds:.2f} s", "", "<= 2 s"),
        Row(f"{jobs}: all done after", f"{storm.done_seconds:.2f} s", "", ""),
    ]


def _chain_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    seconds = chains.measure(stack, CHAIN, sizes.chains)
    return [Row(f"a chain of {CHAIN} children: done after", f"{seconds:.2f} s", "", "")]


def _broadcast_rows(stack: Stack, sizes: Sizes) -> list[Row]:
    found = broadcasts.measure(stack, sizes.executors, sizes.broadcasts)
    to = f"to {sizes.executors} simulated executors"
    each = f"shards/s, {sizes.broadcasts} broadcasts at once {to}"
    return [
        Row(each, f"{found.shards_per_second:,.0f}", "", ""),
        Row(f"one broadcast {to}: done after", f"{found.alone_seconds:.2f} s", "", ""),
    ]


def _route_rows(sizes: Sizes) -> Iterator[Row]:
    for route in Route:
        speed = routes.decisions(route, sizes.executors, sizes.decisions)
        yield Row(f"decisions/s, {sizes.executors} executors, {route}", f"{speed:,.0f}", "", "")


def _median(figures: list[float]) -> str:
    median = f"{statistics.median(figures):,.0f}"
    if len(figures) == 1:
        return median
    return f"{median} ({min(figures):,.0f} to {max(figures):,.0f})"


def _print(row: Row) -> None:
    cells = (cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True))
    print("  ".join(cells).rstrip(), flush=True)


if __name__ == "__main__":
    main()
