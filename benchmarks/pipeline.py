"""The ceiling: the same path with nothing but pika and pymysql, and none of Warren's promises.

    rows ─> claim, publish ─> [RabbitMQ] ─> consume, 1 of 8 pipes, publish ─> [RabbitMQ] ─> update

Four processes: one inserts the rows before the clock starts, one claims and publishes them, one
hands them to 8 live processes and publishes their answers, one updates the rows. As fast as we
know to write it: rows are inserted, claimed and updated by the batch, messages are durable,
confirmed and acknowledged by the batch.
"""

import json
import multiprocessing
import os
import time
from collections import deque
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pika
import pymysql
from pika.adapters.select_connection import SelectConnection
from sqlalchemy.engine import make_url

from executor import linux

SLOTS = 8
#: Rows in one statement.
BATCH = 500
#: Unconfirmed or unacknowledged messages.
WINDOW = 1_000

_TABLE = """
CREATE TABLE bare (
    id BIGINT PRIMARY KEY, status VARCHAR(16) NOT NULL, due_at BIGINT NOT NULL,
    job_id INT NOT NULL, handler VARCHAR(255), param MEDIUMTEXT, result MEDIUMTEXT,
    finished_at BIGINT, KEY (status, due_at)
) ENGINE = InnoDB
"""
_DURABLE = pika.BasicProperties(delivery_mode=2)


def measure(database_url: str, broker_url: str, runs: int) -> float:
    """Return no-op runs a second, from the release of the planned rows until all are final."""
    _declare(broker_url)
    context = multiprocessing.get_context("spawn")
    inserter = context.Process(target=_insert, args=(database_url, runs))
    inserter.start()
    inserter.join()
    assert inserter.exitcode == 0
    release, ready = context.Event(), context.Semaphore(0)
    done = context.Queue()
    links = (database_url, broker_url, runs)
    processes = [
        context.Process(target=_send, args=(*links, release, ready)),
        context.Process(target=_run, args=(broker_url, runs, ready)),
        context.Process(target=_finish, args=(*links, ready, done)),
    ]
    try:
        return _time(processes, release, ready, done, runs)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _time(processes: list[SpawnProcess], release: Any, ready: Any, done: Any, runs: int) -> float:
    for process in processes:
        process.start()
    for _ in processes:
        assert ready.acquire(timeout=30), "the bare pipeline did not start"
    began = time.monotonic()
    release.set()
    assert done.get(timeout=120) == runs
    return runs / (time.monotonic() - began)


