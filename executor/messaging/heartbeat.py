"""Sends heartbeats, on a thread and a connection of their own, so that nothing delays them.

They carry how busy the host is, which is measured here. Their answers carry the scheduler's clock,
which is kept here too.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import structlog

from warren.broker.messages import Heartbeat, boot_seconds
from warren.broker.topology import HEARTBEAT_KEY
from warren.broker.transport import Confirm
from warren.executor.container import memory_percent, own_cgroup
from warren.executor.messaging.outbox import Sender

#: How long a sample is valid; shorter intervals would measure noise.
SAMPLE_SECONDS = 1.0


class SchedulerClock:
    """Epoch milliseconds: by the host's clock until `learn`, then by the scheduler's.

    `monotonic` returns seconds that never jump, `wall` the host's epoch seconds. Thread-safe.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = boot_seconds,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.monotonic = monotonic
        self._wall = wall
        self._offset_ms = wall() * 1000 - monotonic() * 1000
        self._began_at_ms = self.steady_ms()

    def now_ms(self) -> int:
        """Return the epoch in milliseconds."""
        return round(self.monotonic() * 1000 + self._offset_ms)

    def host_ms(self) -> int:
        """Return the host's epoch milliseconds, whatever was learned."""
        return round(self._wall() * 1000)

    def behind_host_seconds(self) -> float:
        """Return by how many seconds the time is behind the host's; 0 if it is not."""
        return max(0, self.host_ms() - self.now_ms()) / 1000

    def steady_ms(self) -> int:
        """Return milliseconds that never jump, counted from some moment in the past."""
        return int(self.monotonic() * 1000)

    def learn(self, now_ms: int, *, asked_at_ms: int) -> bool:
        """Take the scheduler's time, which answers a question asked at `asked_at_ms`, steady.

        The scheduler's clock showed `now_ms` at some moment since the question. Our clock moves
        only as far as it must to be consistent with that, so a late answer does no harm. Returns
        False and ignores the answer if this process did not ask at that time.
        """
        steady_ms = self.steady_ms()
        if not self._began_at_ms <= asked_at_ms <= steady_ms:
            return False
        latest_ms = now_ms + steady_ms - asked_at_ms
        own_ms = self.now_ms()
        self._offset_ms += min(max(own_ms, now_ms), latest_ms) - own_ms
        return True


class LoadMeter:
    """The host's CPU and memory usage in per cent, or its container's of memory. Thread-safe.

    CPU usage is measured between two samples at least SAMPLE_SECONDS apart; the first is 0. While
    no descriptor is free to read a value, the last one stays.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sampled_at = monotonic()
        self._busy_seconds, self._all_seconds = _cpu_seconds()
        self._percent = 0.0, _memory_percent()

    def read(self) -> tuple[float, float]:
        """Return (CPU, memory) usage in per cent."""
        with self._lock:
            now = self._monotonic()
            if now - self._sampled_at >= SAMPLE_SECONDS:
                self._sampled_at = now
                with suppress(OSError):
                    self._percent = self._cpu_percent(), _memory_percent()
            return self._percent

    def _cpu_percent(self) -> float:
        busy, whole = _cpu_seconds()
        busy_since, all_since = busy - self._busy_seconds, whole - self._all_seconds
        self._busy_seconds, self._all_seconds = busy, whole
        if all_since <= 0:
            return self._percent[0]
        return round(_bounded(100 * busy_since / all_since), 1)


def _memory_percent() -> float:
    """Return the higher usage of the host's memory and of what this process may use of it."""
    own = memory_percent(own_cgroup())
    return round(_bounded(max(psutil.virtual_memory().percent, own or 0.0)), 1)


def _bounded(percent: float) -> float:
    """Clamp a percentage to what schedulers accept; a container's figures may be out of range."""
    return min(100.0, max(0.0, percent))


def _cpu_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()
    # The kernel counts guest time as user time as well.
    whole = sum(times) - times.guest - times.guest_nice
    return whole - times.idle - times.iowait, whole


#: Between two heartbeats: normally, and while the executor is not welcomed or gets no answer.
BEAT_SECONDS = 5.0
UNANSWERED_BEAT_SECONDS = 1.0
#: How long to wait for the broker's confirm.
CONFIRM_SECONDS = 5.0
#: How long a heartbeat is valid. Without a recent welcome the clocks may differ: at the start, or
#: after the database's clock has jumped. If the host's has jumped ahead too, as that of a virtual
#: machine that was suspended, it is valid by the host's clock.
VALID_SECONDS = 60.0
UNWELCOMED_VALID_SECONDS = 86_400.0
#: A welcome is recent for this many beats: the next heartbeat but one must not come too late.
RECENT_BEATS = 1.5
#: How long to wait for the thread to end: it may be waiting for the broker's confirm.
JOIN_SECONDS = 1.0


class HeartbeatThread:
    """The thread that sends heartbeats; `compose` returns the current one.

    `on_answered(sent_at)` is called from the thread with the monotonic time of each heartbeat that
    the broker confirmed or returned: both prove that it answers.
    """

    def __init__(
        self,
        sender: Sender,
        compose: Callable[[], Heartbeat],
        on_answered: Callable[[float], None],
        clock: SchedulerClock,
        log: structlog.typing.FilteringBoundLogger,
        *,
        beat_seconds: float = BEAT_SECONDS,
        unanswered_beat_seconds: float = UNANSWERED_BEAT_SECONDS,
    ) -> None:
        self._sender = sender
        self._compose = compose
        self._on_answered = on_answered
        self._clock = clock
        self._log = log
        self._beat_seconds = beat_seconds
        self._unanswered_beat_seconds = unanswered_beat_seconds
        self._wake = threading.Event()
        self._is_closed = False
        self._welcomed_at: float | None = None
        name = f"heartbeat {sender.identity.address}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start sending heartbeats, the first one now."""
        self._thread.start()

    def welcome(self) -> None:
        """Note that a scheduler has answered; beat at the normal interval from then on."""
        self._welcomed_at = self._clock.monotonic()

    def beat_now(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Stop, and close the connection; no heartbeat is sent after this returns."""
        self._is_closed = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)
        self._sender.publisher.close()

    def _run(self) -> None:
        while True:
            # In this order: a close after this check sets the event, so the wait below returns.
            self._wake.clear()
            if self._is_closed:
                return
            try:
                was_heard = self._beat()
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("heartbeat_failed")
                was_heard = False
            calm = was_heard and self._welcomed_at is not None
            self._wake.wait(self._beat_seconds if calm else self._unanswered_beat_seconds)

    def _beat(self) -> bool:
        sent_at = self._clock.monotonic()
        batch = self._sender.send(
            self._compose(),
            key=HEARTBEAT_KEY,
            valid_seconds=self._valid_seconds(sent_at),
        )
        was_heard = batch.wait(CONFIRM_SECONDS)[0] is not Confirm.UNKNOWN
        if was_heard:
            self._on_answered(sent_at)
        return was_heard

    def _valid_seconds(self, now: float) -> float:
        welcomed_at = self._welcomed_at
        if welcomed_at is None or now - welcomed_at > RECENT_BEATS * self._beat_seconds:
            return UNWELCOMED_VALID_SECONDS + self._clock.behind_host_seconds()
        return VALID_SECONDS
