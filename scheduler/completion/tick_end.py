"""Whether a tick is over, and how it ended: a pure decision over all its shards and attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from warren.sql.run_status import FINAL, RunStatus
from warren.sql.runs.ticks import Tick


class Attempt(Protocol):
    """A run, with what decides how its tick ended: one attempt of one shard."""

    @property
    def id(self) -> int: ...  # noqa: D102 - as the columns of a run
    @property
    def origin_id(self) -> int: ...  # noqa: D102
    @property
    def shard_index(self) -> int: ...  # noqa: D102
    @property
    def shard_total(self) -> int: ...  # noqa: D102
    @property
    def attempt(self) -> int: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def finished_at(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class TickEnd:
    """A tick of which every shard has ended.

    `head_id` is its first run, of shard 0 and attempt 0 or, of re-runs, the one that is their
    origin; None if that was cleared. `deciding_id` is the newest run of the first shard that did
    not succeed, or else of the first shard. `status` is SUCCEEDED if the newest run of every shard
    did, otherwise that of the deciding run; LOST if a shard has no run any more and the others
    succeeded. `finished_at` is when the last run ended.
    """

    tick: Tick
    head_id: int | None
    deciding_id: int
    status: RunStatus
    finished_at: int

    @property
    def succeeded(self) -> bool:
        """Whether the newest run of every shard succeeded."""
        return self.status is RunStatus.SUCCEEDED


def tick_end(tick: Tick, runs: Sequence[Attempt]) -> TickEnd | None:
    """Return how a tick ended; None while the newest run of a shard is open.

    Args:
        tick: the tick.
        runs: all its runs by shard, origin and attempt, those of re-runs of its due time included;
        at least one. This includes a coming retry, whose row is written together with the end of
        the attempt before it.

    """
    last = {run.shard_index: run for run in runs}
    if any(run.status not in FINAL for run in last.values()):
        return None
    bad = [run for run in last.values() if run.status != RunStatus.SUCCEEDED]
    deciding = (bad or [*last.values()])[0]
    shards = max(1, *(run.shard_total for run in runs))
    is_whole = set(last) == set(range(shards))
    first = next((run for run in runs if run.origin_id == tick.origin_id), None)
    return TickEnd(
        tick=tick,
        head_id=first.id if first is not None and _is_head(first) else None,
        deciding_id=deciding.id,
        status=RunStatus(deciding.status) if bad or is_whole else RunStatus.LOST,
        finished_at=max(run.finished_at or 0 for run in runs),
    )


def _is_head(first: Attempt) -> bool:
    """Whether the first run of a tick that is left was the first one from the start."""
    return first.attempt == 0 and (first.shard_index == 0 or first.id == first.origin_id)
