"""Decides whether a run may start alongside the other runs of its job. Pure: no I/O, no clock."""

from collections.abc import Collection
from dataclasses import dataclass

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.values import Block
from warren.broker.reasons.codes import Reason, Why

#: Orders the runs of a job: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Start:
    """No other run of its job is in the way: it starts as soon as a slot is free."""


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
