"""What long-running commands have in common: signals, failed threads, systemd, the broker."""

import gc
import os
import select
import signal
import socket
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Protocol, Self

import structlog

from warren.broker.transport import BrokerSettings, Transport
from warren.settings.settings import Settings

_ASKED_TO_END = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.25

log = structlog.get_logger()


class Signals:
    """SIGTERM and Ctrl-C, counted: the first asks for a clean shutdown, the second hurries it.

    Created and used in the main thread. Uses a pipe instead of an event, because a handler may
    interrupt code that holds the event's lock.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def __enter__(self) -> Self:
        self._before = {
            number: signal.signal(number, self._count_signal) for number in _ASKED_TO_END
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> bool:
        """Wait for the next signal up to `seconds`; return whether any has arrived so far."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 1)
        return self.count > 0

    def _count_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):  # the pipe is full, so the reader wakes anyway
            os.write(self._writer, b".")


class Stoppable(Protocol):
    """A process that runs until it ends by itself or is stopped."""

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return whether it has ended."""

    def stop(self, *, hurry: bool) -> None:
        """Begin to stop; with `hurry`, do not wait for running jobs."""


def serve(process: Stoppable, signals: Signals) -> None:
    """Wait until a process ends; stop it on the first signal, and hurry it on the second."""
    handled = 0
    while not process.join(0):
        signals.wait(_POLL_SECONDS)
        if signals.count > handled:
            handled = signals.count
            process.stop(hurry=handled > 1)


def log_thread_failures() -> None:
    """Log uncaught exceptions of threads instead of printing them."""

    def report(failure: threading.ExceptHookArgs) -> None:
        error: tuple[type[BaseException], BaseException | None, TracebackType | None] = (
            failure.exc_type,
            failure.exc_value,
            failure.exc_traceback,
        )
        name = failure.thread.name if failure.thread else ""
        log.error("thread_failed", thread=name, exc_info=error)

    threading.excepthook = report


def exempt_loaded() -> None:
    """Exempt from garbage collection what the process has loaded, which stays until its end.

    Otherwise each full collection would visit all of it, and hold up all threads for over 0.1 s.
    """
    gc.collect()
    gc.freeze()


_READY, _ALIVE = b"READY=1", b"WATCHDOG=1"


class ServiceManager:
    """Notifies systemd by sd_notify(3); does nothing without an address. Any thread may use it.

    `address` is a path, or `@` and an abstract name.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    @classmethod
    def from_environment(cls) -> Self:
        """Return the one in NOTIFY_SOCKET, which systemd sets for its services."""
        return cls(os.environ.get("NOTIFY_SOCKET", ""))

    def ready(self) -> None:
        """Notify that the process has started."""
        self._notify(_READY)

    def beat(self) -> None:
        """Notify that it works; call this at least twice in the unit's `WatchdogSec`."""
        self._notify(_ALIVE)

    def _notify(self, state: bytes) -> None:
        if not self._address:
            return
        # A full or missing socket is no reason to end: if it stays so, the watchdog decides.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(state, self._address)


def connect_broker(settings: Settings) -> Transport:
    """Return a transport for the RabbitMQ of the settings; it is not connected yet."""
    # Imported here because `warren up` needs neither pika nor its 10 MB.
    from warren.broker.rabbitmq.transport import connect  # noqa: PLC0415

    return connect(broker_settings(settings))


def broker_settings(settings: Settings) -> BrokerSettings:
    """Return where RabbitMQ is, by the settings."""
    return BrokerSettings(
        urls=tuple(each.strip() for each in (settings.broker_url or "").split(","))
    )
