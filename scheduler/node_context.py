"""What nearly all roles of a scheduler need, as one value."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.orm import Session

from warren.scheduler.app_names import AppNames
from warren.scheduler.claim_limits import ClaimLimits
from warren.scheduler.counters import Counters
from warren.scheduler.metrics.run_counts import RunMetrics
from warren.scheduler.rounds.loop import WakeUp
from warren.scheduler.timeouts import Timeouts
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the roles of one scheduler share.

    Attributes:
        node: the scheduler's name, stored as the owner of the runs that it routes.
        database: where jobs and runs are stored.
        clock: the database's clock.
        monotonic: this process's clock of elapsed time, in seconds.
        ids: reserved ids for new runs.
        app_names: names and ids of apps.
        counters: counts events; they are logged when the scheduler stops.
        timeouts: how long to wait for others.
        limits: how much one claim may contain.
        wake_dispatcher: set to end the dispatcher's wait early.
        metrics: counts ended runs for Prometheus.
        has_old_runs: set when runs may be sent that are long due, further back than it looks.

    """

    node: str
    database: Database
    clock: DatabaseClock
    monotonic: Callable[[], float]
    ids: RunIds
    app_names: AppNames
    counters: Counters
    timeouts: Timeouts
    limits: ClaimLimits
    wake_dispatcher: WakeUp
    metrics: RunMetrics = field(default_factory=RunMetrics)
    has_old_runs: threading.Event = field(default_factory=threading.Event)

    def now_ms(self) -> int:
        """Return the time of the database's clock in epoch milliseconds."""
        return self.clock.now_ms()

    def write_runs(self, unit: Callable[[Session], T], *, has_planned: Callable[[T], object]) -> T:
        """Commit a unit of work that may plan runs, and wake the dispatcher if it did.

        Ids are reserved first, so that the transaction does not lock their counter.
        """
        self.ids.reserve()
        written = self.database.write(unit)
        if has_planned(written):
            self.wake_dispatcher.set()
        return written

    def wake_for_old_runs(self) -> None:
        """Have the dispatcher look for runs that are long due, at once."""
        self.has_old_runs.set()
        self.wake_dispatcher.set()
