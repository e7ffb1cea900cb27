"""How an executor ends: in this order, each step with its own patience.

draining told, waiting runs given back ──> running ones may end (drain) ──> the rest is
stopped (grace) ──> intake and slots closed ──> reports confirmed ──> goodbye ──> over
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Protocol

#: How often a step looks whether it is done.
LOOK_SECONDS = 0.02
#: How much longer than its grace a stopped run may take until nothing of it is left.
PROOF_SECONDS = 5.0
#: How long to wait for the broker's word on the last reports; the journal keeps the rest.
REPORT_SECONDS = 5.0


class Ending(Protocol):
    """What is ended; `executor.core.Core` is it."""

    @property
    def is_working(self) -> bool:
        """Whether a run is at work."""

    @property
    def has_unsaid(self) -> bool:
        """Whether reports wait for the broker's word."""

    @property
    def has_processes(self) -> bool:
        """Whether processes are left that were told to end."""

    def begin_draining(self) -> None:
        """Take nothing more, and give back what waits."""

    def stop_runs(self) -> None:
        """End every run that is at work."""

    def stop_taking(self) -> None:
        """Let go of the run queue and of the job processes."""

    def close(self) -> None:
        """Say goodbye and let go of everything."""


class Shutdown:
    """Walks through the steps on the core's loop, then calls `on_over`."""

    def __init__(
        self,
        ending: Ending,
        loop: asyncio.AbstractEventLoop,
        *,
        drain_seconds: float,
        grace_seconds: float,
        on_over: Callable[[], None],
    ) -> None:
        self._ending = ending
        self._loop = loop
        self._drain_seconds = drain_seconds
        self._grace_seconds = grace_seconds
        self._on_over = on_over
        self._steps: Iterator[bool] | None = None
        self._is_hurried = False
        #: Until when running jobs may go on, None = for as long as they take.
        self._drain_until: float | None = None

    def begin_patiently(self) -> None:
        """Start to end, with all the time that running jobs need, until `begin` is called too."""
        self._start()

    def begin(self, *, hurry: bool) -> None:
        """Start to end; a second call with `hurry` stops waiting for running jobs."""
        self._is_hurried = self._is_hurried or hurry
        if self._drain_until is None:
            self._drain_until = self._loop.time() + self._drain_seconds
        self._start()

    def _start(self) -> None:
        if self._steps is None:
            self._steps = self._walk()
            self._advance()

    def _advance(self) -> None:
        if self._steps is not None and next(self._steps, False):
            self._loop.call_later(LOOK_SECONDS, self._advance)
        else:
            self._on_over()

    def _walk(self) -> Iterator[bool]:
        ending = self._ending
        ending.begin_draining()
        yield from self._wait(lambda: ending.is_working and not self._is_over_time)
        ending.stop_runs()
        yield from self._wait(lambda: ending.is_working, self._grace_seconds + PROOF_SECONDS)
        ending.stop_taking()
        yield from self._wait(lambda: ending.has_processes, self._grace_seconds + PROOF_SECONDS)
        yield from self._wait(lambda: ending.has_unsaid, REPORT_SECONDS)
        ending.close()

    @property
    def _is_over_time(self) -> bool:
        is_late = self._drain_until is not None and self._loop.time() >= self._drain_until
        return self._is_hurried or is_late

    def _wait(self, is_busy: Callable[[], bool], seconds: float = math.inf) -> Iterator[bool]:
        deadline = self._loop.time() + seconds
        while is_busy() and self._loop.time() < deadline:
            yield True
        # What the other threads have told by now is heard before the next step.
        yield True
