"""Measures Warren and its peers in turn: `python -m benchmarks.peers [--quick]`."""

import argparse
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import structlog

from benchmarks import measures, throughput
from benchmarks.peers.peer import BIN, PEERS, Arena, Peer, version
from benchmarks.peers.private_redis import PROGRAM, PrivateRedis
from benchmarks.rates import Rate, Spread, cpu_us, ratio, speed
from benchmarks.servers import Servers, servers
from benchmarks.stack import Stack
from benchmarks.table import Row, Table

JSON = Path("build/bench-peers.json")
JOBS = 16
#: Runs of one measurement: in reused processes, and in a new process each; and rounds.
RUNS, FRESH_RUNS, ROUNDS = 1_000, 200, 3
QUICK_RUNS, QUICK_FRESH_RUNS, QUICK_ROUNDS = 50, 16, 1
#: Different jobs due in one second.
STORMS, QUICK_STORMS = (200, 2_000), (16,)


def main(programs: Path = BIN) -> None:
    """Measure and print; the peers are in `programs`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small figures, in a minute")
    parser.add_argument("--json", type=Path, default=JSON, help=f"where to write; default {JSON}")
    arguments = parser.parse_args()
    if not (programs.is_dir() and PrivateRedis.is_installed()):
        parser.exit(2, f"{parser.prog}: no {programs} or no {PROGRAM}; run: make bench-peers\n")
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # print nothing but the table
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        redis = PrivateRedis(own.folder / "redis")
        stack = Stack(own)
        try:
            table = Table(f"{own.facts()}, Redis {redis.version}")
            print(table.machine, flush=True)
            stack.start()
            _measure(own, redis, stack, table, quick=arguments.quick)
            stack.audit()
        finally:
            stack.close()
            redis.close()
        table.save(arguments.json)
    print(f"all of it as JSON: {arguments.json}", flush=True)


def _measure(own: Servers, redis: PrivateRedis, stack: Stack, table: Table, *, quick: bool) -> None:
    runs, fresh_runs = (QUICK_RUNS, QUICK_FRESH_RUNS) if quick else (RUNS, FRESH_RUNS)
    arena = Arena(own, redis)
    reused = throughput.jobs(stack, JOBS)
    fresh = throughput.jobs(stack, JOBS, process="fresh")
    throughput.measure(stack, reused, 100)  # warm up
    table.facts["peers"] = {}
    for peer in PEERS:
        ids, count = (fresh, fresh_runs) if peer.is_fresh else (reused, runs)
        theirs, ours = [], []
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            theirs.append(arena.measure(peer, count))
            ours.append(throughput.measure(stack, ids, count))
        table.facts["peers"][peer.package] = {
            "peer": [asdict(rate) for rate in theirs],
            "warren": [asdict(rate) for rate in ours],
        }
        table.add(_rows(peer, theirs, ours))
        if peer.is_fresh:
            for jobs in QUICK_STORMS if quick else STORMS:
                table.add(_storm_rows(arena, peer, stack, jobs))


def _rows(peer: Peer, theirs: Sequence[Rate], ours: Sequence[Rate]) -> Iterator[Row]:
    of_warren = ", a fresh process each" if peer.is_fresh else ""
    cost = Spread.of([_cost(their) / _cost(our) for their, our in zip(theirs, ours, strict=True)])
    yield Row(f"{peer.title}, {peer.package} {version(peer.package)}")
    yield Row("  runs/s", speed(theirs).words(), f"Warren: {ratio(ours, theirs).words(1)} times")
    yield Row("  CPU us a run", _costs(theirs), f"{cost.words(1)} times Warren's")
    yield Row(f"    {_by_process(theirs)}")
    yield Row(f"  Warren in turn with it{of_warren}: runs/s", speed(ours).words())
    yield Row("  Warren in turn with it: CPU us a run", _costs(ours))
    yield Row(f"    {_by_process(ours)}")


def _storm_rows(arena: Arena, peer: Peer, stack: Stack, jobs: int) -> Iterator[Row]:
    """Measure jobs that are due at once, and as many that the peer is sent at once."""
    seconds = jobs / arena.measure(peer, jobs).runs_per_second
    yield Row(f"{jobs:,} jobs at once, {peer.package}: done", f"{seconds:.2f} s")
    storms = (("for the first time", ""), ("the same again", ""), ("of one handler", "handler"))
    for name, process in storms:
        done = measures.storm(stack, jobs, process=process).done_seconds
        ratio = f"{seconds / done:.1f} times as fast"
        yield Row(f"  Warren, {name}: done", f"{done:.2f} s", ratio)


def _by_process(rates: Sequence[Rate]) -> str:
    return ", ".join(f"{name} {us:,.0f}" for name, us in cpu_us(rates).items())


def _costs(rates: Sequence[Rate]) -> str:
    return Spread.of([_cost(rate) for rate in rates]).words()


def _cost(rate: Rate) -> float:
    return sum(rate.cpu_us.values())


if __name__ == "__main__":
    main()
