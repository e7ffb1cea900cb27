"""Clears runs that are over, a little at a time: by retention, and when somebody asks for it.

A tick is cleared as a whole, or stays as a whole: as long as one of its runs is open, its other
shards and attempts are needed to tell how it ended.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Protocol

from sqlalchemy.orm import Session

from scheduler.retention.calendar_days import CalendarDays
from sql.batch import chunks
from sql.engine import Database
from sql.instants import at
from sql.run_status import FINAL
from sql.runs import purges
from sql.runs.purges import END, START, DuePosition, PlacedRun
from sql.runs.ticks import Tick, tick_of

#: Ticks looked at in one step, and runs deleted in one transaction.
TICKS, RUNS = 400, 1_000
#: The pause after a step: this many times the step's duration, and at least these seconds.
SPARING, PAUSE_SECONDS = 2, 0.02
_FAR_MS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearingCriteria:
    """Which runs to clear: those due before `before_ms`, or all but the newest `keep`, or all.

    Of one job, of one app, or of all.
    """

    job_id: int | None = None
    app_id: int | None = None
    before_ms: int | None = None
    keep: int | None = None


class ClearingPreset(IntEnum):
    """The nine things to clear that XXL-JOB offers, by its numbers."""

    OLDER_THAN_1_MONTH = 1
    OLDER_THAN_3_MONTHS = 2
    OLDER_THAN_6_MONTHS = 3
    OLDER_THAN_1_YEAR = 4
    ALL_BUT_1_000 = 5
    ALL_BUT_10_000 = 6
    ALL_BUT_30_000 = 7
    ALL_BUT_100_000 = 8
    ALL = 9


_MONTHS = {1: 1, 2: 3, 3: 6, 4: 12}
_KEPT = {5: 1_000, 6: 10_000, 7: 30_000, 8: 100_000}


def criteria_of(
    choice: ClearingPreset, *, now_ms: int, job_id: int | None = None, app_id: int | None = None
) -> ClearingCriteria:
    """Return what one of XXL-JOB's choices means now."""
    months = _MONTHS.get(choice)
    before_ms = months_before(now_ms, months) if months else None
    return ClearingCriteria(
        job_id=job_id, app_id=app_id, before_ms=before_ms, keep=_KEPT.get(choice)
    )


def months_before(now_ms: int, months: int) -> int:
    """Return the instant this many months ago; in a short month, the 31st is its last day."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    for day in range(now.day, 27, -1):
        try:
            return int(now.replace(year=year, month=month + 1, day=day).timestamp() * 1000)
        except ValueError:
            continue
    return int(now.replace(year=year, month=month + 1).timestamp() * 1000)


class _Walk(Protocol):
    """Walks through the ticks that may be cleared, oldest first, each once."""

    def next_ticks(self, session: Session) -> list[Tick]:
        """Return the next ticks to look at; none when all were looked at."""

    def may_go(self, runs: Iterable[PlacedRun]) -> bool:
        """Whether a tick that is over, given by its runs, is among those to clear."""


class Clearing:
    """One clearing in progress; call `step` until it returns None.

    Args:
        database: where everything is.
        criteria: what to clear.
        by: recorded as the one who cleared.
        days: whose days the day report has.
        dry_run: only count.

    """

    def __init__(
        self,
        database: Database,
        criteria: ClearingCriteria,
        *,
        by: str,
        days: CalendarDays,
        dry_run: bool = False,
    ) -> None:
        self._database = database
        self._by = by
        self._days = days
        self._dry_run = dry_run
        self._walk = database.read(lambda session: _walk_of(session, criteria))

    def step(self, now_ms: int) -> int | None:
        """Clear a little; return the number of runs, None when nothing is left."""
        ticks = self._database.read(self._walk.next_ticks)
        if not ticks:
            return None
        found = self._database.read(lambda session: purges.of_ticks(session, ticks))
        doomed = [run.id for runs in found.values() if self._is_to_go(runs) for run in runs]
        if self._dry_run:
            return len(doomed)
        return sum(self._delete(chunk, now_ms) for chunk in chunks(doomed, RUNS))

    def _is_to_go(self, runs: list[PlacedRun]) -> bool:
        return all(run.status in FINAL for run in runs) and self._walk.may_go(runs)

    def _delete(self, run_ids: list[int], now_ms: int) -> int:
        return self._database.write(
            lambda session: purges.clear(
                session, run_ids, by=self._by, now_ms=now_ms, day_of=self._days.of
            )
        )


def clear_all(
    clearing: Clearing, now_ms: int, *, on_progress: Callable[[int], None] = lambda _count: None
) -> int:
    """Clear to the end, with pauses; return the number of runs.

    `on_progress` is called after each step with the count so far.
    """
    count = 0
    for cleared in _steps(clearing, now_ms):
        count += cleared
        on_progress(count)
    return count


def _steps(clearing: Clearing, now_ms: int) -> Iterator[int]:
    began = time.monotonic()
    while (cleared := clearing.step(now_ms)) is not None:
        yield cleared
        time.sleep(max(PAUSE_SECONDS, SPARING * (time.monotonic() - began)))
        began = time.monotonic()


def _walk_of(session: Session, criteria: ClearingCriteria) -> _Walk:
    if criteria.job_id is not None:
        return _JobWalk(criteria.job_id, _last_tick(session, criteria, criteria.job_id))
    return _TimeWalk(_last_place(session, criteria), criteria.app_id)


def _last_tick(session: Session, criteria: ClearingCriteria, job_id: int) -> int:
    if criteria.keep is None:
        return _FAR_MS if criteria.before_ms is None else criteria.before_ms
    if not criteria.keep:
        return _FAR_MS
    return purges.nth_newest_tick(session, criteria.keep, job_id=job_id) or 0


def _last_place(session: Session, criteria: ClearingCriteria) -> DuePosition:
    if criteria.keep:
        return purges.nth_newest(session, criteria.keep, app_id=criteria.app_id) or START
    return END if criteria.before_ms is None else DuePosition(at(criteria.before_ms), 0)


class _JobWalk:
    """Along a job's ticks."""

    def __init__(self, job_id: int, before_ms: int) -> None:
        self._at = Tick(job_id, 0, -1)
        self._before_ms = before_ms

    def next_ticks(self, session: Session) -> list[Tick]:
        found = purges.ticks_after(session, self._at, before_ms=self._before_ms, limit=TICKS)
        self._at = found[-1] if found else self._at
        return found

    def may_go(self, runs: Iterable[PlacedRun]) -> bool:  # noqa: ARG002 - the walk's order says it
        return True


class _TimeWalk:
    """Along the time at which runs were due."""

    def __init__(self, before: DuePosition, app_id: int | None) -> None:
        self._at = START
        self._before = before
        self._app_id = app_id

    def next_ticks(self, session: Session) -> list[Tick]:
        rows = purges.due_after(session, self._at, self._before, limit=TICKS, app_id=self._app_id)
        if rows:
            self._at = rows[-1].place
        return list(dict.fromkeys(tick_of(row) for row in rows))

    def may_go(self, runs: Iterable[PlacedRun]) -> bool:
        places = (run.place for run in runs)
        return all(place < self._before for place in places)
