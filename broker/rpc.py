"""Questions to executors and their answers, many at once.

    ask()  ─> warren.ask ─> a boot's command queue ─> executor ─> warren.answer.<node> ─> ask()
    post() ─> the same without waiting: the listener calls back

An answer counts if it is signed by the app and address that were asked, names the boot that was
asked, and arrives while the asker still waits. Everything else is dropped.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from warren.broker.errors import BadMessage
from warren.broker.messages import Answer, Boot, Question
from warren.broker.signing import Direction, Sealer, app_of
from warren.broker.topology import ASK_EXCHANGE, answer_key, command_queue
from warren.broker.transport import Batch, Confirm, Consumer, Delivery, Outgoing, Publisher

log = structlog.get_logger()

#: How far ahead an executor's clock may be before it considers a question expired.
CLOCK_MARGIN_SECONDS = 5.0
#: Seconds between two removals of questions whose time is up.
_TAKE_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_TAKE_LIMIT = 500


class AddressedQuestion(NamedTuple):
    """A question to one boot; `build(question_id, reply_to)` makes the message."""

    boot: Boot
    build: Callable[[str, str], Question]


class Requester:
    """Asks executors on behalf of one node, for any number of threads.

    `answers` consumes `topology.answer_queue(node)`, for this requester alone, which closes it.
    `clock` is monotonic seconds.
    """

    def __init__(
        self,
        publisher: Publisher,
        answers: Consumer,
        sealer: Sealer,
        node: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._answers = answers
        self._sealer = sealer
        self._reply_to = answer_key(node)
        self._clock = clock
        self._open: dict[str, _Pending] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._listener.start()

    def declare_again(self) -> None:
        """Declare and bind the queue of answers again."""
        self._answers.declare_again()

    def ask(
        self, questions: Sequence[AddressedQuestion], timeout_seconds: float
    ) -> list[Answer | None]:
        """Return each question's answer, in the order given; None for one that got none.

        It does not wait for a question that reached no queue or was not confirmed. It waits for the
        others until all are answered or time runs out.

        Raises:
            ValueError: a name is not a valid app, address or boot id.

        """
        deadline = self._clock() + timeout_seconds
        pending = {uuid.uuid4().hex: _Pending(question.boot) for question in questions}
        messages = [
            self._seal(question, question_id, timeout_seconds)
            for question, question_id in zip(questions, pending, strict=True)
        ]
        with self._changed:
            self._open |= pending
        try:
            confirms = self._publisher.publish(messages).wait(timeout_seconds)
            return self._collect(list(pending.values()), confirms, deadline)
        finally:
            with self._changed:
                for question_id in pending:
                    del self._open[question_id]

    def post(
        self,
        questions: Sequence[AddressedQuestion],
        timeout_seconds: float,
        on_answer: Callable[[int, Answer], None],
    ) -> Batch:
        """Ask without waiting for the answers, nor for the broker; return what was published.

        `on_answer` is called with the position of a question and its answer, in the listener's
        thread, at most once for each and never after the timeout; it must not block.

        Raises:
            ValueError: a name is not a valid app, address or boot id.

        """
        give_up_at = self._clock() + timeout_seconds
        pending = {
            uuid.uuid4().hex: _Pending(
                question.boot, on_answer=partial(on_answer, position), give_up_at=give_up_at
            )
            for position, question in enumerate(questions)
        }
        messages = [
            self._seal(question, question_id, timeout_seconds)
            for question, question_id in zip(questions, pending, strict=True)
        ]
        with self._changed:
            self._open |= pending
        return self._publisher.publish(messages)

    def close(self) -> None:
        """Stop listening; callers that still wait run into their timeout."""
        self._closing.set()
        self._answers.close()
        self._listener.join(_CLOSE_SECONDS)

    def _seal(
        self, question: AddressedQuestion, question_id: str, timeout_seconds: float
    ) -> Outgoing:
        boot = question.boot
        return self._sealer.seal(
            question.build(question_id, self._reply_to),
            exchange=ASK_EXCHANGE,
            routing_key=command_queue(*boot).name,
            app=boot.app,
            address=boot.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=timeout_seconds + CLOCK_MARGIN_SECONDS,
            durable=False,
            ttl_seconds=timeout_seconds,
        )

    def _collect(
        self, pending: Sequence["_Pending"], confirms: Sequence[Confirm], deadline: float
    ) -> list[Answer | None]:
        awaited = [
            question
            for question, confirm in zip(pending, confirms, strict=True)
            if confirm is Confirm.CONFIRMED
        ]
        with self._changed:
            self._changed.wait_for(
                lambda: all(question.answer is not None for question in awaited),
                max(0.0, deadline - self._clock()),
            )
            return [question.answer for question in pending]

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                deliveries = self._answers.take(_TAKE_LIMIT, _TAKE_SECONDS)
                self._receive(deliveries)
            except Exception:
                log.exception("answers_failed")
                deliveries = []
            self._forget_overdue()
            if not deliveries:
                self._closing.wait(0.01)  # a consumer closed by others returns at once

    def _receive(self, deliveries: Sequence[Delivery]) -> None:
        answers: list[tuple[str, Answer]] = []
        for delivery in deliveries:
            try:
                opened = self._sealer.open(
                    delivery, expect=Answer, direction=Direction.FROM_EXECUTOR
                )
            except BadMessage as error:
                log.warning("answer_rejected", reason=str(error))
            else:
                answers.append((app_of(delivery), opened))
        self._answers.ack(deliveries)
        with self._changed:
            posted = [self._accept(app, answer) for app, answer in answers]
            self._changed.notify_all()
        # Without the lock: the callback may take another lock, under which it posts questions.
        for pass_on in posted:
            if pass_on is not None:
                _call(pass_on)

    def _forget_overdue(self) -> None:
        now = self._clock()
        with self._changed:
            overdue = [
                question_id
                for question_id, pending in self._open.items()
                if pending.give_up_at < now
            ]
            for question_id in overdue:
                del self._open[question_id]

    def _accept(self, app: str, answer: Answer) -> Callable[[], None] | None:
        """Record an answer; if its question was posted, return the call that passes it on."""
        pending = self._open.get(answer.question_id)
        if pending is None:
            log.debug("answer_ignored", address=answer.address, reason="nobody waits for it")
        elif (app, answer.address, answer.boot_id) != pending.boot:
            log.warning(
                "answer_ignored",
                app=app,
                address=answer.address,
                reason="another executor was asked",
            )
        elif pending.on_answer is None:
            pending.answer = pending.answer or answer
        else:
            del self._open[answer.question_id]
            return partial(pending.on_answer, answer)
        return None


def _call(pass_on: Callable[[], None]) -> None:
    try:
        pass_on()
    except Exception:  # one asker's failure must not cost another its answer
        log.exception("answers_failed")


class _Pending:
    """The boot that was asked, and its answer once there is one.

    For a posted question, `on_answer` is called with the answer, and `give_up_at` is the monotonic
    time after which the question is forgotten.
    """

    def __init__(
        self,
        boot: Boot,
        *,
        on_answer: Callable[[Answer], None] | None = None,
        give_up_at: float = math.inf,
    ) -> None:
        self.boot = boot
        self.on_answer = on_answer
        self.give_up_at = give_up_at
        self.answer: Answer | None = None
