"""The third program of the bare pipeline: updates the rows of finished runs."""

import json
import os
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection

from benchmarks.bare.databases import connect
from benchmarks.bare.links import ANSWERS, WINDOW, Links
from warren.executor.fork_server import linux

#: How long answers are collected for one statement.
GATHER_SECONDS = 0.02


def finish(links: Links) -> None:
    """Update a row for each answer; signal when all are final."""
    linux.die_with_parent(os.getppid())
    _Finisher(links).run()


class _Finisher:
    def __init__(self, links: Links) -> None:
        self._database, self._words = connect(links.database_url)
        self._links = links
        self._finished = 0
        self._answers: list[Any] = []
        self._tag = 0
        self._connection = SelectConnection(
            pika.URLParameters(links.broker_url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume(
            ANSWERS, self._arrived, callback=lambda _: self._links.ready.release()
        )

    def _arrived(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if not self._answers:
            self._connection.ioloop.call_later(GATHER_SECONDS, self._flush)
        self._answers += json.loads(body)
        self._tag = method.delivery_tag

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        cursor = self._database.cursor()
        cursor.execute(
            self._words.finishing(len(answers)),
            [value for one in answers for value in (one["run"], one["result"], one["at"])],
        )
        self._finished += cursor.rowcount
        self._database.commit()
        self._channel.basic_ack(self._tag, multiple=True)
        if self._finished == self._links.runs:
            self._links.done.put(self._finished)
