"""Takes deliveries of one queue, verifies them and hands them to the core in batches."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from warren.broker.codec import unpacked
from warren.broker.errors import BadMessage, Expired, Malformed, Oversized
from warren.broker.messages import Message, Question, Trigger, Triggers
from warren.broker.signing import Direction, Sealer, cluster_of
from warren.broker.topology import ASK_EXCHANGE
from warren.broker.transport import Consumer, Delivery

#: The most deliveries in one batch.
BATCH_LIMIT = 100
#: How long to wait after a failure, and for an event that ends the wait.
RETRY_SECONDS, WAIT_SECONDS = 0.5, 10.0
#: How often to look whether the broker has confirmed that it delivers nothing more.
FINISH_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Arrival:
    """An authentic message of `size` bytes; it may have arrived too late.

    Several triggers may have come with one delivery, which is settled once all of them are.
    """

    message: Message
    delivery: Delivery
    is_expired: bool
    size: int

    @property
    def cluster(self) -> str:
        """The cluster that sent it."""
        return cluster_of(self.delivery)


def deliveries_of(arrivals: Iterable[Arrival]) -> list[Delivery]:
    """Return the deliveries of these messages, each once."""
    return list({id(arrival.delivery): arrival.delivery for arrival in arrivals}.values())


class Inbox:
    """A thread that reads one consumer and calls `post` with batches of messages of type `expect`.

    The receiver settles them with `ack`, once their effect is durable. Bad messages are rejected.
    """

    def __init__(
        self,
        name: str,
        consumer: Consumer,
        sealer: Sealer,
        *,
        address: str,
        expect: Any,
        post: Callable[[list[Arrival]], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._consumer = consumer
        self._sealer = sealer
        self._address = address
        self._expect = expect
        self._post = post
        self._log = log
        self._may_take = threading.Event()
        self._may_take.set()
        self._finishing = threading.Event()
        self._closing = threading.Event()
        self.rejected: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name=f"{name} {address}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        """Take no more for now; prefetched deliveries stay unsettled."""
        if self._may_take.is_set():
            self._may_take.clear()
            self._consumer.wake()

    def resume(self) -> None:
        self._may_take.set()

    def ack(self, deliveries: list[Delivery]) -> None:
        self._consumer.ack(deliveries)

    def finish(self) -> None:
        """Take what the broker has delivered, and nothing more; see `is_finished`."""
        self._finishing.set()
        self._consumer.cancel()
        self._consumer.wake()

    @property
    def is_finished(self) -> bool:
        """Whether everything that was delivered before `finish` has been posted."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop; unsettled deliveries go back to their queue."""
        self._closing.set()
        self._may_take.set()
        self._consumer.close()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if not self._round():
                    return
            except Exception:  # noqa: BLE001 - the top of a loop
                # The consumer reconnects by itself; the next round starts afresh.
                self._log.exception("inbox_round_failed")
                self._closing.wait(RETRY_SECONDS)

    def _round(self) -> bool:
        """Take and post one batch; return False when there will be no other."""
        if not self._may_take.wait(WAIT_SECONDS):
            return True
        is_last = self._consumer.is_cancelled
        seconds = FINISH_SECONDS if self._finishing.is_set() else WAIT_SECONDS
        deliveries = self._consumer.take(BATCH_LIMIT, seconds)
        self._wait_while_paused()
        if not deliveries or self._closing.is_set():
            return not is_last
        arrivals = [arrival for delivery in deliveries for arrival in self._open(delivery)]
        if arrivals:
            self._post(arrivals)
        return True

    def _wait_while_paused(self) -> None:
        """Hold what a pause found on its way from the broker; `close` ends the wait."""
        while not self._may_take.wait(WAIT_SECONDS):
            pass

    def _open(self, delivery: Delivery) -> list[Arrival]:
        was_asked = delivery.exchange == ASK_EXCHANGE
        try:
            message = self._sealer.open(
                delivery,
                expect=Question if was_asked else self._expect,
                direction=Direction.TO_EXECUTOR,
                address=self._address,
            )
        except Expired as error:
            if error.message is not None:
                return self._arrivals(error.message, delivery, is_expired=True)
            self._reject(delivery, error)
            return []
        except BadMessage as error:
            self._reject(delivery, error)
            return []
        return self._arrivals(message, delivery, is_expired=False)

    def _arrivals(self, message: Message, delivery: Delivery, *, is_expired: bool) -> list[Arrival]:
        size = len(delivery.body)
        if not isinstance(message, Trigger | Triggers):
            return [Arrival(message, delivery, is_expired, size)]
        arrivals: list[Arrival] = []
        problem: Malformed | None = None
        for trigger, own_size in unpacked(message, size):
            if isinstance(trigger, Malformed):
                problem = trigger
                self._note_rejected(delivery, trigger)
            else:
                arrivals.append(Arrival(trigger, delivery, is_expired, own_size))
        if problem is not None and not arrivals:
            self._consumer.reject([delivery])
        return arrivals

    def _reject(self, delivery: Delivery, error: BadMessage) -> None:
        if isinstance(error, Oversized):
            self.rejected[type(error).__name__] += 1
            self._consumer.ack([delivery])
            self._log.warning("message_dropped", queue=delivery.queue, reason=str(error))
            return
        self._consumer.reject([delivery])
        self._note_rejected(delivery, error)

    def _note_rejected(self, delivery: Delivery, error: BadMessage) -> None:
        kind = type(error).__name__
        self.rejected[kind] += 1
        self._log.warning(
            "message_rejected", queue=delivery.queue, reason=kind, error=str(error)[:500]
        )
