"""Measures how a run's cost grows: `python -m benchmarks.growth [--short] [--only AXIS]`."""

import argparse
import logging
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import structlog

from benchmarks import databases
from benchmarks.growth.axes import AXES, Axis
from benchmarks.growth.laboratory import Laboratory
from benchmarks.rates import Rate, Spread, cpu_us, speed
from benchmarks.servers import Servers, servers
from benchmarks.table import Row, Table

JSON = Path("build/bench-growth.json")
RUNS, ROUNDS = 4_000, 3
SHORT_RUNS, SHORT_ROUNDS = 100, 1


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> None:
    """Measure and print."""
    names = [axis.name for axis in AXES]
    parser = _Parser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small figures, in two minutes")
    parser.add_argument(
        "--only", metavar="AXIS", action="append", choices=names, help=", ".join(names)
    )
    databases.add_option(parser)
    parser.add_argument("--json", type=Path, default=JSON, help=f"where to write; default {JSON}")
    arguments = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # print nothing but the table
    chosen = [axis for axis in AXES if not arguments.only or axis.name in arguments.only]
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder), arguments.database) as own,
    ):
        print(own.facts(), flush=True)
        table = Table(own.facts(), facts={"axes": {}})
        for axis in chosen:
            _measure(own, axis, table, short=arguments.short)
            table.save(arguments.json)
    print(f"all of it as JSON: {arguments.json}", flush=True)


def _measure(own: Servers, axis: Axis, table: Table, *, short: bool) -> None:
    points = axis.short if short else axis.points
    if not short:
        own.measured.take_memory()
    with Laboratory(own, axis.name, SHORT_RUNS if short else RUNS) as laboratory:
        measurements = axis.prepare(laboratory, points)
        found: list[list[Rate]] = [[] for _ in points]
        for _ in range(SHORT_ROUNDS if short else ROUNDS):
            for rates, measure in zip(found, measurements, strict=True):
                rates.append(measure())
        table.facts["axes"][axis.name] = _facts(points, found)
        table.add(_rows(axis, points, found))
        laboratory.audit()


def _facts(points: Sequence[int], found: Sequence[Sequence[Rate]]) -> list[dict[str, Any]]:
    return [
        {"point": point, "rates": [asdict(rate) for rate in rates]}
        for point, rates in zip(points, found, strict=True)
    ]


def _rows(axis: Axis, points: Sequence[int], found: Sequence[Sequence[Rate]]) -> Iterator[Row]:
    for point, rates in zip(points, found, strict=True):
        costs, first = _costs(rates), _costs(found[0])
        more = Spread.of([one / other for one, other in zip(costs, first, strict=True)])
        yield Row(
            f"{axis.what}: {point:,}",
            f"CPU {Spread.of(costs).words()} us a run",
            "" if rates is found[0] else f"{more.words(2)} of {points[0]:,}",
            f"<= {axis.goal:.2f}" if axis.goal and rates is not found[0] else "",
        )
        by_process = (f"{name} {us:,.0f}" for name, us in cpu_us(rates).items())
        read = statistics.median(rate.rows_read for rate in rates)
        yield Row(f"    {', '.join(by_process)}")
        yield Row(f"    rows read a run: {read:,.0f}; runs/s: {speed(rates).words()}")


def _costs(rates: Sequence[Rate]) -> list[float]:
    return [sum(rate.cpu_us.values()) for rate in rates]


if __name__ == "__main__":
    main()
