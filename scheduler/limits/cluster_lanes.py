"""Whether a run of a job whose scope is the cluster may start beside its other runs. Pure.

It decides as an executor's `warren.executor.lanes.lanes` does, but about all executors. Runs
that wait stay PLANNED, in the order of their due times.
"""

from dataclasses import dataclass, field

from warren.broker.messages.values import Block
from warren.broker.reasons.codes import Reason, Why
from warren.sql.runs.run_rows import PlannedRun

#: Orders the runs of a job: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """It starts later; `is_full` says whether as many runs are at work as may be."""

    is_full: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will not run."""

    reason: Reason


def age_of(run: PlannedRun) -> Age:
    """Return the age of a run, as executors see it."""
    return run.scheduled_at, run.id


@dataclass(slots=True, kw_only=True)
class ClusterLane:
    """The runs of one job in the whole cluster, as a claim sees them.

    Attributes:
        most: how many may be at work.
        running: the ages of those that are at work.
        stopping: how many others are at work, such as those that are being killed.
        ahead: how many due runs wait before those that are still to be decided.
        claimed: the ages of the runs in the claim that are still to be decided.

    """

    block: Block
    most: int
    running: set[Age] = field(default_factory=set)
    stopping: int = 0
    ahead: int = 0
    claimed: set[Age] = field(default_factory=set)

    @property
    def queues(self) -> bool:
        """Whether its runs wait for each other, so that only the first has to be looked at."""
        return self.block is Block.SERIAL_EXECUTION

    def decide(self, run: PlannedRun) -> Wait | Refuse | None:
        """Decide about the next claimed run; None = it may start."""
        age = age_of(run)
        self.claimed.discard(age)
        at_work = len(self.running) + self.stopping
        match self.block:
            case Block.DISCARD_LATER if at_work + self.ahead >= self.most:
                return Refuse(Why.DISCARDED_IN_CLUSTER())
            case Block.COVER_EARLY if age not in self._newest(age):
                return Refuse(Why.OUTDATED_IN_CLUSTER())
            case Block.SERIAL_EXECUTION if self.ahead:
                self.ahead += 1
                return Wait(is_full=at_work >= self.most)
        # It waits unless it is sent.
        self.ahead += 1
        return Wait(is_full=True) if at_work >= self.most else None

    def send(self, run: PlannedRun) -> None:
        """Record that a run which may start was sent."""
        self.ahead -= 1
        self.running.add(age_of(run))

    def covered(self) -> list[int]:
        """Return the runs at work that newer ones in the claim take the place of."""
        if self.block is not Block.COVER_EARLY:
            return []
        newest = self._newest(*self.claimed)
        return sorted(run_id for tick, run_id in self.running if (tick, run_id) not in newest)

    def _newest(self, *candidates: Age) -> set[Age]:
        everyone = sorted({*self.running, *self.claimed, *candidates}, reverse=True)
        return set(everyone[: self.most])
