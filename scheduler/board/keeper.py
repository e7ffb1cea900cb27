"""Keeps the board: takes in what has changed, fills it after an upgrade, and looks at open runs.

One scheduler at a time does this, under a lease; should two do it for a moment, they wait for each
other's transactions. What was taken in is deleted in the same transaction, so nothing counts twice.
"""

import time
from collections.abc import Callable, Collection, Iterable

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.board import events, history, next_hour
from warren.scheduler.board.folding import (
    compare,
    fold,
    folded_trouble,
    is_slow,
    rebuild,
    trouble_of,
)
from warren.sql import unfolded
from warren.sql.board import due_runs, fill, job_states, live, quarters
from warren.sql.board.live import Waiting
from warren.sql.engine import Database
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.unfolded import QUARTER_MS, quarter_of

log = structlog.get_logger()

LEASE = "board"
#: Seconds between two rounds, and how many times as long as a round took.
ROUND_SECONDS, WAIT_FACTOR = 1.0, 5
#: Runs taken in at once, and transactions that ended them.
CHANGES = 5_000
#: How often to renew the lease, and the seconds before a scheduler without it tries again.
RENEW_MS, AWAY_SECONDS = 5_000, 5.0
#: How often to look at what is open.
LOOK_MS = 10_000
#: A run waits if it has not started this long after it was due.
OVERDUE_MS = MINUTE_MS
#: How often to look ahead.
FORESEE_MS = MINUTE_MS
#: How often to compare each job with a week ago at most, and how many jobs at once.
COMPARE_MS, COMPARED_JOBS = HOUR_MS, 500
#: Jobs and quarters filled at once, and the share of time that this may take.
FILL_JOBS, FILL_QUARTERS = 50, 4
FILL_FACTOR = 1.0


