"""Reports on their way to the schedulers, in order, until the broker has confirmed them.

It holds them in memory; what must survive this process is in the ledger already. Its bound is
the intake's: while `is_full`, no new run is taken or started, so that at most the slots' own
results come on top.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from broker.messages import Callback, Report, Started
from broker.transport import Confirm
from executor.sender import Sender

#: Reports and bytes in one callback.
MESSAGE_REPORTS = 100
MESSAGE_BYTES = 512_000
#: Callbacks published in one go.
WINDOW_MESSAGES = 8
#: Reports and bytes from which on the outbox counts as full.
FULL_REPORTS = 20_000
FULL_BYTES = 64_000_000
#: Shortest time between two publications, so that a busy executor sends a few long callbacks
#: instead of many short ones, which cost both ends and the broker more than half of what a run
#: costs there. A report after a pause goes at once.
GATHER_SECONDS = 0.02
#: How long a callback is good for: longer than any outage that somebody comes back from.
VALID_SECONDS = 30 * 86_400.0
#: How long to wait for the broker's word before a callback is sent again.
CONFIRM_SECONDS = 10.0
#: First and longest pause after a failure; each is twice the last, less up to half by chance.
BACKOFF_SECONDS = (0.1, 2.0)
#: How long to wait for the thread to end: at worst it waits for the broker's word.
JOIN_SECONDS = 1.0


@dataclass(slots=True)
class _Parcel:
    reports: list[Report] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class Outbox:
    """A thread that publishes callbacks; `on_confirmed` is told, in it, which runs are through.

    A Started is never sent again once the run's final report is in the outbox, so that the order
    within a run is kept even when a callback in the middle has to be repeated.
    """

    def __init__(
        self,
        sender: Sender,
        on_confirmed: Callable[[tuple[int, ...]], None],
        log: structlog.typing.FilteringBoundLogger,
        *,
        backoff_seconds: tuple[float, float] = BACKOFF_SECONDS,
    ) -> None:
        self._sender = sender
        self._on_confirmed = on_confirmed
        self._log = log
        self._backoff_seconds = backoff_seconds
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
        """Whether so much waits here that no more runs may be taken."""
        return self._count >= FULL_REPORTS or self._bytes >= FULL_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether everything added has been confirmed."""
        return not self._count

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def add(self, report: Report, size: int) -> None:
        """Send a report of about `size` bytes; a final one that waits here stays as it is."""
        with self._changed:
            if not isinstance(report, Started):
                if report.run_id in self._finals:
                    return
                self._finals.add(report.run_id)
            self._queue.append((report, size))
            self._count += 1
            self._bytes += size
            if len(self._queue) == 1:  # else the thread knows already
                self._changed.notify()

    def close(self) -> None:
        """Stop; what is not confirmed is sent by the next boot."""
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
                parcels = self._pack()
            not_before = time.monotonic() + GATHER_SECONDS
            try:
                fates = self._publish(parcels)
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("callbacks_publish_failed", count=len(parcels))
                fates = [Confirm.UNKNOWN] * len(parcels)
            self._settle(parcels, fates)

    def _pack(self) -> list[_Parcel]:
        parcels: list[_Parcel] = []
        room = 0
        while self._queue:
            report, size = self._queue[0]
            if not parcels or size > room or len(parcels[-1].reports) >= MESSAGE_REPORTS:
                if len(parcels) == WINDOW_MESSAGES:
                    break
                parcels.append(_Parcel())
                room = MESSAGE_BYTES
            self._queue.popleft()
            parcels[-1].reports.append(report)
            parcels[-1].sizes.append(size)
            room -= size
        return parcels

    def _publish(self, parcels: list[_Parcel]) -> list[Confirm]:
        who = self._sender.identity
        messages = [
            self._sender.seal(
                Callback(
                    app=who.app,
                    address=who.address,
                    boot_id=who.boot_id,
                    reports=tuple(parcel.reports),
                ),
                valid_seconds=VALID_SECONDS,
                durable=True,
            )
            for parcel in parcels
        ]
        return self._sender.publisher.publish(messages).wait(CONFIRM_SECONDS)

    def _settle(self, parcels: list[_Parcel], fates: list[Confirm]) -> None:
        by_fate = list(zip(parcels, fates, strict=True))
        failed = [parcel for parcel, fate in by_fate if fate is not Confirm.CONFIRMED]
        done = [parcel for parcel, fate in by_fate if fate is Confirm.CONFIRMED]
        # The failed ones first: they look at finals that may be among the confirmed.
        if failed:
            self._put_back(failed)
        if done:
            self._strike_off(done)
        self._pause(fates if failed else [])

    def _put_back(self, parcels: list[_Parcel]) -> None:
        with self._changed:
            for parcel in reversed(parcels):
                for report, size in zip(
                    reversed(parcel.reports), reversed(parcel.sizes), strict=True
                ):
                    if isinstance(report, Started) and report.run_id in self._finals:
                        self._subtract(size)
                    else:
                        self._queue.appendleft((report, size))

    def _strike_off(self, parcels: list[_Parcel]) -> None:
        finals: list[int] = []
        with self._changed:
            for parcel in parcels:
                for report, size in zip(parcel.reports, parcel.sizes, strict=True):
                    self._subtract(size)
                    if not isinstance(report, Started):
                        finals.append(report.run_id)
            self._finals.difference_update(finals)
        if finals:
            self._on_confirmed(tuple(finals))

    def _subtract(self, size: int) -> None:
        self._count -= 1
        self._bytes -= size

    def _pause(self, fates: list[Confirm]) -> None:
        if not fates:
            self._failures = 0
            return
        first, longest = self._backoff_seconds
        seconds = min(longest, first * 2 ** min(self._failures, 16))
        self._failures += 1
        if self._failures == 1:
            self._log.warning("callbacks_delayed", fates=sorted(set(fates)), waiting=self._count)
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed,
                seconds * random.uniform(0.5, 1),  # noqa: S311 - spreading
            )
