"""What the core needs of the job processes' side; `executor.slots.Slots` gives it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from broker.messages import Finished, Trigger


class SlotPool(Protocol):
    """Where job processes live. Used from the core's thread."""

    @property
    def free(self) -> int:
        """How many runs could be started now."""

    def open(self) -> tuple[str, ...]:
        """Get ready; return the names of the handlers. Raises what is wrong with them."""

    def start(self, trigger: Trigger) -> None:
        """Start a run; requires a free slot."""

    def stop(self, run_id: int, reason: str) -> bool:
        """End a run, which then finishes KILLED; False when no such run is at work."""

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """End every process; done when none is left."""


class SlotsFactory(Protocol):
    """Makes the slots of one boot."""

    def __call__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        on_started: Callable[[int, int], None],
        on_finished: Callable[[Finished], None],
        on_ready: Callable[[], None],
        script_folder: Path,
    ) -> SlotPool:
        """Return slots that are not open yet; `script_folder` is their own."""
