"""Computes how much room limits have, and how much the runs of one claim take.

Pure: no I/O, no clock.

It decides as an executor's `warren.executor.lanes.lanes` does, but about all executors. Runs
that wait stay PLANNED, in the order of their due times.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from warren.broker.messages import Block
from warren.broker.reasons import Reason, Why, Words
from warren.sql.limits.holds import Bucket, LimitRow, NewHold
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.waiting import Waiting

#: Orders the runs of a job: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """It starts later; `is_full`: the maximum number of runs is running."""

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
        most: how many may run at once.
        running: the ages of those that are running.
        stopping: how many others are running, such as those being killed.
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

    @property
    def newest(self) -> Age:
        """The newest run that is running or still to be decided."""
        return max(self.running | self.claimed)

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
        """Return the running runs that newer ones in the claim replace."""
        if self.block is not Block.COVER_EARLY:
            return []
        newest = self._newest(*self.claimed)
        return sorted(run_id for tick, run_id in self.running if (tick, run_id) not in newest)

    def _newest(self, *candidates: Age) -> set[Age]:
        everyone = sorted({*self.running, *self.claimed, *candidates}, reverse=True)
        return set(everyone[: self.most])


@dataclass(frozen=True, slots=True)
class FullLimit:
    """A limit without room for a run that takes `weight`; `ready_ms` is when its bucket has it."""

    limit_id: int
    weight: int
    ready_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NeverFits:
    """A run that takes more than its limit can ever allow, or whose limit was deleted."""

    why: Words


@dataclass(frozen=True, slots=True)
class LimitNeed:
    """What each run of a job takes; `limit_id` None = there is no limit of this name."""

    name: str
    limit_id: int | None
    weight: int


@dataclass(slots=True)
class LimitState:
    """A limit at an instant: how much of it is held, and how many tokens its bucket has.

    `at_once` and `rate` are None if it has no such limit.
    """

    at_once: int | None
    held: int
    rate: int | None = None
    per_ms: int = 0
    tokens: float = 0.0
    has_changed: bool = False

    @classmethod
    def at(
        cls, row: LimitRow, held: int, now_ms: int, *, at_once: int | None = None
    ) -> "LimitState":
        """Return a limit now; `at_once` is that of a job's own."""
        tokens, per_ms = 0.0, row.per_ms or 0
        if row.rate is not None and per_ms:
            since_ms = now_ms if row.refilled_at is None else row.refilled_at
            tokens = float(row.rate if row.tokens is None else row.tokens)
            tokens = min(row.rate, tokens + max(0, now_ms - since_ms) * row.rate / per_ms)
        return cls(
            at_once=row.at_once if at_once is None else at_once,
            held=held,
            rate=row.rate if per_ms else None,
            per_ms=per_ms,
            tokens=tokens,
        )

    @property
    def most(self) -> int | None:
        """The most that one run, or one broadcast, can ever take; None = any number."""
        most = [value for value in (self.at_once, self.rate) if value is not None]
        return min(most) if most else None

    @property
    def room(self) -> int | None:
        """How much can be taken now; None = any number."""
        room = [] if self.at_once is None else [self.at_once - self.held]
        if self.rate is not None:
            room.append(int(self.tokens))
        return max(0, min(room)) if room else None

    @property
    def is_half_free(self) -> bool:
        """Whether half of what may be held at once is free."""
        return self.at_once is not None and 2 * self.held <= self.at_once

    def has_room(self, weight: int) -> bool:
        """Whether this much can be taken now."""
        return self.room is None or weight <= self.room

    def ready_ms(self, weight: int, now_ms: int) -> int | None:
        """Return when the bucket has enough, if only the bucket lacks room; else None."""
        if self.at_once is not None and weight > self.at_once - self.held:
            return None
        if self.rate is None:
            return None
        return now_ms + ceil(max(0.0, weight - self.tokens) * self.per_ms / self.rate)

    def take(self, weight: int) -> None:
        """Record that a run takes this much."""
        if self.at_once is not None:
            self.held += weight
        if self.rate is not None:
            self.tokens -= weight
            self.has_changed = True


@dataclass(slots=True, kw_only=True)
class LimitRoom:
    """The limits that a claim has locked, by id, and what each of its jobs takes of them.

    `lanes` are those of the jobs whose scope is the cluster. `waiting` has the waiting runs of jobs
    that limit how many may wait.
    """

    now_ms: int = 0
    limits: Mapping[int, LimitState] = field(default_factory=dict)
    needs: Mapping[int, tuple[LimitNeed, ...]] = field(default_factory=dict)
    lanes: Mapping[int, ClusterLane] = field(default_factory=dict)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)

    def obstacle(self, job_id: int, runs: int = 1) -> FullLimit | NeverFits | None:
        """Return why this many runs of a job cannot start together now; None if they can."""
        for need in self.needs.get(job_id, ()):
            if need.limit_id is None:
                return NeverFits(Why.LIMIT_GONE(name=need.name))
            limit, weight = self.limits[need.limit_id], need.weight * runs
            if limit.most is not None and weight > limit.most:
                return NeverFits(Why.NEVER_FITS(name=need.name, n=weight, most=limit.most))
            if not limit.has_room(weight):
                return FullLimit(need.limit_id, weight, limit.ready_ms(weight, self.now_ms))
        return None

    def take(self, job_id: int) -> None:
        """Record that a run of a job is sent."""
        for need in self.needs.get(job_id, ()):
            if need.limit_id is not None:
                self.limits[need.limit_id].take(need.weight)

    def count(self, job_id: int) -> int | None:
        """Return how many limits a run of a job holds until it ends; None = none."""
        return len(self._held_by(job_id)) or None

    def holds(self, runs: Iterable[tuple[int, int]]) -> list[NewHold]:
        """Return what these runs hold; each is a job and the run's id."""
        return [
            NewHold(need.limit_id, run_id, need.weight)
            for job_id, run_id in runs
            for need in self._held_by(job_id)
            if need.limit_id is not None
        ]

    def buckets(self) -> list[Bucket]:
        """Return the buckets from which tokens were taken."""
        return [
            Bucket(limit_id, limit.tokens, self.now_ms)
            for limit_id, limit in sorted(self.limits.items())
            if limit.has_changed
        ]

    def _held_by(self, job_id: int) -> list[LimitNeed]:
        return [
            need
            for need in self.needs.get(job_id, ())
            if need.limit_id is not None and self.limits[need.limit_id].at_once is not None
        ]
