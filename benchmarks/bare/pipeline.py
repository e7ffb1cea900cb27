"""Starts the programs of the bare pipeline and measures their throughput."""

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import SpawnProcess

import pika

from benchmarks import cpu
from benchmarks.bare import finisher, runner, sender
from benchmarks.bare.databases import connect
from benchmarks.bare.links import ANSWERS, BATCH, TRIGGERS, Links, Messages
from benchmarks.rates import Rate


def measure(
    database_url: str,
    broker_url: str,
    runs: int,
    *,
    jobs: int,
    messages: Messages,
    servers: Mapping[str, cpu.Clock],
) -> Rate:
    """Return no-op runs per second, from the release of the planned rows until all are final.

    Args:
        database_url: the database with the rows.
        broker_url: the broker.
        runs: how many.
        jobs: over how many jobs; only a number in the rows.
        messages: how many runs one message carries.
        servers: the processor clocks of the services.

    """
    _declare(broker_url)
    _insert(database_url, runs, jobs)
    context = multiprocessing.get_context("spawn")
    links = Links(
        database_url=database_url,
        broker_url=broker_url,
        runs=runs,
        messages=messages,
        release=context.Event(),
        ready=context.Semaphore(0),
        done=context.Queue(),
    )
    targets = (sender.send, runner.run, finisher.finish)
    processes = [context.Process(target=target, args=(links,)) for target in targets]
    try:
        return _time(processes, links, servers)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _time(
    processes: Sequence[SpawnProcess], links: Links, servers: Mapping[str, cpu.Clock]
) -> Rate:
    for process in processes:
        process.start()
    for _ in processes:
        assert links.ready.acquire(timeout=60), "the bare pipeline did not start"
    publishing, running, finishing = (process.pid or 0 for process in processes)
    meter = cpu.Meter(
        {
            **servers,
            "publishing, finishing": lambda: cpu.own(publishing) + cpu.own(finishing),
            "running": lambda: cpu.own(running),
            "workers": lambda: cpu.below(running),
        }
    )
    began = time.monotonic()
    links.release.set()
    assert links.done.get(timeout=120) == links.runs
    seconds = time.monotonic() - began
    return Rate(links.runs / seconds, meter.spent(links.runs))


def _declare(broker_url: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    for queue in (TRIGGERS, ANSWERS):
        channel.queue_declare(queue, durable=True)
    connection.close()


def _insert(database_url: str, runs: int, jobs: int) -> None:
    connection, words = connect(database_url)
    cursor = connection.cursor()
    for statement in words.tables():
        cursor.execute(statement)
    for first in range(1, runs + 1, BATCH):
        rows = [
            (run, "PLANNED", 1_700_000_000_000, run % jobs, "noop", "")
            for run in range(first, min(first + BATCH, runs + 1))
        ]
        cursor.executemany(
            "INSERT INTO bare (id, status, due_at, job_id, handler, param)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            rows,
        )
    connection.commit()
    connection.close()
