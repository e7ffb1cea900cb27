"""Deletes finished runs in small steps, for the retention role and on request.

A tick's runs are deleted together or not at all: while one of them is open, the other shards and
attempts are needed to decide how the tick ends.

One scheduler at a time does this. Schedule changes and skipped due times are never deleted: they
are few, and the audit computes every due time from them.

Criteria say which runs; XXL-JOB's console offers the same presets. Calendar days of a time zone are
spans of naive UTC; a day may have 23 or 25 hours.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from typing import Protocol
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, HOUR_MS, at, epoch_ms
from warren.sql.registry import presence
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.run_status import FINAL
from warren.sql.runs import backfills, purges
from warren.sql.runs.purges import END, START, DuePosition, PurgeCandidate
from warren.sql.runs.ticks import Tick, tick_of

_DAY = timedelta(days=1)


class CalendarDays:
    """The days of one zone. All datetimes are naive UTC."""

    def __init__(self, timezone: str) -> None:
        self._zone = ZoneInfo(timezone)

    def of(self, moment: datetime) -> date:
        """Return the day of an instant."""
        return moment.replace(tzinfo=UTC).astimezone(self._zone).date()

    def start(self, day: date) -> datetime:
        """Return when a day begins.

        If clocks skip midnight, the day begins at the moment of the skip; if midnight occurs
        twice, at the first.
        """
        midnight = datetime.combine(day, datetime.min.time(), self._zone)
        return midnight.astimezone(UTC).replace(tzinfo=None)

    def end(self, day: date) -> datetime:
        """Return when the next day begins."""
        return self.start(day + _DAY)


def days_between(first: date, last: date) -> Iterator[date]:
    """Yield the days from `first` to `last`, both included."""
    for number in range((last - first).days + 1):
        yield first + number * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearingCriteria:
    """Runs of one job, of one app, or of all: those due before `before_ms`, or all.

    `keep` spares this many of the newest runs instead.
    """

    job_id: int | None = None
    app_id: int | None = None
    before_ms: int | None = None
    keep: int | None = None


class ClearingPreset(IntEnum):
    """The nine presets of XXL-JOB, with its numbers."""

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
    preset: ClearingPreset, *, now_ms: int, job_id: int | None = None, app_id: int | None = None
) -> ClearingCriteria:
    """Return the criteria of a preset at this time."""
    months = _MONTHS.get(preset)
    before_ms = months_before(now_ms, months) if months else None
    return ClearingCriteria(
        job_id=job_id, app_id=app_id, before_ms=before_ms, keep=_KEPT.get(preset)
    )


def months_before(now_ms: int, months: int) -> int:
    """Return the UTC instant so many months ago; a missing 31st becomes the last of the month."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    for day in range(now.day, 27, -1):
        try:
            return int(now.replace(year=year, month=month + 1, day=day).timestamp() * 1000)
        except ValueError:
            continue
    return int(now.replace(year=year, month=month + 1).timestamp() * 1000)


#: The wait after a step: this many times the step's duration, and at least this many seconds.
WAIT_FACTOR, WAIT_SECONDS = 2, 0.02
_FAR_MS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """The size of a step: ticks to examine, and runs to delete in one transaction."""

    ticks: int = 400
    runs: int = 1_000


class _Walk(Protocol):
    """Visits the ticks that may be cleared, each once, oldest first."""

    def next_ticks(self, session: Session, limit: int) -> list[Tick]:
        """Return the next ticks to examine; empty at the end."""

    def includes(self, runs: Iterable[PurgeCandidate]) -> bool:
        """Whether the criteria cover all runs of a tick."""


class Clearing:
    """One clearing in progress; call `step` until it returns None.

    Args:
        database: where runs are stored.
        criteria: which runs to clear.
        by: recorded as the user who cleared them.
        days: the calendar of the day report.
        dry_run: count the runs without deleting them.
        step_size: how much to do at once.

    """

    def __init__(
        self,
        database: Database,
        criteria: ClearingCriteria,
        *,
        by: str,
        days: CalendarDays,
        now_ms: int,
        dry_run: bool = False,
        step_size: StepSize | None = None,
    ) -> None:
        self._database = database
        self._by = by
        self._days = days
        self._dry_run = dry_run
        self._step_size = step_size or StepSize()
        self._walk = database.read(lambda session: _walk_of(session, criteria, now_ms))

    def step(self, now_ms: int) -> int | None:
        """Clear some runs; return how many, or None when nothing is left."""
        size = self._step_size
        ticks = self._database.read(lambda session: self._walk.next_ticks(session, size.ticks))
        if not ticks:
            return None
        by_tick = self._database.read(lambda session: purges.runs_of_ticks(session, ticks))
        run_ids = [run.id for runs in by_tick.values() if self._may_clear(runs) for run in runs]
        if self._dry_run:
            return len(run_ids)
        return sum(self._delete(chunk, now_ms) for chunk in chunks(run_ids, size.runs))

    def _may_clear(self, runs: list[PurgeCandidate]) -> bool:
        return all(run.status in FINAL for run in runs) and self._walk.includes(runs)

    def _delete(self, run_ids: list[int], now_ms: int) -> int:
        return self._database.write(
            lambda session: purges.clear(
                session, run_ids, by=self._by, now_ms=now_ms, day_of=self._days.of
            )
        )


