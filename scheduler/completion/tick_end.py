"""Whether a tick is over, and how it ended: a pure decision over all its shards and attempts."""

from collections.abc import Sequence
from dataclasses import dataclass

from sql.run_status import FINAL, RunStatus
from sql.runs.run_rows import TickRun
from sql.runs.ticks import Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class TickEnd:
    """A tick of which every shard has ended.

    `head_id` is its first run, of shard 0 and attempt 0; None if that was cleared. `succeeded`: the
    last attempt of every shard did. `deciding_id` is the first run that did not, or else the last
    attempt of the first shard. `finished_at` is when the last run ended.
    """

    tick: Tick
    head_id: int | None
    deciding_id: int
    succeeded: bool
    finished_at: int


def tick_end(tick: Tick, runs: Sequence[TickRun]) -> TickEnd | None:
    """Return how a tick ended; None while one of its runs is open.

    Args:
        tick: the tick.
        runs: all its runs, by shard and attempt; at least one. This includes a coming retry, whose
        row is written together with the end of the attempt before it.

    """
    if any(run.status not in FINAL for run in runs):
        return None
    attempts = {run.shard_index: run for run in runs}
    last = {shard: run.status for shard, run in attempts.items()}
    bad = [run for run in attempts.values() if run.status != RunStatus.SUCCEEDED]
    shards = max(1, *(run.shard_total for run in runs))
    first = runs[0]
    return TickEnd(
        tick=tick,
        head_id=first.id if (first.shard_index, first.attempt) == (0, 0) else None,
        deciding_id=(bad or [*attempts.values()])[0].id,
        succeeded=set(last) == set(range(shards)) and set(last.values()) == {RunStatus.SUCCEEDED},
        finished_at=max(run.finished_at or 0 for run in runs),
    )
