"""Measures what a log store costs runs, and how fast logs get there.

    python -m benchmarks.stored_logs [--runs 10000] [--rounds 3] [--s3]

In turn, without a store and with one: runs a second of jobs that print a line, with one scheduler
and one executor. With a store, also how many logs were stored once all runs were over, and the
rate at which the rest got there. `--s3` stores them in the tests' small server, in a process of its
own, otherwise in a folder.
"""

import argparse
import logging
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import structlog
from sqlalchemy import func, select

from benchmarks import throughput
from benchmarks.servers import Servers, servers
from benchmarks.stack import APP, Stack
from tests.support.eventually import eventually
from tests.support.s3_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import StoredLog
from warren.sql.runs.stored_logs import LogState

JOBS = 16
#: The most time for storing all logs.
STORING_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class Stored:
    """Runs a second; logs that waited when the last had ended, and logs a second from then on."""

    runs: float
    waiting: int
    logs: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stored_logs", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--s3", action="store_true")
    asked = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    with tempfile.TemporaryDirectory() as folder, servers(Path(folder)) as services:
        place = _s3() if asked.s3 else _folder(Path(folder))
        with place as settings:
            _compare(services, settings, runs=asked.runs, rounds=asked.rounds)


def _compare(services: Servers, settings: Mapping[str, str], *, runs: int, rounds: int) -> None:
    without, with_store = _stack(services, "without", {}), _stack(services, "with", settings)
    plain: list[float] = []
    stored: list[Stored] = []
    for number in range(1, rounds + 1):
        plain.append(_runs(without, runs))
        stored.append(_stored(with_store, runs))
        last = stored[-1]
        print(
            f"round {number}: {plain[-1]:,.0f} runs/s without a store, {last.runs:,.0f} with one; "
            f"{last.waiting:,} logs waited after the runs, then {last.logs:,.0f} logs/s",
            flush=True,
        )
    share = statistics.median(each.runs for each in stored) / statistics.median(plain)
    print(f"with a store, {share:.2f} of the runs a second without one (medians)")
    without.close()
    with_store.close()


def _stack(services: Servers, name: str, settings: Mapping[str, str]) -> Stack:
    stack = Stack(services, name=name)
    stack.start(env=settings, executor_env=settings)
    _runs(stack, JOBS)  # what is only done once, at first
    return stack


def _job_ids(stack: Stack) -> list[int]:
    specs = [JobSpec(name=f"says-{n}", app=APP, handler="says") for n in range(JOBS)]
    return stack.apply(specs)


def _runs(stack: Stack, runs: int) -> float:
    return throughput.measure(stack, _job_ids(stack), runs, handler="says").runs_per_second


def _stored(stack: Stack, runs: int) -> Stored:
    before = stack.count(_job_ids(stack))
    eventually(lambda: _count(stack) == before)
    rate = _runs(stack, runs)
    began, waiting = time.monotonic(), before + runs - _count(stack)
    eventually(lambda: _count(stack) == before + runs, STORING_SECONDS, every=0.05)
    return Stored(rate, waiting, waiting / max(0.001, time.monotonic() - began))


def _count(stack: Stack) -> int:
    stored = select(func.count()).where(StoredLog.state == LogState.STORED)
    return stack.database.read(lambda session: session.execute(stored).scalar_one())


@contextmanager
def _folder(folder: Path) -> Iterator[Mapping[str, str]]:
    yield {"WARREN_LOG_STORE": str(folder / "log-store")}


@contextmanager
def _s3() -> Iterator[Mapping[str, str]]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    yield {
        "WARREN_LOG_STORE": f"s3://{BUCKET}/bench",
        "WARREN_LOG_STORE_ENDPOINT": here.recv(),
        "WARREN_LOG_STORE_REGION": REGION,
        "WARREN_LOG_STORE_ACCESS_KEY": ACCESS_KEY,
        "WARREN_LOG_STORE_SECRET_KEY": SECRET_KEY,
    }
    process.kill()
    process.join()


def _serve(there: Connection) -> None:
    there.send(S3Server().url)
    time.sleep(10 * STORING_SECONDS)


if __name__ == "__main__":
    main()
