"""Compares Warren with the bare pipeline in turn, so that both see the same load of the machine."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import throughput
from benchmarks.bare import pipeline
from benchmarks.bare.links import PACKED, SINGLE
from benchmarks.rates import Rate, cpu_us, ratio, speed
from benchmarks.servers import Servers
from benchmarks.stack import Stack
from benchmarks.table import Row


@dataclass
class Comparison:
    """The rates of several rounds: of Warren, and of the bare pipeline with either message."""

    jobs: int
    runs: int
    ours: list[Rate] = field(default_factory=list)
    single: list[Rate] = field(default_factory=list)
    packed: list[Rate] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.runs:,} runs of {self.jobs:,} jobs"

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def compare(own: Servers, stack: Stack, loads: Sequence[tuple[int, int]], rounds: int) -> list[
    Comparison
]:  # fmt: skip
    """Measure each load, given as jobs and runs, this many times."""
    found = [Comparison(jobs, runs) for jobs, runs in loads]
    ids = {one.jobs: throughput.jobs(stack, one.jobs) for one in found}
    throughput.measure(stack, ids[found[0].jobs], 200)  # warm up
    for _ in range(rounds):
        for one in found:
            for rates, messages in ((one.single, SINGLE), (one.packed, PACKED)):
                broker_url = own.rabbitmq.vhost_url(own.rabbitmq.add_vhost())
                database_url = own.database.create_database()
                rate = pipeline.measure(
                    database_url,
                    broker_url,
                    one.runs,
                    jobs=one.jobs,
                    messages=messages,
                    servers=own.clocks(),
                )
                rates.append(rate)
            one.ours.append(throughput.measure(stack, ids[one.jobs], one.runs))
    return found


def rows(found: Sequence[Comparison], goals: Sequence[str]) -> Iterator[Row]:
    """Yield the lines of the table."""
    for one, goal in zip(found, goals, strict=True):
        of_single = f"{ratio(one.ours, one.single).words(2)} of the bare pipeline"
        of_packed = f"{ratio(one.ours, one.packed).words(2)} of the packed one"
        yield Row(f"runs/s, end to end, {one.title}", speed(one.ours).words(), of_single, goal)
        yield Row("", "", of_packed)
        yield from _cpu_rows(one.ours)
        yield Row(f"runs/s, bare pipeline, {one.title}", speed(one.single).words())
        yield from _cpu_rows(one.single)
        yield Row(f"runs/s, bare pipeline, packed, {one.title}", speed(one.packed).words())
        yield from _cpu_rows(one.packed)


def _cpu_rows(rates: Sequence[Rate]) -> Iterator[Row]:
    spent: dict[str, float] = defaultdict(float, cpu_us(rates))
    yield Row("  CPU us a run, all processes", f"{sum(spent.values()):,.0f}")
    for name, us in spent.items():
        yield Row(f"    {name}", f"{us:,.0f}")
