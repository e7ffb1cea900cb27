"""A backfill as shown to users: its progress, and the state of each of its due times."""

import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.resources.backfills import Backfill, BackfillDueTime
from warren.resources.instant import Instant
from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    DueTimeState,
    KeptSchedule,
    ranks_from_text,
    spans_from_json,
    state_of,
)
from warren.sql.models import Backfill as BackfillRow
from warren.sql.models.job_tables import BackfillState
from warren.sql.runs import backfills
from warren.sql.runs.backfills import ListedBackfill
from warren.sql.runs.run_rows import RunFacts


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


def backfill_view(
    listed: ListedBackfill,
    *,
    now_ms: int,
    ticks: Sequence[BackfillDueTime] = (),
    notices: Sequence[str] = (),
) -> Backfill:
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
    return Backfill(
        id=backfill.id,
        app=listed.app or "",
        job=listed.job or "",
        key=backfill.key,
        state=backfill.state,
        reason=backfill.state_reason or "",
        from_date=backfill.from_date,
        to_date=backfill.to_date,
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
        made_at=Instant.of(backfill.made_at),
        made_by=backfill.made_by,
        ended_at=Instant.if_any(backfill.ended_at),
        expected_at=Instant.if_any(_expected_at(backfill, now_ms)),
        notices=[*notices],
    )


def _expected_at(backfill: BackfillRow, now_ms: int) -> int | None:
    """Return when an open backfill will be done at its present speed; None = unknown."""
    ended = backfill.succeeded + backfill.failed + backfill.skipped
    if backfill.state != BackfillState.OPEN or not ended:
        return None
    left = backfill.ticks - backfill.decided + len(json.loads(backfill.open_ticks))
    return now_ms + (backfill.moved_at - backfill.made_at) * left // ended


def filled_ticks(
    session: Session, backfill: BackfillRow, *, after: int = 0, limit: int | None = None
) -> list[BackfillDueTime]:
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
    filled: list[BackfillDueTime] = []
    for number, tick in chosen:
        own = [run for run in runs.get(tick, ()) if run.backfill_id == backfill.id]
        if own:
            state = _STATES[state_of(own)]
        elif number - 1 in left_out:
            state = FilledState.LEFT_OUT
        else:
            state = FilledState.CLEARED if number <= backfill.decided else unplanned
        filled.append(
            BackfillDueTime(
                number=number,
                scheduled_at=Instant.of(tick),
                run_date=kept.shown_date(tick),
                state=state,
                run_id=_newest(own),
            )
        )
    return filled


def _newest(runs: Sequence[RunFacts]) -> int | None:
    newest = max(runs, key=lambda run: (run.origin_id, run.attempt), default=None)
    return newest and newest.id
