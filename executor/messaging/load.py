"""Measures how busy the host is."""

import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

#: How long a sample is valid; shorter intervals would measure noise.
SAMPLE_SECONDS = 1.0


class LoadMeter:
    """The host's CPU and memory usage in per cent. Thread-safe.

    CPU usage is measured between two samples at least SAMPLE_SECONDS apart; the first is 0. What
    cannot be measured, as no descriptor is free to read it, stays as it was.
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
    return _bounded(psutil.virtual_memory().percent)


def _bounded(percent: float) -> float:
    """Return a percentage as schedulers accept it, whatever a container's figures say."""
    return min(100.0, max(0.0, percent))


def _cpu_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()
    # The kernel counts guest time as user time as well.
    whole = sum(times) - times.guest - times.guest_nice
    return whole - times.idle - times.iowait, whole