def clear_all(
    clearing: Clearing, now_ms: int, *, on_progress: Callable[[int], None] = lambda _count: None
) -> int:
    """Run a clearing to its end, with waits between its steps; return the number of runs.

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
        time.sleep(max(WAIT_SECONDS, WAIT_FACTOR * (time.monotonic() - began)))
        began = time.monotonic()


def _walk_of(session: Session, criteria: ClearingCriteria, now_ms: int) -> _Walk:
    if criteria.job_id is not None:
        before_ms = _tick_bound(session, criteria, criteria.job_id, now_ms)
        return _JobWalk(criteria.job_id, before_ms, _due_bound(criteria))
    return _TimeWalk(_position_bound(session, criteria, now_ms), criteria.app_id)


def _tick_bound(session: Session, criteria: ClearingCriteria, job_id: int, now_ms: int) -> int:
    if criteria.keep is None:
        return _FAR_MS if criteria.before_ms is None else criteria.before_ms
    if not criteria.keep:
        return _FAR_MS
    return purges.nth_newest_tick(session, criteria.keep, job_id=job_id, now_ms=now_ms) or 0


def _position_bound(session: Session, criteria: ClearingCriteria, now_ms: int) -> DuePosition:
    if criteria.keep:
        number, app_id = criteria.keep, criteria.app_id
        return purges.nth_newest_run(session, number, now_ms=now_ms, app_id=app_id) or START
    return _due_bound(criteria)


def _due_bound(criteria: ClearingCriteria) -> DuePosition:
    return END if criteria.before_ms is None else DuePosition(at(criteria.before_ms), 0)


class _JobWalk:
    """Visits the ticks of one job up to `before_ms`, exclusive.

    Some of their runs may have been due much later: those of a parent's late end, of retries and
    misfires. It includes those due before the position `due_before`.
    """

    def __init__(self, job_id: int, before_ms: int, due_before: DuePosition) -> None:
        self._at = Tick(job_id, 0, -1)
        self._before_ms = before_ms
        self._due_before = due_before

    def next_ticks(self, session: Session, limit: int) -> list[Tick]:
        ticks = purges.ticks_after(session, self._at, before_ms=self._before_ms, limit=limit)
        self._at = ticks[-1] if ticks else self._at
        return ticks

    def includes(self, runs: Iterable[PurgeCandidate]) -> bool:
        return all(run.position < self._due_before for run in runs)


class _TimeWalk:
    """Visits runs by due time up to the position `before`, exclusive."""

    def __init__(self, before: DuePosition, app_id: int | None) -> None:
        self._at = START
        self._before = before
        self._app_id = app_id

    def next_ticks(self, session: Session, limit: int) -> list[Tick]:
        rows = purges.due_after(session, self._at, self._before, limit=limit, app_id=self._app_id)
        if rows:
            self._at = rows[-1].position
        return list(dict.fromkeys(tick_of(row) for row in rows))

    def includes(self, runs: Iterable[PurgeCandidate]) -> bool:
        return all(run.position < self._before for run in runs)


LEASE = "retention"
POLL_SECONDS = 5.0
#: Time between two searches for expired runs.
ROUND_MS = HOUR_MS
#: The wait after a chunk: this many times the chunk's duration, and at least this many seconds.
CHUNK_WAIT_FACTOR, CHUNK_WAIT_SECONDS = 3, 0.1
#: A scheduler silent for this long never comes back: each start has a new name.
SCHEDULER_EXPIRY_MS = DAY_MS
#: Recorded as the user who cleared the runs.
PURGED_BY = "retention"

log = structlog.get_logger()


class Cleaner:
    """Deletes expired runs while this scheduler holds the lease.

    Args:
        node: this scheduler's name.
        database: where runs are stored.
        timezone: IANA name of the zone in which days are counted.
        run_retention_days: whole days that runs are kept, besides today; 0 = forever.
        step_size: how much to do at once.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        timezone: str,
        run_retention_days: int,
        step_size: StepSize | None = None,
    ) -> None:
        self._database = database
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._days = CalendarDays(timezone)
        self._retention = timedelta(days=run_retention_days)
        self._step_size = step_size
        self._clearing: Clearing | None = None
        self._cleared = 0
        self._next_ms = 0

    def run_round(self, now_ms: int) -> float:
        """Delete a chunk if it is time; return the seconds to wait."""
        if not self._lease.take(now_ms):
            self._clearing = None
            return POLL_SECONDS
        if self._clearing is None and 0 < self._next_ms - now_ms <= ROUND_MS:
            return POLL_SECONDS
        began = time.monotonic()
        if self._clearing is None:
            self._begin(now_ms)
        if not self._step(now_ms):
            self._next_ms = now_ms + ROUND_MS
            return POLL_SECONDS
        return min(
            max(CHUNK_WAIT_SECONDS, CHUNK_WAIT_FACTOR * (time.monotonic() - began)), POLL_SECONDS
        )

    def leave(self) -> None:
        """Release the lease, so that another scheduler continues at once."""
        self._lease.release()

    def _begin(self, now_ms: int) -> None:
        self._database.write(
            lambda session: presence.forget_schedulers(
                session, before_ms=now_ms - SCHEDULER_EXPIRY_MS
            )
        )
        self._database.write(
            lambda session: presence.forget_unused_catalogues(session, before_ms=now_ms - HOUR_MS)
        )
        if self._retention:
            oldest = self._days.start(self._days.of(at(now_ms)) - self._retention)
            self._database.write(
                lambda session: backfills.forget(session, before_ms=epoch_ms(oldest))
            )
            criteria = ClearingCriteria(before_ms=epoch_ms(oldest))
            self._clearing = Clearing(
                self._database,
                criteria,
                by=PURGED_BY,
                days=self._days,
                now_ms=now_ms,
                step_size=self._step_size,
            )
            self._cleared = 0

    def _step(self, now_ms: int) -> bool:
        """Delete a chunk; return False when nothing is left."""
        if self._clearing is None:
            return False
        cleared = self._clearing.step(now_ms)
        if cleared is not None:
            self._cleared += cleared
            return True
        if self._cleared:
            log.info("runs_cleared", count=self._cleared, days=self._retention.days)
        self._clearing = None
        return False