def _declare(broker_url: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    for queue in ("bare.run", "bare.back"):
        channel.queue_declare(queue, durable=True)
    connection.close()


def _connect(database_url: str) -> "pymysql.Connection[Any]":
    url = make_url(database_url)
    connection: pymysql.Connection[Any] = pymysql.connect(
        host=url.host, port=url.port or 0, user=url.username, password=str(url.password),
        database=url.database,
    )  # fmt: skip
    connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection


# -- 1: insert --------------------------------------------------------------------------------


def _insert(database_url: str, runs: int) -> None:
    connection = _connect(database_url)
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS bare")
    cursor.execute(_TABLE)
    for first in range(1, runs + 1, BATCH):
        rows = [
            (run, "PLANNED", 1_700_000_000_000, run % 16, "noop", "")
            for run in range(first, min(first + BATCH, runs + 1))
        ]
        cursor.executemany(
            "INSERT INTO bare (id, status, due_at, job_id, handler, param)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            rows,
        )
    connection.commit()


# -- 2: claim, publish ------------------------------------------------------------------------


class _Sender:
    def __init__(
        self, database_url: str, broker_url: str, runs: int, release: Any, ready: Any
    ) -> None:
        self._database = _connect(database_url)
        self._left = runs
        self._release, self._ready = release, ready
        self._unconfirmed = 0
        self._connection = SelectConnection(
            pika.URLParameters(broker_url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._confirmed, callback=self._start)

    def _start(self, _frame: Any) -> None:
        self._tag = 0
        self._ready.release()
        self._release.wait()
        self._more()

    def _confirmed(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        self._unconfirmed -= tag - self._tag if frame.method.multiple else 1
        self._tag = max(self._tag, tag)
        if not self._left and not self._unconfirmed:
            self._connection.ioloop.stop()
        elif self._left and self._unconfirmed <= WINDOW - BATCH:
            self._more()

    def _more(self) -> None:
        for row in self._claim():
            self._channel.basic_publish("", "bare.run", _trigger(row), _DURABLE, mandatory=True)
            self._unconfirmed += 1
            self._left -= 1

    def _claim(self) -> list[Any]:
        cursor = self._database.cursor()
        cursor.execute(
            "SELECT id, job_id, handler, param, due_at FROM bare WHERE status = 'PLANNED'"
            " AND due_at > 0 ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED",
            (BATCH,),
        )
        rows = list(cursor.fetchall())
        if rows:
            ids = ",".join(str(row[0]) for row in rows)
            cursor.execute(f"UPDATE bare SET status = 'SENT' WHERE id IN ({ids})")
        self._database.commit()
        return rows


def _trigger(row: Any) -> bytes:
    run, job, handler, param, due = row
    message = {"run": run, "job": job, "handler": handler, "param": param, "due": due}
    return json.dumps(message).encode()


def _send(database_url: str, broker_url: str, runs: int, release: Any, ready: Any) -> None:
    linux.die_with_parent(os.getppid())
    _Sender(database_url, broker_url, runs, release, ready).run()


# -- 3: consume, pipe, publish back -----------------------------------------------------------


class _Runner:
    def __init__(self, broker_url: str, runs: int, ready: Any) -> None:
        self._ready = ready
        self._left = runs
        self._waiting: deque[bytes] = deque()
        self._acked = self._taken = self._published = 0
        self._workers = [multiprocessing.get_context("fork").Pipe() for _ in range(SLOTS)]
        for _ours, theirs in self._workers:
            worker = multiprocessing.get_context("fork").Process(
                target=_work, args=(theirs, os.getpid()), daemon=True
            )
            worker.start()
            theirs.close()
        self._idle = [ours for ours, _ in self._workers]
        self._connection = SelectConnection(
            pika.URLParameters(broker_url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        loop = self._connection.ioloop
        for ours, _ in self._workers:
            loop.add_handler(ours.fileno(), lambda *_, ours=ours: self._answered(ours), loop.READ)
        channel.confirm_delivery(lambda _frame: None)
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume("bare.run", self._arrived, callback=lambda _: self._ready.release())

    def _arrived(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self._waiting.append(body)
        self._taken = method.delivery_tag
        if self._taken - self._acked >= WINDOW // 10 or self._taken == self._left:
            channel.basic_ack(self._taken, multiple=True)
            self._acked = self._taken
        self._hand_out()

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            self._idle.pop().send_bytes(self._waiting.popleft())

    def _answered(self, worker: Any) -> None:
        answer = worker.recv_bytes()
        self._idle.append(worker)
        self._hand_out()
        self._channel.basic_publish("", "bare.back", answer, _DURABLE, mandatory=True)


def _work(pipe: Any, parent: int) -> None:
    linux.die_with_parent(parent)
    with Path(os.devnull).open("wb", buffering=0) as starts:
        while True:
            message = json.loads(pipe.recv_bytes())
            starts.write(b"%d\n" % message["run"])
            answer = {"run": message["run"], "result": "done", "at": int(time.time() * 1000)}
            pipe.send_bytes(json.dumps(answer).encode())


def _run(broker_url: str, runs: int, ready: Any) -> None:
    linux.die_with_parent(os.getppid())
    _Runner(broker_url, runs, ready).run()


# -- 4: consume, update -----------------------------------------------------------------------


class _Finisher:
    def __init__(
        self, database_url: str, broker_url: str, runs: int, ready: Any, done: Any
    ) -> None:
        self._database = _connect(database_url)
        self._ready, self._done = ready, done
        self._runs, self._finished = runs, 0
        self._answers: list[Any] = []
        self._tag = 0
        self._connection = SelectConnection(
            pika.URLParameters(broker_url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume("bare.back", self._arrived, callback=lambda _: self._ready.release())

    def _arrived(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if not self._answers:
            self._connection.ioloop.call_later(0.02, self._flush)
        self._answers.append(json.loads(body))
        self._tag = method.delivery_tag

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        first = "SELECT %s AS id, %s AS result, %s AS at"
        other = " UNION ALL SELECT %s, %s, %s" * (len(answers) - 1)
        cursor = self._database.cursor()
        cursor.execute(
            f"UPDATE bare JOIN ({first}{other}) v ON v.id = bare.id"
            " SET status = 'SUCCEEDED', bare.result = v.result, finished_at = v.at"
            " WHERE status = 'SENT'",
            [value for one in answers for value in (one["run"], one["result"], one["at"])],
        )
        self._finished += cursor.rowcount
        self._database.commit()
        self._channel.basic_ack(self._tag, multiple=True)
        if self._finished == self._runs:
            self._done.put(self._finished)


def _finish(database_url: str, broker_url: str, runs: int, ready: Any, done: Any) -> None:
    linux.die_with_parent(os.getppid())
    _Finisher(database_url, broker_url, runs, ready, done).run()
