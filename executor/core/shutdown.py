"""Shuts an executor down in this order, each step with its own timeout.

draining announced, waiting runs returned ──> running ones may end (drain) ──> the rest is
stopped (grace) ──> triggers that have arrived are returned ──> intake and slots closed
──> reports confirmed ──> goodbye ──> done
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Protocol

from warren.executor.boot_context import Limits

#: How often a step checks whether it is done.
POLL_SECONDS = 0.02


class ShutdownTarget(Protocol):
    """What can be shut down; `warren.executor.core.core.Core` implements it."""

    @property
    def is_working(self) -> bool:
        """Whether a run is running."""

    @property
    def has_untaken(self) -> bool:
        """Whether triggers may have been delivered that nobody has looked at."""

    @property
    def has_unconfirmed(self) -> bool:
        """Whether reports wait for the broker's confirm."""

    @property
    def has_processes(self) -> bool:
        """Whether processes are left that were told to exit."""

    def begin_draining(self) -> None:
        """Take no more runs, and return those that wait."""

    def stop_runs(self) -> None:
        """End every running run."""

    def finish_taking(self) -> None:
        """Have no more triggers delivered, and return those that have been."""

    def stop_taking(self) -> None:
        """Leave the run queue and end the job processes."""

    def close(self) -> None:
        """Say goodbye and close everything."""


class Shutdown:
    """Runs the steps on the core's loop, then calls `on_over`."""

    def __init__(
        self,
        target: ShutdownTarget,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        *,
        on_over: Callable[[], None],
    ) -> None:
        self._target = target
        self._loop = loop
        self._limits = limits
        self._on_over = on_over
        #: How long stopped runs, and their processes, may take until nothing of them is left.
        self._stop_seconds = limits.grace_seconds + limits.proof_seconds
        self._steps: Iterator[bool] | None = None
        self._is_hurried = False
        #: Until when running jobs may go on; None: as long as they take.
        self._drain_until: float | None = None

    def begin_drain(self) -> None:
        """Shut down, but give running jobs all the time they need unless `begin` is called."""
        self._start()

    def begin(self, *, hurry: bool) -> None:
        """Shut down; a second call with `hurry` stops waiting for running jobs."""
        self._is_hurried = self._is_hurried or hurry
        if self._drain_until is None:
            self._drain_until = self._loop.time() + self._limits.drain_seconds
        self._start()

    def _start(self) -> None:
        if self._steps is None:
            self._steps = self._walk()
            self._advance()

    def _advance(self) -> None:
        if self._steps is not None and next(self._steps, False):
            self._loop.call_later(POLL_SECONDS, self._advance)
        else:
            self._on_over()

    def _walk(self) -> Iterator[bool]:
        target = self._target
        target.begin_draining()
        yield from self._wait(lambda: target.is_working and not self._is_over_time)
        target.stop_runs()
        yield from self._wait(lambda: target.is_working, self._stop_seconds)
        target.finish_taking()
        yield from self._wait(lambda: target.has_untaken, self._limits.report_seconds)
        target.stop_taking()
        yield from self._wait(lambda: target.has_processes, self._stop_seconds)
        yield from self._wait(lambda: target.has_unconfirmed, self._limits.report_seconds)
        target.close()

    @property
    def _is_over_time(self) -> bool:
        is_late = self._drain_until is not None and self._loop.time() >= self._drain_until
        return self._is_hurried or is_late

    def _wait(self, is_busy: Callable[[], bool], seconds: float = math.inf) -> Iterator[bool]:
        deadline = self._loop.time() + seconds
        while is_busy() and self._loop.time() < deadline:
            yield True
        # Events that other threads have posted by now are handled before the next step.
        yield True
