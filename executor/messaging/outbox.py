"""Sends an executor's messages, signed, and its reports in order until the broker confirms them.

Reports are kept in memory; what must survive this process is in the journal already. While the
outbox `is_full`, no run is taken or started, so at most the results of running jobs are added.
"""

import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import structlog

from warren.broker.messages import (
    Callback,
    Called,
    Finished,
    Message,
    NotStarted,
    Report,
    Started,
)
from warren.broker.signing import Direction, Sealer
from warren.broker.topology import CALLBACK_KEY, REPLY_EXCHANGE, check_address, check_app
from warren.broker.transport import Batch, Confirm, Outgoing, Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One boot of one executor."""

    app: str
    address: str
    boot_id: str

    @classmethod
    def checked(cls, app: str, address: str, boot_id: str = "") -> Self:
        """Return the identity of this boot, by default of a new one.

        Raises:
            ValueError: `app` or `address` cannot be a name.

        """
        return cls(
            app=check_app(app), address=check_address(address), boot_id=boot_id or new_boot_id()
        )


def new_boot_id() -> str:
    return secrets.token_hex(8)


class Sender:
    """Signs and publishes the messages of one executor. Thread-safe."""

    def __init__(self, identity: Identity, sealer: Sealer, publisher: Publisher) -> None:
        self.identity = identity
        self.publisher = publisher
        self._sealer = sealer

    def seal(
        self,
        message: Message,
        *,
        valid_seconds: float,
        key: str = CALLBACK_KEY,
        durable: bool = False,
    ) -> Outgoing:
        """Return the signed message, ready to publish to the schedulers."""
        return self._sealer.seal(
            message,
            exchange=REPLY_EXCHANGE,
            routing_key=key,
            app=self.identity.app,
            address=self.identity.address,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=valid_seconds,
            durable=durable,
        )

    def send(self, message: Message, *, valid_seconds: float, key: str = CALLBACK_KEY) -> Batch:
        """Publish one message that is useless after `valid_seconds`."""
        return self.publisher.publish([self.seal(message, valid_seconds=valid_seconds, key=key)])


#: Reports and bytes in one callback.
MESSAGE_REPORTS = 100
MESSAGE_BYTES = 512_000
#: Most callbacks published at once.
WINDOW_MESSAGES = 8
#: The outbox is full at this many reports or bytes.
FULL_REPORTS = 20_000
FULL_BYTES = 64_000_000
#: Shortest time between two publications, so that a busy executor sends few long callbacks instead
#: of many short ones, which would cost executor, scheduler and broker more than half of what a run
#: costs them. A report after a pause is sent at once.
GATHER_SECONDS = 0.02
#: How long a callback is valid: longer than any outage that is recovered from.
VALID_SECONDS = 30 * 86_400.0
#: How long to wait for the broker's confirm before a callback is sent again.
CONFIRM_SECONDS = 10.0
#: First and longest pause after a failure; it doubles each time, less up to half at random.
BACKOFF_SECONDS = (0.1, 2.0)
#: How long to wait for the thread to end: it may be waiting for the broker's confirm.
JOIN_SECONDS = 1.0


@dataclass(slots=True)
class _PendingCallback:
    reports: list[Report] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class Outbox:
    """A thread that publishes callbacks; it calls `on_confirmed` with runs it finally reported.

    It calls `on_calls_confirmed` with the calls it reported: the run and number of each.

    A Started is never repeated once the run's final report is in the outbox, so that the order
    within a run is kept even when an earlier callback has to be sent again.
    """

    def __init__(
        self,
        sender: Sender,
        on_confirmed: Callable[[tuple[int, ...]], None],
        log: structlog.typing.FilteringBoundLogger,
        *,
        backoff_seconds: tuple[float, float] = BACKOFF_SECONDS,
        gather_seconds: float = GATHER_SECONDS,
        message_reports: int = MESSAGE_REPORTS,
        on_calls_confirmed: Callable[[tuple[tuple[int, int], ...]], None] = lambda _calls: None,
    ) -> None:
        self._sender = sender
        self._on_confirmed = on_confirmed
        self._on_calls_confirmed = on_calls_confirmed
        self._log = log
        self._backoff_seconds = backoff_seconds
        self._gather_seconds = gather_seconds
        self._message_reports = message_reports
        self._changed = threading.Condition()
        self._queue: deque[tuple[Report, int]] = deque()
        self._finals: set[int] = set()
        self._count = 0
        self._bytes = 0
        self._failures = 0
        self._is_closed = False
        name = f"outbox {sender.identity.address}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_full(self) -> bool:
        """Whether so many reports wait that no more runs may be taken."""
        return self._count >= FULL_REPORTS or self._bytes >= FULL_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether everything added has been confirmed."""
        return not self._count

    def start(self) -> None:
        self._thread.start()

    def add(self, report: Report, size: int) -> None:
        """Send a report of about `size` bytes, unless the run's final one is here already."""
        with self._changed:
            if isinstance(report, Finished | NotStarted):
                if report.run_id in self._finals:
                    return
                self._finals.add(report.run_id)
            self._queue.append((report, size))
            self._count += 1
            self._bytes += size
            if len(self._queue) == 1:  # otherwise the thread has been notified
                self._changed.notify()

    def close(self) -> None:
        """Stop; the next boot sends what is not confirmed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        not_before = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                gather_seconds = not_before - time.monotonic()
                if gather_seconds > 0 and not self._is_closed:
                    self._changed.wait(gather_seconds)
                if self._is_closed:
                    return
                callbacks = self._pack()
            not_before = time.monotonic() + self._gather_seconds
            try:
                confirms = self._publish(callbacks)
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("callbacks_publish_failed", count=len(callbacks))
                confirms = [Confirm.UNKNOWN] * len(callbacks)
            self._settle(callbacks, confirms)

    def _pack(self) -> list[_PendingCallback]:
        callbacks: list[_PendingCallback] = []
        room = 0
        while self._queue:
            report, size = self._queue[0]
            if not callbacks or size > room or len(callbacks[-1].reports) >= self._message_reports:
                if len(callbacks) == WINDOW_MESSAGES:
                    break
                callbacks.append(_PendingCallback())
                room = MESSAGE_BYTES
            self._queue.popleft()
            callbacks[-1].reports.append(report)
            callbacks[-1].sizes.append(size)
            room -= size
        return callbacks

    def _publish(self, callbacks: list[_PendingCallback]) -> list[Confirm]:
        who = self._sender.identity
        messages = [
            self._sender.seal(
                Callback(
                    app=who.app,
                    address=who.address,
                    boot_id=who.boot_id,
                    reports=tuple(callback.reports),
                ),
                valid_seconds=VALID_SECONDS,
                durable=True,
            )
            for callback in callbacks
        ]
        return self._sender.publisher.publish(messages).wait(CONFIRM_SECONDS)

    def _settle(self, callbacks: list[_PendingCallback], confirms: list[Confirm]) -> None:
        by_confirm = list(zip(callbacks, confirms, strict=True))
        failed = [callback for callback, confirm in by_confirm if confirm is not Confirm.CONFIRMED]
        done = [callback for callback, confirm in by_confirm if confirm is Confirm.CONFIRMED]
        # Failed ones first: `_put_back` needs the finals that `_remove_confirmed` deletes.
        if failed:
            self._put_back(failed)
        if done:
            self._remove_confirmed(done)
        self._pause(confirms if failed else [])

    def _put_back(self, callbacks: list[_PendingCallback]) -> None:
        with self._changed:
            for callback in reversed(callbacks):
                for report, size in zip(
                    reversed(callback.reports), reversed(callback.sizes), strict=True
                ):
                    if isinstance(report, Started) and report.run_id in self._finals:
                        self._subtract(size)
                    else:
                        self._queue.appendleft((report, size))

    def _remove_confirmed(self, callbacks: list[_PendingCallback]) -> None:
        reports = [report for callback in callbacks for report in callback.reports]
        finals = [report.run_id for report in reports if isinstance(report, Finished | NotStarted)]
        calls = [(report.run_id, report.number) for report in reports if isinstance(report, Called)]
        with self._changed:
            for callback in callbacks:
                for size in callback.sizes:
                    self._subtract(size)
            self._finals.difference_update(finals)
        if finals:
            self._on_confirmed(tuple(finals))
        if calls:
            self._on_calls_confirmed(tuple(calls))

    def _subtract(self, size: int) -> None:
        self._count -= 1
        self._bytes -= size

    def _pause(self, confirms: list[Confirm]) -> None:
        if not confirms:
            self._failures = 0
            return
        first, longest = self._backoff_seconds
        seconds = min(longest, first * 2 ** min(self._failures, 16))
        self._failures += 1
        if self._failures == 1:
            self._log.warning("callbacks_delayed", fates=sorted(set(confirms)), waiting=self._count)
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed,
                seconds * random.uniform(0.5, 1),  # noqa: S311 - spreading
            )
