"""Measures runs through the gateway: `python -m benchmarks.gateway [--quick]`.

Executors of XXL-JOB's protocol that succeed at once, in one process, register at one gateway. Runs
through them are measured in turn with runs through one of Warren's own executors.
"""

import argparse
import logging
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from benchmarks import cpu, throughput
from benchmarks.rates import Rate, cpu_us, ratio, speed
from benchmarks.servers import servers
from benchmarks.simulated import APP
from benchmarks.stack import Stack
from benchmarks.table import Row, Table
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.service import Service
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.routing.routes import Route
from warren.sql.registry import presence

TOKEN = "a-token-for-measuring"
#: At a remote executor, runs of one job follow one another; so many jobs keep each of them busy.
JOBS = 16
GOAL, IDLE_GOAL = "500/s", "10 % of a core"
KEPT = Path("build/bench-gateway.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    rounds: int = 3
    runs: int = 4_000
    remotes: int = 20
    idle_remotes: int = 100
    idle_seconds: float = 30.0


QUICK = Sizes(rounds=1, runs=100, remotes=2, idle_remotes=3, idle_seconds=1.0)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="short, and with few executors")
    sizes = QUICK if arguments.parse_args().quick else Sizes()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # the table is to stand alone
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        table = Table(own.facts())
        print(table.machine, flush=True)
        stack = Stack(own)
        stack.start()
        try:
            _measure(stack, table, sizes)
        finally:
            stack.close()
        table.save(KEPT)


def _measure(stack: Stack, table: Table, sizes: Sizes) -> None:
    gateway, url = _gateway(stack)
    pid = gateway.processes()[0].pid
    stack.watch("gateway", pid)
    remotes = _remotes(stack, url, sizes.remotes)
    stack.watch("remote executors", remotes.processes()[0].pid)
    table.add(_run_rows(stack, table, sizes))
    _remotes(stack, url, sizes.idle_remotes - sizes.remotes)
    table.add([_idle_row(pid, sizes)])


def _run_rows(stack: Stack, table: Table, sizes: Sizes) -> Iterator[Row]:
    remote_jobs = stack.apply(
        [
            JobSpec(name=f"remote-{number}", app=APP, handler="noop", route=Route.ROUND)
            for number in range(JOBS)
        ]
    )
    jobs = throughput.jobs(stack, JOBS)
    through: list[Rate] = []
    own: list[Rate] = []
    for job_ids in (jobs, remote_jobs):
        throughput.measure(stack, job_ids, JOBS)  # what is only done once, at first
    for _ in range(sizes.rounds):
        own.append(throughput.measure(stack, jobs, sizes.runs))
        through.append(throughput.measure(stack, remote_jobs, sizes.runs))
    table.facts |= {"through": [asdict(rate) for rate in through], "own": list(map(asdict, own))}
    share = f"{ratio(through, own).words(2)} of Warren's own executor"
    of_runs = f"{sizes.runs:,} runs of {JOBS} jobs"
    what = f"runs/s through a gateway, {sizes.remotes} remotes, {of_runs}"
    yield Row(what, speed(through).words(), share, GOAL)
    yield from _cpu_rows(through)
    yield Row(f"runs/s through Warren's own executor, {of_runs}", speed(own).words())
    yield from _cpu_rows(own)


def _cpu_rows(rates: list[Rate]) -> Iterator[Row]:
    for name, us in cpu_us(rates).items():
        yield Row(f"  CPU us a run, {name}", f"{us:,.0f}")


def _idle_row(pid: int, sizes: Sizes) -> Row:
    before, began = cpu.own(pid), time.monotonic()
    time.sleep(sizes.idle_seconds)
    share = (cpu.own(pid) - before) / (time.monotonic() - began)
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    words = f"{share:.1%} of a core, {kilobytes / 1024:,.0f} MB"
    return Row(f"a gateway with {sizes.idle_remotes} idle remotes", words, "", IDLE_GOAL)


def _gateway(stack: Stack) -> tuple[Service, str]:
    port = free_port()
    env = {
        "WARREN_GATEWAY_TOKENS": f"{APP}: {TOKEN}",
        "WARREN_GATEWAY_ALLOW": "127.0.0.1",
        "WARREN_GATEWAY_PORT": str(port),
    }
    service = stack.serve("gateway", "gateway", env=env)

    def is_open() -> bool:
        assert not service.has_ended, service.last_words()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(is_open, 60.0, every=0.1)
    return service, f"http://127.0.0.1:{port}"


def _remotes(stack: Stack, url: str, count: int) -> Service:
    """Start remote executors, and return once all of them are listed."""
    before = _listed(stack)
    service = stack.serve_module("benchmarks.gateway.remotes", url, APP, TOKEN, str(count))

    def are_listed() -> bool:
        assert not service.has_ended, service.last_words()
        return len(_listed(stack) - before) == count

    eventually(are_listed, 60.0, every=0.1)
    return service


def _listed(stack: Stack) -> set[str]:
    rows = stack.database.read(lambda session: presence.listing(session, "EXECUTOR", APP))
    return {row.address for row in rows}


if __name__ == "__main__":
    main()
