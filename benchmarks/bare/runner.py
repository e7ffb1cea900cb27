"""The second program of the bare pipeline: hands runs to live workers, publishes their answers."""

import json
import multiprocessing
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection

from benchmarks.bare.links import ANSWERS, DURABLE, SLOTS, TRIGGERS, WINDOW, Links
from warren.executor.fork_server import linux

#: How long answers are collected for one message, if it holds several.
GATHER_SECONDS = 0.005


def run(links: Links) -> None:
    """Run everything that arrives."""
    linux.die_with_parent(os.getppid())
    _Runner(links).run()


class _Runner:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._prefetch = max(2, WINDOW // links.messages.triggers)
        self._waiting: deque[Any] = deque()
        self._answers: list[Any] = []
        self._acked = 0
        self._workers = [multiprocessing.get_context("fork").Pipe() for _ in range(SLOTS)]
        for _ours, theirs in self._workers:
            worker = multiprocessing.get_context("fork").Process(
                target=_work, args=(theirs, os.getpid()), daemon=True
            )
            worker.start()
            theirs.close()
        self._idle = [ours for ours, _ in self._workers]
        self._connection = SelectConnection(
            pika.URLParameters(links.broker_url),
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
        channel.basic_qos(prefetch_count=self._prefetch)
        channel.basic_consume(
            TRIGGERS, self._arrived, callback=lambda _: self._links.ready.release()
        )

    def _arrived(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self._waiting.extend(json.loads(body))
        if method.delivery_tag - self._acked >= max(1, self._prefetch // 10):
            channel.basic_ack(method.delivery_tag, multiple=True)
            self._acked = method.delivery_tag
        self._hand_out()

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            self._idle.pop().send_bytes(json.dumps(self._waiting.popleft()).encode())

    def _answered(self, worker: Any) -> None:
        self._answers.append(json.loads(worker.recv_bytes()))
        self._idle.append(worker)
        self._hand_out()
        if len(self._answers) >= self._links.messages.answers:
            self._publish()
        elif len(self._answers) == 1:
            self._connection.ioloop.call_later(GATHER_SECONDS, self._publish)

    def _publish(self) -> None:
        answers, self._answers = self._answers, []
        if answers:
            body = json.dumps(answers).encode()
            self._channel.basic_publish("", ANSWERS, body, DURABLE, mandatory=True)


def _work(pipe: Any, parent: int) -> None:
    linux.die_with_parent(parent)
    with Path(os.devnull).open("wb", buffering=0) as starts:
        while True:
            message = json.loads(pipe.recv_bytes())
            starts.write(b"%d\n" % message["run"])
            answer = {"run": message["run"], "result": "done", "at": int(time.time() * 1000)}
            pipe.send_bytes(json.dumps(answer).encode())
