"""Deliveries of one queue, proven and handed to the core in batches; bad ones are given up."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from broker.errors import BadMessage, Expired
from broker.messages import Message
from broker.signing import Direction, Sealer, cluster_of
from broker.transport import Consumer, Delivery

#: Most deliveries in one batch, and how often the thread looks whether it is to end.
BATCH_LIMIT = 100
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that is what it claims to be; it may have come too late."""

    message: Message
    delivery: Delivery
    is_expired: bool

    @property
    def cluster(self) -> str:
        """The cluster that sent it."""
        return cluster_of(self.delivery)


class Inbox:
    """A thread over one consumer. `post` takes batches, in that thread; `expect` is their type.

    Settling is the receiver's, by `ack`, once the effect is durable.
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
        self._closing = threading.Event()
        self.rejected: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name=f"{name} {address}", daemon=True)

    def start(self) -> None:
        """Begin to take deliveries."""
        self._thread.start()

    def pause(self) -> None:
        """Take nothing more for now; what was prefetched stays unsettled."""
        self._may_take.clear()

    def resume(self) -> None:
        """Take deliveries again."""
        self._may_take.set()

    def ack(self, deliveries: list[Delivery]) -> None:
        """Settle deliveries."""
        self._consumer.ack(deliveries)

    def close(self) -> None:
        """Stop; what is not settled goes back to its queue."""
        self._closing.set()
        self._may_take.set()
        self._consumer.close()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._round()
            except Exception:  # noqa: BLE001 - the top of a loop
                # The consumer reconnects by itself; whatever this was, the next round is another.
                self._log.exception("inbox_round_failed")
                self._closing.wait(LOOK_SECONDS)

    def _round(self) -> None:
        if not self._may_take.wait(LOOK_SECONDS):
            return
        deliveries = self._consumer.take(BATCH_LIMIT, LOOK_SECONDS)
        if not deliveries or self._closing.is_set():
            return
        arrivals = [arrival for delivery in deliveries if (arrival := self._open(delivery))]
        if arrivals:
            self._post(arrivals)

    def _open(self, delivery: Delivery) -> Arrival | None:
        try:
            message = self._sealer.open(
                delivery,
                expect=self._expect,
                direction=Direction.TO_EXECUTOR,
                address=self._address,
            )
        except Expired as error:
            if error.message is not None:
                return Arrival(error.message, delivery, is_expired=True)
            self._reject(delivery, error)
            return None
        except BadMessage as error:
            self._reject(delivery, error)
            return None
        return Arrival(message, delivery, is_expired=False)

    def _reject(self, delivery: Delivery, error: BadMessage) -> None:
        kind = type(error).__name__
        self.rejected[kind] += 1
        self._consumer.reject([delivery])
        self._log.warning(
            "message_rejected", queue=delivery.queue, reason=kind, error=str(error)[:500]
        )
