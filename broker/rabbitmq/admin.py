"""Declares, inspects, drains and deletes queues on RabbitMQ.

Calls may come from any thread. Each sends a request to the link's thread and waits for the answer,
with a timeout.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pika.spec  # type: ignore[import-untyped]
import structlog
from pika.exceptions import (  # type: ignore[import-untyped]
    ChannelClosedByBroker,
    ChannelClosedByClient,
)

from warren.broker.errors import BrokerUnavailable, QueueUnavailable, TopologyError
from warren.broker.rabbitmq.link import NOT_FOUND, Link, reason_of
from warren.broker.rabbitmq.properties import header_bytes, string_headers, user_of
from warren.broker.topology import DEAD_LETTER_EXCHANGE, DEAD_QUEUE, EXCHANGES
from warren.broker.transport import BrokerSettings, Delivery, Queue

#: Reply codes: the queue belongs to another connection, or was declared with other arguments.
_TOPOLOGY_CODES = (405, 406)
#: How many times a quorum queue delivers a message before dead-lettering it. Set explicitly, as
#: 3.x has no limit and 4.x has 20, which a series of lost connections would use up.
DELIVERY_LIMIT = 200
#: How often an admin logs that the queue of rejected messages cannot be declared.
_TELL_SECONDS = 60.0

log = structlog.get_logger()

_LOST = ConnectionError("connection lost")
#: What RabbitMQ says of a queue that exists as a classic one, or as a quorum queue.
OTHER_KIND = re.compile("inequivalent arg 'x-(queue-type|delivery-limit)'")
#: What RabbitMQ says of a classic queue whose node is down; its code is that of a missing queue.
NODE_DOWN = re.compile(r"is down or inaccessible|is stopped by supervisor")


class NotFound(Exception):
    """The broker has no such queue or exchange."""


class _ChannelLost(Exception):
    """The channel was lost with its connection before the answer came."""


class Question:
    """One channel and its pending answer; runs in the link's thread."""

    def __init__(self) -> None:
        self.channel: Any = None
        self.answer: Future[Any] = Future()
        self._value: Any = None

    def reply(self, value: Any) -> None:
        """Answer, and keep the channel for the next step."""
        self.answer.set_result(value)

    def finish(self, value: Any = None) -> None:
        """Close the channel; answer once the broker has done everything before."""
        self._value = value
        self.channel.close()

    def closed(self, _channel: Any, error: BaseException) -> None:
        """Answer with the reason why the channel was closed."""
        if self.answer.done():
            return
        if isinstance(error, ChannelClosedByClient):
            self.answer.set_result(self._value)
        elif isinstance(error, ChannelClosedByBroker):
            self.answer.set_exception(error)
        else:
            self.answer.set_exception(_ChannelLost(reason_of(error)))


#: A step on a question's channel; called in the link's thread.
Step = Callable[[Question], None]


class Asker:
    """Sends requests over its own connection, which is restored when it is lost.

    It waits `answer_seconds` for an answer, by default as long as for a connection.
    """

    def __init__(
        self, name: str, settings: BrokerSettings, *, answer_seconds: float | None = None
    ) -> None:
        self._connect_seconds = settings.connect_timeout_seconds
        self._answer_seconds = answer_seconds or settings.connect_timeout_seconds
        self._stands = threading.Event()
        self._connection: Any = None
        self._link = Link(name, settings, self)
        self._link.start()

    def ask(self, what: str, step: Step) -> Any:
        """Return the answer to `step` on a new channel.

        `what` begins the message of an error: "cannot declare queue x".

        Raises:
            NotFound: the broker has no such queue or exchange.
            TopologyError: the queue has another owner or other arguments.
            BrokerUnavailable: no connection, no answer in time, or the queue's node is down.

        """
        if not self._stands.wait(self._connect_seconds):
            raise BrokerUnavailable(f"{what}: {self._link.reason}")
        question = Question()
        return self._wait(what, question, lambda: self._begin(question, step))

    def ask_on(self, what: str, question: Question, step: Step) -> Any:
        """Return the answer to another step on the channel of a question that got a reply."""
        question.answer = Future()

        def begin() -> None:
            if question.channel.is_open:
                step(question)
            else:
                question.closed(question.channel, _LOST)

        return self._wait(what, question, begin)

    def close(self) -> None:
        self._link.close()

    def _wait(self, what: str, question: Question, begin: Callable[[], None]) -> Any:
        if not self._link.call(begin):
            raise BrokerUnavailable(f"{what}: {self._link.reason or 'connection lost'}")
        try:
            return question.answer.result(self._answer_seconds)
        except TimeoutError as error:
            self._stands.clear()  # a late answer must not reach the next question
            self._link.reset()
            text = f"{what}: no answer within {self._answer_seconds:g} s"
            raise BrokerUnavailable(text) from error
        except _ChannelLost as error:
            raise BrokerUnavailable(f"{what}: {error}") from error
        except ChannelClosedByBroker as error:
            raise _translate(what, error) from error

    # -- in the link's thread ---------------------------------------------------------------

    def connected(self, connection: Any) -> None:
        """Allow questions."""
        self._connection = connection
        self._stands.set()

    def blocked(self, *, is_blocked: bool) -> None:
        """Do nothing: a blocked broker still answers."""

    def lost(self, _reason: str) -> None:
        """Make questions wait; pending ones failed with their channels."""
        self._stands.clear()

    def _begin(self, question: Question, step: Step) -> None:
        if not self._connection.is_open:
            question.closed(None, _LOST)
            return
        question.channel = self._connection.channel(
            on_open_callback=lambda _channel: step(question)
        )
        question.channel.add_on_close_callback(question.closed)


