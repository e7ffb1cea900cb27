"""Executors that answer at once: they send heartbeats, take triggers, and run nothing.

With them a broadcast to many executors can be measured without as many processes.
"""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Self

from warren.broker.codec import MAX_PACK_TRIGGERS, unpacked
from warren.broker.messages import (
    Callback,
    Finished,
    Goodbye,
    Heartbeat,
    Load,
    Message,
    Outcome,
    Trigger,
    Triggers,
)
from warren.broker.rabbitmq import transport as amqp
from warren.broker.signing import Direction, Sealer
from warren.broker.topology import CALLBACK_KEY, HEARTBEAT_KEY, REPLY_EXCHANGE, run_queue
from warren.broker.transport import BrokerSettings, Delivery, Outgoing

APP = "simulated"
BEAT_SECONDS = 3.0
_boots = itertools.count(1)


class SimulatedExecutors:
    """Executors of app `simulated` in one thread; every run succeeds at once."""

    def __init__(
        self, count: int, *, broker_url: str, sealer: Sealer, now_ms: Callable[[], int]
    ) -> None:
        self.addresses = [f"simulated-{number:03}" for number in range(count)]
        self._boot_id = f"simulated{next(_boots)}"
        self._sealer = sealer
        self._now_ms = now_ms
        self._started_at_ms = now_ms()
        self._transport = amqp.connect(BrokerSettings((broker_url,)))
        self._publisher = self._transport.publisher("simulated")
        queues = {run_queue(APP, address).name: address for address in self.addresses}
        self._addresses = queues
        self._triggers = self._transport.consumer("simulated", list(queues), prefetch=2_000)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="simulated", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._say([self._seal(self._goodbye(address), address) for address in self.addresses])
        self._transport.close()

    def _work(self) -> None:
        beaten_at = float("-inf")
        while not self._ending.is_set():
            if time.monotonic() - beaten_at > BEAT_SECONDS and self._publisher.is_ready:
                beaten_at = time.monotonic()
                beats = [self._seal(self._beat(one), one, HEARTBEAT_KEY) for one in self.addresses]
                self._say(beats)
            self._answer(self._triggers.take(500, 0.05))

    def _answer(self, deliveries: Sequence[Delivery]) -> None:
        """Report each run as succeeded; a callback belongs to one executor."""
        ended: dict[str, list[Finished]] = defaultdict(list)
        for delivery in deliveries:
            address = self._addresses[delivery.queue]
            message = self._sealer.open(
                delivery,
                expect=Trigger | Triggers,
                direction=Direction.TO_EXECUTOR,
                address=address,
            )
            triggers = (trigger for trigger, _size in unpacked(message, 0))
            ended[address] += map(self._succeeded, triggers)
        who = {"app": APP, "boot_id": self._boot_id}
        self._say(
            [
                self._seal(Callback(address=address, reports=tuple(reports), **who), address)
                for address, reports in ended.items()
            ]
        )
        self._triggers.ack(deliveries)

    def _succeeded(self, trigger: Trigger) -> Finished:
        return Finished(
            run_id=trigger.run_id,
            boot_id=trigger.boot_id,
            outcome=Outcome.SUCCEEDED,
            finished_at_ms=self._now_ms(),
        )

    def _beat(self, address: str) -> Heartbeat:
        return Heartbeat(
            app=APP,
            address=address,
            boot_id=self._boot_id,
            started_at_ms=self._started_at_ms,
            load=Load(),
            triggers_per_message=MAX_PACK_TRIGGERS,
        )

    def _goodbye(self, address: str) -> Goodbye:
        return Goodbye(app=APP, address=address, boot_id=self._boot_id)

    def _seal(self, message: Message, address: str, key: str = CALLBACK_KEY) -> Outgoing:
        return self._sealer.seal(
            message,
            exchange=REPLY_EXCHANGE,
            routing_key=HEARTBEAT_KEY if isinstance(message, Goodbye) else key,
            app=APP,
            address=address,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=60,
        )

    def _say(self, messages: Sequence[Outgoing]) -> None:
        if messages:
            self._publisher.publish(messages).wait(10)
