"""Many jobs due in one second: what a scheduler's load looks like at the full hour."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import measures, throughput
from benchmarks.bare import pipeline
from benchmarks.bare.links import SINGLE
from benchmarks.servers import Servers
from benchmarks.stack import Stack
from benchmarks.table import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSizes:
    """How many jobs are due at once, and at each full second for so long.

    After `idle_seconds` the `few` are due once more.
    """

    few: int = 2_000
    many: int = 10_000
    ticking_jobs: int = 200
    ticking_seconds: float = 10.0
    idle_seconds: float = 600.0


def measure(own: Servers, stack: Stack, sizes: StormSizes) -> Iterator[Row]:
    """Yield the lines of the table."""
    jobs, seconds = sizes.ticking_jobs, sizes.ticking_seconds
    throughput.measure(stack, throughput.jobs(stack, 16), 200)  # until all are up and warm
    at_once = measures.lateness_at_full_seconds(stack, jobs=jobs, seconds=seconds)
    yield measures.lateness_row(f"{jobs} jobs at each full second, late by", at_once)
    yield from _storms(own, stack, sizes.few, ("for the first time", "the same again"))
    time.sleep(sizes.idle_seconds)
    after = f"the same after {sizes.idle_seconds / 60:g} minutes"
    yield from _storms(own, stack, sizes.few, (after,))
    yield from _storms(own, stack, sizes.few, ("one-time, of one handler",), process="handler")
    yield from _storms(own, stack, sizes.many, ("for the first time",))
    yield from _storms(own, stack, sizes.many, ("one-time, of one handler",), process="handler")
    spread = measures.lateness_spread(stack, per_second=jobs, seconds=seconds)
    yield measures.lateness_row(f"{jobs} one-time jobs/s spread over the second, late by", spread)


def _storms(
    own: Servers, stack: Stack, jobs: int, names: Sequence[str], *, process: str = ""
) -> Iterator[Row]:
    bare = pipeline.measure(
        own.database.create_database(),
        own.rabbitmq.vhost_url(own.rabbitmq.add_vhost()),
        jobs,
        jobs=jobs,
        messages=SINGLE,
        servers=own.clocks(),
    )
    for name in names:
        storm = measures.storm(stack, jobs, process=process)
        ratio = storm.rate.runs_per_second / bare.runs_per_second
        yield Row(
            f"{jobs:,} jobs in one second, {name}: sent · done",
            f"{storm.sent_seconds:.2f} · {storm.done_seconds:.2f} s",
            f"{ratio:.2f} of the bare pipeline",
            _GOALS.get((jobs, name), ""),
        )
        yield Row(f"{jobs:,} jobs in one second, {name}: stored", storm.stored())


#: Goals for the figures of the full benchmark.
_GOALS = {
    (2_000, "for the first time"): "done <= 4 s",
    (2_000, "the same again"): "done <= 1 s",
    (10_000, "for the first time"): "done <= 20 s",
    (10_000, "one-time, of one handler"): "done <= 4 s",
}
