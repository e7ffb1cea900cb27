"""Sends requests to RabbitMQ and waits for the answers, from any thread, with a timeout."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pika.exceptions import (  # type: ignore[import-untyped]
    ChannelClosedByBroker,
    ChannelClosedByClient,
)

from warren.broker.errors import BrokerUnavailable, TopologyError
from warren.broker.rabbitmq.link import Link
from warren.broker.rabbitmq.reasons import NOT_FOUND, reason_of
from warren.broker.transport import BrokerSettings

#: Owned by another connection; declared with other arguments.
_TOPOLOGY_CODES = (405, 406)


_LOST = ConnectionError("connection lost")


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
            BrokerUnavailable: no connection, or no answer in time.

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
        """Close the connection."""
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
    if error.reply_code == NOT_FOUND:
        return NotFound(text)
    if error.reply_code in _TOPOLOGY_CODES:
        return TopologyError(text)
    return BrokerUnavailable(text)
