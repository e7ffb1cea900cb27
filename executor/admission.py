"""Whether a run may start beside those of its job that run or wait here. Pure: no I/O, no clock."""

from collections.abc import Collection
from dataclasses import dataclass

from broker.messages import Block, Trigger

#: Most runs that wait in one lane.
LANE_LIMIT = 1_000

#: Which of two runs of a job is older: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing of its job is in the way: it starts as soon as a slot is free."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It starts when another run of its job has ended."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will not run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cover:
    """It starts once those before it are gone: `kill` those that run, `drop` those that wait."""

    kill: tuple[int, ...]
    drop: tuple[int, ...]


Decision = Start | Wait | Refuse | Cover

_START = Start()
_WAIT = Wait()


@dataclass(frozen=True, slots=True)
class LaneState:
    """Runs of one job by age: at work, at work but ordered to stop, and waiting."""

    running: Collection[Age]
    stopping: Collection[Age]
    waiting: Collection[Age]


def age_of(trigger: Trigger) -> Age:
    """Return what orders a run among those of its job."""
    return trigger.scheduled_at_ms, trigger.run_id


def decide(block: Block, concurrency: int, lane: LaneState, age: Age) -> Decision:
    """Return what becomes of a run of this age that comes to this lane.

    `concurrency` counts as at least 1. Of a COVER_EARLY job the newest `concurrency` runs stay.
    """
    most = max(1, concurrency)
    at_work = len(lane.running) + len(lane.stopping)
    if at_work + len(lane.waiting) < most:
        return _START
    match block:
        case Block.SERIAL_EXECUTION:
            return _serial(lane)
        case Block.DISCARD_LATER:
            return Refuse("DISCARD_LATER: another run of the job runs or waits here")
        case Block.COVER_EARLY:
            return _cover(most, lane, age)


def _serial(lane: LaneState) -> Decision:
    if len(lane.waiting) >= LANE_LIMIT:
        return Refuse(f"{LANE_LIMIT} runs of the job wait here already")
    return _WAIT


def _cover(most: int, lane: LaneState, age: Age) -> Decision:
    newest_first = sorted((*lane.running, *lane.waiting, age), reverse=True)
    stay = set(newest_first[:most])
    if age not in stay:
        return Refuse("COVER_EARLY: a newer run of the job runs or waits here")
    return Cover(
        kill=tuple(run_id for tick, run_id in lane.running if (tick, run_id) not in stay),
        drop=tuple(run_id for tick, run_id in lane.waiting if (tick, run_id) not in stay),
    )
