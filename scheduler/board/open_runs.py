"""Which jobs wait, and which run for much longer than usual, by their open runs."""

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.board import history
from warren.scheduler.board.folding import folded_trouble, is_slow, trouble_of
from warren.sql.board import live
from warren.sql.board.live import Waiting
from warren.sql.instants import MINUTE_MS

#: A run waits if it has not started this long after it was due.
OVERDUE_MS = MINUTE_MS


def look(
    session: Session, waiting: Sequence[Waiting], marked: Collection[int], *, now_ms: int
) -> set[int]:
    """Store what open runs show; return the jobs that wait or run for long.

    `marked` are those that did before; the caller has locked the board.
    """
    waits = {row.job_id: (row.number, row.oldest_at) for row in waiting}
    long = {
        row.job_id: row.started_at
        for row in live.longest(session)
        if is_slow(now_ms - row.started_at, row.usual_ms)
    }
    rows = []
    for state in live.states(session, {*waits, *long, *marked}):
        number, oldest_at = waits.get(state.job_id, (0, 0))
        long_since = long.get(state.job_id, 0)
        seen = (number, oldest_at, long_since)
        if seen == (state.waiting_count, state.waiting_since, state.long_since):
            continue
        folded = folded_trouble(history.from_text(state.strip).summary())
        trouble = trouble_of(folded, waiting=number > 0, is_long=long_since > 0)
        rows.append(
            {
                "job_id": state.job_id,
                "trouble": trouble.value,
                "waiting_count": number,
                "waiting_since": oldest_at,
                "long_since": long_since,
            }
        )
    live.mark(session, rows)
    return {*waits, *long}
