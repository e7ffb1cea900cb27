"""One run of this boot, from the moment it is taken until its end."""

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from warren.broker.messages.to_executor import Trigger
from warren.executor.journal.records import Starting
from warren.executor.processes.endings import Stop


class Phase(Enum):
    """How far a run has come."""

    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()


@dataclass(slots=True)
class ActiveRun:
    """A run, whose trigger has `size` bytes. `started_at_ms` is 0 while it waits."""

    trigger: Trigger
    size: int
    phase: Phase = Phase.WAITING
    started_at_ms: int = 0
    stop: Stop | None = None

    def starting(self, host_at_ms: int | None) -> Starting:
        """Return its start for the journal.

        With the host's time the run is remote, and the next process can continue it.
        """
        if host_at_ms is None:
            return Starting(run_id=self.trigger.run_id, at_ms=self.started_at_ms)
        return Starting(
            run_id=self.trigger.run_id,
            at_ms=self.started_at_ms,
            trigger=msgspec.structs.replace(self.trigger, param="", script_source=""),
            host_at_ms=host_at_ms,
        )