class BoardKeeper:
    """The role that keeps the board.

    Args:
        node: this scheduler's name.
        database: where runs and the board are stored.
        timezone: the zone of jobs that name none.
        monotonic: a clock in seconds that measures rounds.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        timezone: str = "UTC",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._timezone = timezone
        self._monotonic = monotonic
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._is_filled = False
        self._renewed_ms = self._looked_ms = self._forgot_ms = self._foresaw_ms = 0
        #: When a comparison of all jobs began, and how far it is; None = it is over.
        self._compared_ms = 0
        self._compared_id: int | None = None
        #: The jobs that are stored as waiting or running for long; None = not known.
        self._marked: set[int] | None = None

    def run_round(self, now_ms: int) -> float:
        """Take in what has changed; return the seconds to wait, fewer if there is more."""
        began = self._monotonic()
        if not self._has_lease(now_ms):
            self._is_filled, self._marked = False, None
            return AWAY_SECONDS
        has_more = self._database.read_autocommit(unfolded.exist)
        is_to_look = abs(now_ms - self._looked_ms) >= LOOK_MS
        if has_more:
            has_more = self._database.write(lambda session: self._fold(session, now_ms))
        if not self._is_filled:
            self._is_filled = self._database.write(lambda session: self._fill(session, now_ms))
        elif is_to_look:
            self._database.write(lambda session: self._look(session, now_ms))
            self._looked_ms = now_ms
            if abs(now_ms - self._foresaw_ms) >= FORESEE_MS:
                self._database.write(
                    lambda session: next_hour.make(session, timezone=self._timezone, now_ms=now_ms)
                )
                self._foresaw_ms = now_ms
                self._database.write(lambda session: self._compare(session, now_ms))
        took = self._monotonic() - began
        if has_more or not self._is_filled:
            return took * FILL_FACTOR
        return max(ROUND_SECONDS, took * WAIT_FACTOR)

    def leave(self) -> None:
        """Release the lease, so that another scheduler can go on."""
        self._lease.release()
        self._renewed_ms = 0

    def _has_lease(self, now_ms: int) -> bool:
        """Whether this scheduler keeps the board; the lease is renewed long before it ends."""
        if abs(now_ms - self._renewed_ms) >= RENEW_MS:
            self._renewed_ms = now_ms if self._lease.take(now_ms) else 0
        return self._renewed_ms > 0

    def _fold(self, session: Session, now_ms: int) -> bool:
        """Take in some changes; return whether there may be more."""
        fill.lock(session)
        rows = unfolded.oldest(session, CHANGES)
        fold(session, unfolded.together(rows), now_ms=now_ms)
        unfolded.forget(session, (row.id for row in rows))
        return unfolded.exist(session) if rows else False

    def _look(self, session: Session, now_ms: int) -> None:
        """Look at what is open, and forget what is old once an hour."""
        fill.lock(session)
        self._marked = look(session, self._marked, now_ms=now_ms)
        if abs(now_ms - self._forgot_ms) >= HOUR_MS:
            quarters.forget(session, quarter_of(now_ms - quarters.KEPT_MS))
            live.forget_events(session, now_ms - events.KEPT_MS)
            self._forgot_ms = now_ms

    def _compare(self, session: Session, now_ms: int) -> None:
        """Compare some jobs with a week ago."""
        if self._compared_id is None:
            if abs(now_ms - self._compared_ms) < COMPARE_MS:
                return
            self._compared_ms, self._compared_id = now_ms, 0
        fill.lock(session)
        job_ids = job_states.with_usual(session, after_id=self._compared_id, limit=COMPARED_JOBS)
        compare(session, job_ids, now_ms=now_ms)
        self._compared_id = job_ids[-1] if len(job_ids) == COMPARED_JOBS else None

    def _fill(self, session: Session, now_ms: int) -> bool:
        """Fill a part of the board from the rows of before; return whether that is over."""
        done = fill.lock(session)
        if not done.is_begun:
            first = quarter_of(now_ms - quarters.KEPT_MS)
            until = fill.last_job_id(session)
            fill.store(
                session, jobs_until=until, quarter_at=first, quarters_until=quarter_of(now_ms)
            )
            log.info("board_fill_started", jobs=until)
            return False
        if done.quarter_at < done.quarters_until:
            first = quarters.first(session, done.quarter_at, done.quarters_until)
            stop = min(first + FILL_QUARTERS * QUARTER_MS, done.quarters_until)
            for quarter_at in range(first, stop, QUARTER_MS):
                quarters.recount(session, quarter_at)
            fill.store(session, quarter_at=stop)
            if stop == done.quarters_until:
                # The quarter that was under way when this began, and the next one by now.
                for quarter_at in range(stop, now_ms + 1, QUARTER_MS):
                    quarters.recount(session, quarter_at)
                quarters.recount_skips(session, now_ms - quarters.KEPT_MS, now_ms)
            return False
        job_ids = fill.jobs_after(session, done.job_id, done.jobs_until, FILL_JOBS)
        if not job_ids:
            fill.store(session, job_id=done.jobs_until)
            log.info("board_filled", jobs=done.jobs_until)
            return True
        rebuild(session, job_ids, now_ms=now_ms)
        fill.store(session, job_id=job_ids[-1])
        return False


def look(session: Session, marked: Collection[int] | None, *, now_ms: int) -> set[int]:
    """Store what is the case now; return the jobs that wait, or run for long.

    `marked` are those that did before, None = not known; the caller has locked the board.
    """
    known = live.marked(session) if marked is None else marked
    waiting = live.waiting(session, due_before_ms=now_ms - OVERDUE_MS)
    events.look(session, waiting, now_ms=now_ms)
    return _mark_open(session, waiting, known, now_ms)


def _mark_open(
    session: Session, waiting: Iterable[Waiting], marked: Collection[int], now_ms: int
) -> set[int]:
    """Store what open runs say about their jobs."""
    waits = {row.job_id: (row.number, row.oldest_at) for row in waiting}
    long = {
        row.job_id: row.started_at
        for row in live.longest(session)
        if is_slow(now_ms - row.started_at, row.usual_ms)
    }
    rows = []
    states = live.states(session, {*waits, *long, *marked})
    if new := waits.keys() - {state.job_id for state in states}:
        # They have never run, so nothing is stored of them yet.
        rebuild(session, due_runs.existing(session, new), now_ms=now_ms)
        states += live.states(session, new)
    for state in states:
        number, oldest_at = waits.get(state.job_id, (0, 0))
        long_since = long.get(state.job_id, 0)
        seen = (number, oldest_at, long_since)
        if seen == (state.waiting_count, state.waiting_since, state.long_since):
            continue
        folded = folded_trouble(history.from_text(state.strip).summary(), state.week_ms)
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
