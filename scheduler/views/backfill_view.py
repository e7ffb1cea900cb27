"""A backfill as shown to users: its progress, and the state of each of its due times."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    DueTimeState,
    KeptSchedule,
    ranks_from_text,
    spans_from_json,
    state_of,
)
from warren.sql.backfill_status import BackfillState
from warren.sql.jobs import backfills
from warren.sql.jobs.backfills import DueRun
from warren.sql.listings.backfills import ListedBackfill
from warren.sql.models import Backfill


class FilledState(StrEnum):
    """What became of a due time of a backfill, by the newest runs that it has made for it."""

    TO_COME = "TO_COME"
    #: It is not of the selection, or the backfill was cancelled before.
    LEFT_OUT = "LEFT_OUT"
    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    #: Its run was cancelled before it was sent.
    CANCELLED = "CANCELLED"
    #: Its runs have been cleared since.
    CLEARED = "CLEARED"


_STATES = {
    DueTimeState.MISSING: FilledState.CANCELLED,
    DueTimeState.OPEN: FilledState.OPEN,
    DueTimeState.SUCCEEDED: FilledState.SUCCEEDED,
    DueTimeState.SKIPPED: FilledState.SKIPPED,
    DueTimeState.FAILED: FilledState.FAILED,
}


class FilledTick(NamedTuple):
    """A due time of a backfill; `run_id` is the newest of its runs."""

    number: int
    scheduled_at: int
    run_date: str
    state: str
    run_id: int | None


class BackfillView(NamedTuple):
    """A backfill; a deleted job's has no `job`.

    `due_times` are those in its range: `left_out`, `open`, `succeeded`, `failed`, `skipped`, and
    the others are to come. `expected_at` is when it will probably be done.
    """

    id: int
    app: str
    job: str
    key: str | None
    state: str
    reason: str
    from_date: str | None
    to_date: str | None
    due_times: int
    to_come: int
    left_out: int
    open: int
    succeeded: int
    failed: int
    skipped: int
    at_once: int
    newest_first: bool
    only: str
    stop_on_failure: bool
    children: bool
    instead: bool
    param: str | None
    made_at: int
    made_by: str
    ended_at: int | None
    expected_at: int | None

    @property
    def done(self) -> int:
        """How many due times have ended, or were left out."""
        return self.due_times - self.to_come - self.open


def backfill_view(
    listed: ListedBackfill, *, now_ms: int, ticks: Sequence[FilledTick] = ()
) -> BackfillView:
    """Return the view of a backfill.

    Failures that a re-run has since made good count as such only in its `ticks`, as long as none of
    these was cleared.
    """
    backfill = listed.backfill
    left_out = sum(rank < backfill.decided for rank in ranks_from_text(backfill.left_out))
    counts = Counter(
        open=len(json.loads(backfill.open_ticks)),
        succeeded=backfill.succeeded,
        failed=backfill.failed,
        skipped=backfill.skipped,
    )
    states = Counter(tick.state for tick in ticks)
    if ticks and not states[FilledState.CLEARED]:
        counts = Counter(
            open=states[FilledState.OPEN],
            succeeded=states[FilledState.SUCCEEDED],
            failed=states[FilledState.FAILED],
            skipped=states[FilledState.SKIPPED] + states[FilledState.CANCELLED],
        )
    is_cancelled = backfill.state == BackfillState.CANCELLED
    beyond = backfill.ticks - backfill.decided
    return BackfillView(
        id=backfill.id,
        app=listed.app or "",
        job=listed.job or "",
        key=backfill.key,
        state=backfill.state,
        reason=backfill.state_reason or "",
        from_date=_text(backfill.from_date),
        to_date=_text(backfill.to_date),
        due_times=backfill.ticks,
        to_come=0 if is_cancelled else beyond,
        left_out=left_out + (beyond if is_cancelled else 0),
        **counts,
        at_once=backfill.at_once,
        newest_first=bool(backfill.newest_first),
        only=backfill.selection,
        stop_on_failure=bool(backfill.stop_on_failure),
        children=not backfill.without_children,
        instead=bool(backfill.instead),
        param=backfill.param,
        made_at=backfill.made_at,
        made_by=backfill.made_by,
        ended_at=backfill.ended_at,
        expected_at=_expected_at(backfill, now_ms),
    )


def _text(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _expected_at(backfill: Backfill, now_ms: int) -> int | None:
    """Return when an open backfill will be done at its present speed; None = unknown."""
    ended = backfill.succeeded + backfill.failed + backfill.skipped
    if backfill.state != BackfillState.OPEN or not ended:
        return None
    left = backfill.ticks - backfill.decided + len(json.loads(backfill.open_ticks))
    return now_ms + (backfill.moved_at - backfill.made_at) * left // ended


def filled_ticks(
    session: Session, backfill: Backfill, *, after: int = 0, limit: int | None = None
) -> list[FilledTick]:
    """Return the due times of a backfill in its order, numbered from 1, up to `limit` of them."""
    kept = KeptSchedule.load(session, backfill.schedule)
    spans = spans_from_json(backfill.spans)
    ticks = DueTimes(kept, spans, newest_first=bool(backfill.newest_first)).all()
    chosen = list(enumerate(ticks, 1))[after : None if limit is None else after + limit]
    left_out = set(ranks_from_text(backfill.left_out))
    has_run = [
        tick for number, tick in chosen if number <= backfill.decided and number - 1 not in left_out
    ]
    runs = backfills.runs_at(session, backfill.job_id, has_run)
    is_cancelled = backfill.state == BackfillState.CANCELLED
    unplanned = FilledState.LEFT_OUT if is_cancelled else FilledState.TO_COME
    filled: list[FilledTick] = []
    for number, tick in chosen:
        own = [run for run in runs.get(tick, ()) if run.backfill_id == backfill.id]
        if own:
            state = _STATES[state_of(own)]
        elif number - 1 in left_out:
            state = FilledState.LEFT_OUT
        else:
            state = FilledState.CLEARED if number <= backfill.decided else unplanned
        run_date = kept.run_date(tick).isoformat()
        filled.append(FilledTick(number, tick, run_date, state, _newest(own)))
    return filled


def _newest(runs: Sequence[DueRun]) -> int | None:
    newest = max(runs, key=lambda run: (run.origin_id, run.attempt), default=None)
    return newest and newest.id
