"""What nearly every role of one scheduler needs, as one value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session

from scheduler.app_names import AppNames
from scheduler.counters import Counters
from scheduler.rounds.loop import WakeUp
from scheduler.timeouts import Timeouts
from sql.clock import DatabaseClock
from sql.engine import Database
from sql.ids import RunIds

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """One scheduler, as its roles share it.

    `node` is its name, the owner of what it routes. `clock` is the database's. `ids` are for the
    runs it makes. `wake` is set when the dispatcher has something to do before its pause is over.
    """

    node: str
    database: Database
    clock: DatabaseClock
    ids: RunIds
    app_names: AppNames
    counters: Counters
    timeouts: Timeouts
    wake: WakeUp

    def now_ms(self) -> int:
        """Return the database's clock in epoch milliseconds."""
        return self.clock.now_ms()

    def write_runs(self, unit: Callable[[Session], T], *, has_planned: Callable[[T], object]) -> T:
        """Commit a unit of work that may make runs, and wake the dispatcher when it did.

        Ids are reserved before, so that their counter is not locked for as long as the unit takes.
        """
        self.ids.reserve()
        written = self.database.write(unit)
        if has_planned(written):
            self.wake.set()
        return written
