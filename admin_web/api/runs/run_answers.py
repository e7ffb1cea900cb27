"""A run and the state of its tick, as the API returns them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from warren.admin_web.api.answer_types import answer_type
from warren.scheduler.completion.tick_end import Attempt, tick_end
from warren.scheduler.views.run_view import PAGES_ONLY, run_json
from warren.sql.listings.recent import DetailedRun
from warren.sql.runs.ticks import tick_of


class TickEnd(msgspec.Struct, kw_only=True):
    """The state of a run's whole tick: all shards with all attempts.

    `status` is null until it is over; then SUCCEEDED, or the status of the first shard that did not
    succeed, or LOST if a shard's run no longer exists. `run_ids` are in order of shard and attempt.
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


def run_with_tick(run: DetailedRun, tick: TickEnd) -> Any:
    """Return a run and the state of its tick as an answer."""
    return RunWithTick(**run_json(run), tick=tick)


def tick_answer(of: DetailedRun, runs: Sequence[Attempt]) -> TickEnd:
    """Return the state of a run's tick, given all its runs in order of shard and attempt."""
    end = tick_end(tick_of(of), runs)
    return TickEnd(
        is_over=end is not None,
        status=None if end is None else end.status.value,
        run_ids=[run.id for run in runs],
    )
