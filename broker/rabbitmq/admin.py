"""Declares and inspects queues on RabbitMQ."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pika.spec  # type: ignore[import-untyped]

from warren.broker.errors import TopologyError
from warren.broker.rabbitmq.asker import Asker, NotFound, Question
from warren.broker.rabbitmq.properties import header_bytes, string_headers, user_of
from warren.broker.rabbitmq.queues import declare_exchanges, declare_queue
from warren.broker.topology import DEAD_QUEUE
from warren.broker.transport import BrokerSettings, Delivery, Queue


class AmqpAdmin:
    """Declares and inspects queues, one call at a time."""

    def __init__(
        self, name: str, settings: BrokerSettings, *, answer_seconds: float | None = None
    ) -> None:
        self._asker = Asker(name, settings, answer_seconds=answer_seconds)
        self._one_at_a_time = threading.Lock()

    def declare_exchanges(self) -> None:
        """Declare the exchanges and the dead-letter queue."""

        def step(question: Question) -> None:
            declare_exchanges(question.channel)
            declare_queue(question.channel, DEAD_QUEUE)
            question.finish()

        self._ask("cannot declare exchanges", step)

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        """Declare and bind queues; declaring again changes nothing."""

        def step(question: Question) -> None:
            for queue in queues:
                declare_queue(question.channel, queue)
            question.finish()

        names = ", ".join(queue.name for queue in queues[:3])
        try:
            self._ask(f"cannot declare queues ({names}, {len(queues)} in all)", step)
        except NotFound as error:
            raise TopologyError(str(error)) from error

    def count_messages(self, queue: str) -> int | None:
        """Return how many messages are ready in a queue; None if there is no such queue."""

        def step(question: Question) -> None:
            question.channel.queue_declare(
                queue,
                passive=True,
                callback=lambda frame: question.finish(frame.method.message_count),
            )

        try:
            return int(self._ask(f"cannot inspect queue {queue}", step))
        except NotFound:
            return None

    def drain(self, queue: str, limit: int, handle: Callable[[Sequence[Delivery]], None]) -> int:
        """Take up to `limit` ready messages, give them to `handle`, ack them when it returns.

        If `handle` raises, they are requeued. If the connection is lost before the ack, they come
        again although they were handled; that is raised as BrokerUnavailable.
        """
        what = f"cannot drain queue {queue}"
        with self._one_at_a_time:
            try:
                fetch: _Fetch = self._asker.ask(
                    what, lambda question: _Fetch(question, queue, limit).ask()
                )
            except NotFound:
                return 0
            try:
                if fetch.taken:
                    handle(fetch.taken)
            except BaseException:
                self._asker.ask_on(what, fetch.question, lambda question: question.finish())
                raise
            self._asker.ask_on(what, fetch.question, lambda _question: fetch.ack())
            return len(fetch.taken)

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages; it is no error if there is none."""

        def step(question: Question) -> None:
            question.channel.queue_delete(queue, callback=lambda _frame: question.finish())

        self._ask(f"cannot delete queue {queue}", step)

    def close(self) -> None:
        """Close the connection."""
        self._asker.close()

    def _ask(self, what: str, step: Callable[[Question], None]) -> Any:
        with self._one_at_a_time:
            return self._asker.ask(what, step)


class _Fetch:
    """Gets messages one by one until there are enough or no more; runs in the link's thread."""

    def __init__(self, question: Question, queue: str, limit: int) -> None:
        self.question = question
        self.taken: list[Delivery] = []
        self._queue = queue
        self._limit = limit
        self._last_tag = 0
        question.channel.add_callback(
            lambda _frame: question.reply(self), [pika.spec.Basic.GetEmpty], one_shot=False
        )

    def ask(self) -> None:
        """Get the next one, or reply with those received."""
        if len(self.taken) < self._limit:
            self.question.channel.basic_get(self._queue, self._on_message)
        else:
            self.question.reply(self)

    def ack(self) -> None:
        """Ack all of them and finish."""
        if self.taken:
            self.question.channel.basic_ack(self._last_tag, multiple=True)
        self.question.finish()

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._last_tag = method.delivery_tag
        self.taken.append(
            Delivery(
                queue=self._queue,
                routing_key=str(method.routing_key),
                body=body,
                headers=string_headers(properties),
                redelivered=method.redelivered,
                tag=method.delivery_tag,
                exchange=str(method.exchange),
                user=user_of(properties),
                header_bytes=header_bytes(properties),
            )
        )
        self.ask()
