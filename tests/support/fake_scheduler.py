"""A fake scheduler for tests of the executor."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from tests.support.eventually import eventually
from warren.broker.codec import encode, packed
from warren.broker.errors import Expired
from warren.broker.messages import (
    Block,
    Callback,
    Finished,
    Heartbeat,
    Message,
    NotStarted,
    OpenRunsQuery,
    OpenRunsReply,
    Refused,
    Report,
    Started,
    ToScheduler,
    Trigger,
    Welcome,
)
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.topology import (
    TRIGGER_EXCHANGE,
    answer_key,
    answer_queue,
    callback_queue,
    command_queue,
    heartbeat_queue,
    run_queue,
)
from warren.broker.transport import Confirm, Delivery, Outgoing, Transport

SECRET = "a secret of the tests, long enough 0123456789"
CLUSTER = "cluster-of-tests"
NODE = "desk"

M = TypeVar("M", bound=Message)
R = TypeVar("R", Started, Finished, NotStarted)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FakeScheduler:
    """Welcomes boots, sends messages to them and stores what they send.

    With `refuses` every boot is refused; with `open_ids` None every run is open, and with
    `answers_which_open` False such questions get no answer. `ahead_ms` is how far its clock is
    ahead of this machine's.
    """

    def __init__(self, transport: Transport, *, app: str = "demo", address: str = "exec-1") -> None:
        self.app = app
        self.address = address
        self.boot_id = ""
        self.refuses = False
        self.welcomes = True
        self.answers_which_open = True
        self.open_ids: set[int] | None = None
        self.ahead_ms = 0
        self.sealer = Sealer(ClusterKeys(SECRET), CLUSTER, lambda: now_ms() + self.ahead_ms)
        self.heard: list[Message] = []
        self.reports: list[Report] = []
        self._numbers = itertools.count(1)
        self._greeted: set[str] = set()
        self._is_closed = threading.Event()
        self._admin = transport.admin("desk")
        self._admin.declare_exchanges()
        self._admin.declare_queues([callback_queue()])
        self._publisher = transport.publisher("desk")
        queues = ["warren.callback", heartbeat_queue(NODE), answer_queue(NODE)]
        self._consumer = transport.consumer("desk", queues, prefetch=1000)
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
        self._thread.start()

    # -- saying -------------------------------------------------------------------------------

    def seal_trigger(self, run_id: int, *, valid_seconds: float = 600, **values: Any) -> Outgoing:
        trigger = self.trigger(run_id, **values)
        return self.seal(trigger, self.run_queue, valid_seconds=valid_seconds)

    def trigger(self, run_id: int, **values: Any) -> Trigger:
        facts = {
            "job_id": run_id,
            "boot_id": self.boot_id,
            "kind": "CRON",
            "handler": "demo.echo",
            "param": "ok",
            "scheduled_at_ms": 1_000 + run_id,
            "block": Block.SERIAL_EXECUTION,
        }
        return Trigger(run_id=run_id, **(facts | values))

    def seal(self, message: Message, queue: str, *, valid_seconds: float = 600) -> Outgoing:
        return self.sealer.seal(
            message,
            exchange=TRIGGER_EXCHANGE,
            routing_key=queue,
            app=self.app,
            address=self.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=valid_seconds,
        )

    def publish(self, *messages: Outgoing) -> None:
        fates = self._publisher.publish(list(messages)).wait(30)
        assert set(fates) <= {Confirm.CONFIRMED}, fates

    def send_trigger(self, run_id: int, *, valid_seconds: float = 600, **values: Any) -> None:
        self.publish(self.seal_trigger(run_id, valid_seconds=valid_seconds, **values))

    def seal_triggers(self, run_ids: Iterable[int], **values: Any) -> Outgoing:
        """Seal triggers of several runs into one message."""
        encoded = [encode(self.trigger(run_id, **values)) for run_id in run_ids]
        return self.seal(packed(encoded), self.run_queue)

    def command(self, message: Message) -> None:
        self.publish(self.seal(message, self.command_queue))

    def ask(self, kind: Callable[..., Message], **values: Any) -> Any:
        """Ask a question and return its answer."""
        question_id = f"q{next(self._numbers)}"
        self.command(kind(question_id=question_id, reply_to=answer_key(NODE), **values))
        return eventually(lambda: self._answer(question_id))

    def welcome_for(self, beat: Heartbeat) -> Welcome:
        """Return the answer to a heartbeat."""
        time_ms = now_ms() + self.ahead_ms
        sent_at_ms = beat.sent_at_ms
        return Welcome(boot_id=beat.boot_id, now_ms=time_ms, heartbeat_sent_at_ms=sent_at_ms)

    # -- hearing ------------------------------------------------------------------------------

    @property
    def run_queue(self) -> str:
        return run_queue(self.app, self.address).name

    @property
    def command_queue(self) -> str:
        return command_queue(self.app, self.address, self.boot_id).name

    def of(self, kind: type[M]) -> list[M]:
        return [message for message in list(self.heard) if isinstance(message, kind)]

    def reports_on(self, run_id: int, kind: type[R]) -> list[R]:
        return [
            report
            for report in list(self.reports)
            if report.run_id == run_id and isinstance(report, kind)
        ]

    def expect(self, run_id: int, kind: type[R], seconds: float = 30) -> R:
        """Wait for the first report of this kind on a run and return it."""
        return eventually(lambda: self.reports_on(run_id, kind), seconds)[0]

    def declare_queues_of(self, boot_id: str) -> None:
        self._admin.declare_queues(
            [run_queue(self.app, self.address), command_queue(self.app, self.address, boot_id)]
        )

    def count_unsettled(self, queue: str) -> int | None:
        return self._admin.count_messages(queue)

    def drain_run_queue(self) -> list[Delivery]:
        """Return what lies unread in the queue of triggers, and empty it."""
        found: list[Delivery] = []
        while self._admin.drain(self.run_queue, 500, found.extend):
            pass
        return found

    def forget(self, boot_id: str) -> None:
        """Welcome a boot again at its next heartbeat, as schedulers do at each."""
        self._greeted.discard(boot_id)

    def close(self) -> None:
        self._is_closed.set()
        self._consumer.close()
        self._thread.join()

    def _answer(self, question_id: str) -> Message | None:
        said = [m for m in list(self.heard) if getattr(m, "question_id", None) == question_id]
        return said[0] if said else None

    def _run(self) -> None:
        while not self._is_closed.is_set():
            deliveries = self._consumer.take(100, 0.2)
            for delivery in deliveries:
                self._open(delivery)
            self._consumer.ack(deliveries)

    def _open(self, delivery: Delivery) -> None:
        """Handle a message; like real schedulers, ask again after an expired one."""
        with suppress(Expired):
            self._hear(
                self.sealer.open(delivery, expect=ToScheduler, direction=Direction.FROM_EXECUTOR)
            )

    def _hear(self, message: Message) -> None:
        self.heard.append(message)
        if isinstance(message, Callback):
            self.reports.extend(message.reports)
        elif isinstance(message, Heartbeat):
            self._greet(message)
        elif isinstance(message, OpenRunsQuery) and self.answers_which_open:
            asked = message.run_ids
            still = tuple(i for i in asked if self.open_ids is None or i in self.open_ids)
            self._say(OpenRunsReply(asked=asked, open_ids=still))

    def _say(self, message: Message) -> bool:
        """Send a message that may be lost; return whether the broker has confirmed it."""
        sealed = self.seal(message, self.command_queue, valid_seconds=60)
        [fate] = self._publisher.publish([sealed]).wait(30)
        return fate is Confirm.CONFIRMED

    def _greet(self, beat: Heartbeat) -> None:
        if beat.boot_id in self._greeted or not self.welcomes:
            return
        self.boot_id = beat.boot_id
        self.declare_queues_of(beat.boot_id)
        refused = Refused(boot_id=beat.boot_id, reason="another lives")
        if self._say(refused if self.refuses else self.welcome_for(beat)):
            self._greeted.add(beat.boot_id)
