"""The first program of the bare pipeline: claims rows and publishes them."""

import json
import os
from collections import deque
from typing import Any

import pika
from pika.adapters.select_connection import SelectConnection

from benchmarks.bare.databases import connect
from benchmarks.bare.links import BATCH, DURABLE, TRIGGERS, WINDOW, Links
from warren.executor.fork_server import linux


def send(links: Links) -> None:
    """Publish every row, once released."""
    linux.die_with_parent(os.getppid())
    _Sender(links).run()


class _Sender:
    def __init__(self, links: Links) -> None:
        self._database, _ = connect(links.database_url)
        self._links = links
        self._left = links.runs
        #: Runs in each message that is not confirmed yet, oldest first.
        self._unconfirmed: deque[int] = deque()
        self._connection = SelectConnection(
            pika.URLParameters(links.broker_url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._confirmed, callback=self._start)

    def _start(self, _frame: Any) -> None:
        self._tag = 0
        self._links.ready.release()
        self._links.release.wait()
        self._more()

    def _confirmed(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        for _ in range(tag - self._tag if frame.method.multiple else 1):
            self._unconfirmed.popleft()
        self._tag = max(self._tag, tag)
        if not self._left and not self._unconfirmed:
            self._connection.ioloop.stop()
        elif self._left and sum(self._unconfirmed) <= WINDOW - BATCH:
            self._more()

    def _more(self) -> None:
        rows, size = self._claim(), self._links.messages.triggers
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            body = json.dumps([_trigger(row) for row in part]).encode()
            self._channel.basic_publish("", TRIGGERS, body, DURABLE, mandatory=True)
            self._unconfirmed.append(len(part))
        self._left -= len(rows)

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


def _trigger(row: Any) -> dict[str, Any]:
    run, job, handler, param, due = row
    return {"run": run, "job": job, "handler": handler, "param": param, "due": due}
