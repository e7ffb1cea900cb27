"""One lane per job: its running and waiting runs, and which run is next when a slot is free.

Lanes that could start a run are queued and served in turn, one run each, so that a job with a
thousand waiting runs delays every other job by one run at most. Those of a higher priority go
first, and `warren.broker.turns` keeps the others from starving.
"""

import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain

from warren.broker.messages import LOW, Block, Trigger
from warren.broker.reasons import Reason, Why
from warren.broker.turns import CLASSES, Turns

#: Orders the runs of a job: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Start:
    """No other run of its job blocks it: it starts as soon as a slot is free."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It starts when another run of its job has ended."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will not run."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room for it; it is returned, to be sent again later."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Cover:
    """It starts when earlier runs are gone: `kill` those that run, `drop` those that wait."""

    kill: tuple[int, ...]
    drop: tuple[int, ...]


Decision = Start | Wait | Refuse | Full | Cover
_START = Start()
_WAIT = Wait()


@dataclass(frozen=True, slots=True)
class LaneState:
    """The runs of one job by age: running, running but being stopped, and waiting."""

    running: Collection[Age]
    stopping: Collection[Age]
    waiting: Collection[Age]


def age_of(trigger: Trigger) -> Age:
    """Return the age of a run, which orders it among the runs of its job."""
    return trigger.scheduled_at_ms, trigger.run_id


def decide(
    block: Block, concurrency: int, lane: LaneState, age: Age, *, lane_limit: int
) -> Decision:
    """Decide what happens to a run of this age that arrives at this lane.

    `concurrency` counts as at least 1. A COVER_EARLY job keeps its newest `concurrency` runs.
    `lane_limit` runs may wait.
    """
    most = max(1, concurrency)
    at_work = len(lane.running) + len(lane.stopping)
    if at_work + len(lane.waiting) < most:
        return _START
    match block:
        case Block.SERIAL_EXECUTION:
            return _serial(lane, lane_limit)
        case Block.DISCARD_LATER:
            return Refuse(Why.DISCARDED())
        case Block.COVER_EARLY:
            return _cover(most, lane, age)


def _serial(lane: LaneState, limit: int) -> Decision:
    if len(lane.waiting) >= limit:
        return Full(Why.LANE_FULL(n=limit))
    return _WAIT


def _cover(most: int, lane: LaneState, age: Age) -> Decision:
    newest_first = sorted((*lane.running, *lane.waiting, age), reverse=True)
    stay = set(newest_first[:most])
    if age not in stay:
        return Refuse(Why.OUTDATED())
    return Cover(
        kill=tuple(run_id for tick, run_id in lane.running if (tick, run_id) not in stay),
        drop=tuple(run_id for tick, run_id in lane.waiting if (tick, run_id) not in stay),
    )


@dataclass(slots=True)
class _Lane:
    job_id: int
    running: dict[int, Age] = field(default_factory=dict)
    stopping: dict[int, Age] = field(default_factory=dict)
    waiting: dict[int, Trigger] = field(default_factory=dict)
    # The ages of those in `waiting`, sorted.
    order: list[Age] = field(default_factory=list)
    is_queued: bool = False
    # The waiting run that was assigned early to a process of several jobs.
    assigned_early: int | None = None

    def state(self) -> LaneState:
        return LaneState(self.running.values(), self.stopping.values(), self.order)

    def add(self, trigger: Trigger) -> None:
        self.waiting[trigger.run_id] = trigger
        bisect.insort(self.order, age_of(trigger))

    def remove(self, run_id: int) -> Age:
        """Remove a waiting run; return its age."""
        age = age_of(self.waiting.pop(run_id))
        del self.order[bisect.bisect_left(self.order, age)]
        if self.assigned_early == run_id:
            self.assigned_early = None
        return age

    def ready(self) -> Trigger | None:
        """Return the oldest waiting run if it may start beside those that run."""
        if not self.order or self.assigned_early is not None:
            return None
        head = self.waiting[self.order[0][1]]
        at_work = len(self.running) + len(self.stopping)
        return head if at_work < max(1, head.concurrency) else None


class Lanes:
    """All lanes of an executor; in each, up to `lane_limit` runs wait. Used from one thread."""

    def __init__(self, lane_limit: int) -> None:
        self._lane_limit = lane_limit
        self._lanes: dict[int, _Lane] = {}
        # By class of priority.
        self._ready_lanes: tuple[deque[_Lane], ...] = tuple(deque() for _ in CLASSES)
        self._turns = Turns()
        self._waiting_count = 0

    @property
    def waiting_count(self) -> int:
        """How many runs wait in all lanes."""
        return self._waiting_count

    def has(self, job_id: int) -> bool:
        """Whether a run of the job is running or waiting here."""
        return job_id in self._lanes

    def offer(self, trigger: Trigger) -> Decision:
        """Decide about a run and, unless it is refused or returned, add it to its lane."""
        lane = self._lanes.get(trigger.job_id) or _Lane(trigger.job_id)
        age = age_of(trigger)
        decision = decide(
            trigger.block, trigger.concurrency, lane.state(), age, lane_limit=self._lane_limit
        )
        if not isinstance(decision, Refuse | Full):
            self._lanes[trigger.job_id] = lane
            lane.add(trigger)
            self._waiting_count += 1
            self._enqueue(lane)
        return decision

    def resume(self, trigger: Trigger) -> None:
        """Add a run that is running already."""
        lane = self._lanes.setdefault(trigger.job_id, _Lane(trigger.job_id))
        lane.running[trigger.run_id] = age_of(trigger)

    def next(self) -> Trigger | None:
        """Return the next run, which now counts as running; None if none may start."""
        while (rank := self._turns.next(self._ready_lanes)) is not None:
            lane = self._ready_lanes[rank].popleft()
            lane.is_queued = False
            trigger = lane.ready()
            if trigger is not None:
                lane.running[trigger.run_id] = lane.remove(trigger.run_id)
                self._waiting_count -= 1
                self._enqueue(lane)
                return trigger
        return None

    def upcoming(self, depth: int) -> Iterator[int]:
        """Yield the runs that will probably be next, up to `depth` of each lane."""
        for lane in chain(*self._ready_lanes, self._lanes.values()):
            for _, run_id in lane.order[:depth]:
                yield run_id

    def following(self, job_id: int, most: int) -> Iterator[Trigger]:
        """Yield the oldest waiting runs of a job, which come next."""
        lane = self._lanes[job_id]
        for _, run_id in lane.order[:most]:
            yield lane.waiting[run_id]

    def assign_early(self, most: int, fits: Callable[[Trigger], bool]) -> Iterator[Trigger]:
        """Yield up to `most` runs that are next, each of another job, while they fit.

        They still wait, but no other run of their jobs starts until they run or are handed back.
        """
        while most and (rank := self._turns.first(self._ready_lanes)) is not None:
            lane = self._ready_lanes[rank][0]
            trigger = lane.ready()
            if trigger is not None and not fits(trigger):
                return
            self._turns.next(self._ready_lanes)
            self._ready_lanes[rank].popleft()
            lane.is_queued = False
            if trigger is not None:
                lane.assigned_early = trigger.run_id
                most -= 1
                yield trigger

    def hand_back(self, trigger: Trigger) -> None:
        """Record that a run assigned early has not begun; it is next again."""
        lane = self._lanes.get(trigger.job_id)
        if lane is not None and lane.assigned_early == trigger.run_id:
            lane.assigned_early = None
            if not lane.is_queued and lane.ready() is not None:
                lane.is_queued = True
                self._ready_lanes[min(trigger.priority, LOW)].appendleft(lane)

    def advance(self, job_id: int, run_id: int) -> None:
        """Record that a waiting run is running, in place of one that has ended."""
        lane = self._lanes[job_id]
        lane.running[run_id] = lane.remove(run_id)
        self._waiting_count -= 1

    def give_back(self, trigger: Trigger) -> None:
        """Record that a running run has not begun, and waits again."""
        lane = self._lanes[trigger.job_id]
        del lane.running[trigger.run_id]
        lane.add(trigger)
        self._waiting_count += 1
        self._enqueue(lane)

    def mark_stopping(self, job_id: int, run_id: int) -> None:
        """Record that a running run is being stopped; until it ends it counts as running."""
        lane = self._lanes[job_id]
        age = lane.running.pop(run_id, None)
        if age is not None:
            lane.stopping[run_id] = age

    def finish(self, job_id: int, run_id: int) -> None:
        """Record that a running run has ended."""
        lane = self._lanes[job_id]
        if lane.running.pop(run_id, None) is None:
            del lane.stopping[run_id]
        self._settle(lane)

    def drop(self, job_id: int, run_id: int) -> None:
        """Remove a waiting run."""
        lane = self._lanes[job_id]
        lane.remove(run_id)
        self._waiting_count -= 1
        self._settle(lane)

    def _settle(self, lane: _Lane) -> None:
        if lane.running or lane.stopping or lane.waiting:
            self._enqueue(lane)
        else:
            del self._lanes[lane.job_id]

    def _enqueue(self, lane: _Lane) -> None:
        if not lane.is_queued and (head := lane.ready()) is not None:
            lane.is_queued = True
            self._ready_lanes[min(head.priority, LOW)].append(lane)
