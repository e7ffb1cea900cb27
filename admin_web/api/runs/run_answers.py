"""A run and the state of its tick, as the API returns them."""

from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec

from admin_web.api.answer_types import answer_type
from scheduler.views.run_view import PAGES_ONLY, run_json
from sql.listings.recent import DetailedRun
from sql.listings.tick_ends import TickRun
from sql.run_status import FINAL, RunStatus

#: The runs of one tick, in order of shard and attempt.
TickRuns: TypeAlias = Collection[TickRun] | Collection[DetailedRun]


class TickEnd(msgspec.Struct, kw_only=True):
    """The state of a run's whole tick: all shards with all attempts.

    `status` is null until it is over; then SUCCEEDED, or the status of the first shard that did not
    succeed. `run_ids` are in order of shard and attempt.
    """

    is_over: bool
    status: str | None
    run_ids: list[int]


RunAnswer: Any = answer_type("Run", DetailedRun, without=PAGES_ONLY)
#: A run with the state of its tick.
RunWithTick: Any = answer_type(
    "RunWithTick", DetailedRun, without=PAGES_ONLY, more={"tick": TickEnd}
)


def run_answer(run: DetailedRun) -> Any:
    """Return a run as an answer."""
    return RunAnswer(**run_json(run))


def run_with_tick(run: DetailedRun, rows: TickRuns) -> Any:
    """Return a run and the state of its tick as an answer."""
    return RunWithTick(**run_json(run), tick=tick_end(rows))


def tick_end(rows: TickRuns) -> TickEnd:
    """Return the state of a tick, given its runs in order of shard and attempt."""
    last = list({row.shard_index: row for row in rows}.values())
    is_over = all(row.status in FINAL for row in rows)
    bad = [row.status for row in last if row.status != RunStatus.SUCCEEDED]
    status = (bad or [RunStatus.SUCCEEDED.value])[0] if is_over else None
    return TickEnd(
        is_over=is_over,
        status=None if status is None else str(status),
        run_ids=[r.id for r in rows],
    )