def _translate(what: str, error: Any) -> Exception:
    text = f"{what}: {error.reply_text}"
    if NODE_DOWN.search(error.reply_text):
        return QueueUnavailable(text)
    if error.reply_code == NOT_FOUND:
        return NotFound(text)
    if error.reply_code in _TOPOLOGY_CODES:
        return TopologyError(text)
    return BrokerUnavailable(text)


def declare_exchanges(channel: Any) -> None:
    """Declare every exchange of the topology as durable."""
    for name, kind in EXCHANGES.items():
        channel.exchange_declare(name, exchange_type=kind, durable=True)


def declare_queue(channel: Any, queue: Queue, **options: Any) -> None:
    """Declare and bind a queue without waiting: errors close the channel."""
    if queue.exclusive:
        queue = for_one_reader(queue, channel.connection.server_properties.get("version", ""))
    channel.queue_declare(
        queue.name,
        durable=not queue.exclusive,
        exclusive=queue.exclusive,
        arguments=arguments_of(queue),
        **options,
    )
    for exchange in filter(None, (queue.exchange, queue.asked_through)):
        for routing_key in queue.routing_keys:
            channel.queue_bind(queue.name, exchange, routing_key)


def for_one_reader(queue: Queue, version: str) -> Queue:
    """Return an exclusive queue without `exclusive` or without `quorum`.

    A cluster deletes the exclusive queues of a node that goes down. Since 4.2 it keeps them until
    the node is back, and confirms no message to them, so there they are quorum queues. Publishers
    of RabbitMQ 3.10 may find the new leader of a quorum queue too late for heartbeats.
    """
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if queue.quorum and numbers >= (4, 2):
        return replace(queue, exclusive=False)
    return replace(queue, quorum=False, expires_seconds=None)


def arguments_of(queue: Queue) -> dict[str, str | int]:
    """Return a queue's `x-` arguments."""
    arguments: dict[str, str | int] = {}
    if queue.dead_letter:
        arguments["x-dead-letter-exchange"] = DEAD_LETTER_EXCHANGE
    if queue.quorum:
        arguments |= {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}
    if queue.expires_seconds is not None:
        arguments["x-expires"] = round(queue.expires_seconds * 1000)
    if queue.message_ttl_seconds is not None:
        arguments["x-message-ttl"] = round(queue.message_ttl_seconds * 1000)
    if queue.max_length is not None:
        arguments["x-max-length"] = queue.max_length
    if queue.max_bytes is not None:
        arguments["x-max-length-bytes"] = queue.max_bytes
    return arguments


class AmqpAdmin:
    """Declares and inspects queues, one call at a time."""

    def __init__(
        self, name: str, settings: BrokerSettings, *, answer_seconds: float | None = None
    ) -> None:
        self._asker = Asker(name, settings, answer_seconds=answer_seconds)
        self._one_at_a_time = threading.Lock()
        self._told_at = float("-inf")

    def declare_exchanges(self) -> None:
        def step(question: Question) -> None:
            declare_exchanges(question.channel)
            question.finish()

        self._ask("cannot declare exchanges", step)
        try:
            self.declare_queues([DEAD_QUEUE])
        except QueueUnavailable as error:
            # Nothing else needs it: rejected messages are lost until its node is back.
            if time.monotonic() - self._told_at >= _TELL_SECONDS:
                self._told_at = time.monotonic()
                log.warning("queue_not_declared", queue=DEAD_QUEUE.name, error=str(error))

    def declare_queues(self, queues: Sequence[Queue]) -> None:
        try:
            self._declare(queues)
        except TopologyError as error:
            if not OTHER_KIND.search(str(error)):
                raise
            for queue in queues:
                self._declare_as_it_is(queue)

    def _declare_as_it_is(self, queue: Queue) -> None:
        """Declare a queue; if it exists as one of the other kind, it stays that."""
        try:
            self._declare([queue])
        except TopologyError as error:
            if not OTHER_KIND.search(str(error)):
                raise
            self._declare([replace(queue, quorum=not queue.quorum)])
            if queue.quorum:
                log.warning("classic_queue_retained", queue=queue.name)

    def _declare(self, queues: Sequence[Queue]) -> None:
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
        def step(question: Question) -> None:
            question.channel.queue_delete(queue, callback=lambda _frame: question.finish())

        self._ask(f"cannot delete queue {queue}", step)

    def close(self) -> None:
        self._asker.close()

    def _ask(self, what: str, step: Callable[[Question], None]) -> Any:
        with self._one_at_a_time:
            return self._asker.ask(what, step)


class _Fetch:
    """Gets messages one by one, up to a limit; runs in the link's thread."""

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
