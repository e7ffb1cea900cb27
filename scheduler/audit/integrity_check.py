"""Recomputes every due time from the schedule history and looks for its run or skip.

    due = fired + skipped + cancelled + purged, and nothing twice

A tick that was planned and then skipped, because it could not be sent in time or its app was
paused, has a cancelled run and a skip. If it ran although the job's policy is to skip it, it counts
as late.

Ticks after a job's watermark are undecided and do not count as due. Runs of children do not count
either; they are checked against the runs of their parents, and nodes against their flows.

It also finds what a database that lost commits leaves behind: epochs, and runs with others'
results.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.audit.board_audit import BoardFault, audit_board
from warren.scheduler.audit.related_runs import (
    DelaySpan,
    LateStartRule,
    audit_backfills,
    audit_children,
    audit_delays,
    audit_flows,
    audit_shards,
    audit_strays,
    audit_waiting,
)
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import Calendars
from warren.sql import epochs, limits
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.epochs import EpochRow
from warren.sql.jobs import history, job_links
from warren.sql.limits import Damage
from warren.sql.models import History, SkippedTicks
from warren.sql.registry import pauses, uptimes
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.registry.uptimes import Downtime
from warren.sql.run_status import RunStatus
from warren.sql.runs import tick_rows
from warren.sql.runs.run_rows import RunFacts
from warren.sql.runs.tick_rows import JobRange

#: The most runs that a report names.
MAX_ODD = 1_000
#: How much may have been lost before an epoch began, and how far ahead due times are planned.
_LOST_MS, _PLANNED_MS = 3_600_000, 5_000


class AuditedEpoch(NamedTuple):
    """An epoch, and how many runs have ids that were given out a second time before it."""

    epoch: EpochRow
    again: int


class FoundRun(NamedTuple):
    """A run with an impossible row, its job's name, and the epoch to blame, if any."""

    run: RunFacts
    job: str
    epoch: EpochRow | None

    @property
    def is_early(self) -> bool:
        """Whether it started before it was due; otherwise it never started."""
        return self.run.started_at is not None


def audited_epochs(session: Session, bounds: tuple[int, int]) -> list[AuditedEpoch]:
    """Return the epochs that began in these bounds, in epoch milliseconds."""
    return [
        AuditedEpoch(epoch, epochs.count_between(session, epoch))
        for epoch in epochs.all_epochs(session, since_ms=bounds[0])
        if epoch.began_at <= bounds[1]
    ]


def odd_runs(
    session: Session, ranges: Iterable[JobRange], bounds: tuple[int, int], names: dict[int, str]
) -> list[FoundRun]:
    """Return runs that started before they were due, or succeeded without having started.

    These are the results of other runs with the same ids.
    """
    known = epochs.all_epochs(session)
    found: list[FoundRun] = []
    for jobs in ranges:
        left = MAX_ODD - len(found)
        for run in tick_rows.odd_runs(
            session, jobs, after_ms=bounds[0], until_ms=bounds[1], limit=left
        ):
            name = names.get(run.job_id, f"(deleted {run.job_id})")
            found.append(FoundRun(run, name, epoch_of(known, run.due_at)))
    return found


def epoch_of(known: Sequence[EpochRow], at_ms: int) -> EpochRow | None:
    """Return the first epoch that began within an hour after this time, or just before it."""
    near = range(at_ms - _PLANNED_MS, at_ms + _LOST_MS)
    return next((epoch for epoch in known if epoch.began_at in near), None)


#: Due times compared at once. The server would close a connection that is idle for as long as a
#: few hundred thousand of them take.
CHUNK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The tallies of all jobs, the numbers of open runs, and faults in limits.

    `odd` are runs with impossible rows; `board` is where the stored state of jobs is another than
    their runs say; `epochs` are those of run ids, which show whether the
    database lost commits.
    """

    jobs: list[JobTally]
    planned: int
    in_flight: int
    limits: Sequence[Damage] = ()
    odd: Sequence[FoundRun] = ()
    board: Sequence[BoardFault] = ()
    epochs: Sequence[AuditedEpoch] = ()

    @property
    def is_sound(self) -> bool:
        """Whether no tick was lost, doubled or late, no run was early, and the rest agrees."""
        is_early = any(found.is_early for found in self.odd)
        return not (self.limits or self.board or is_early) and all(
            job.is_sound for job in self.jobs
        )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """All ticks of a schedule in (`after_ms`, `until_ms`]."""

    after_ms: int
    until_ms: int
    ticks: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which one schedule of a job was enabled: ticks in (`after_ms`, `until_ms`].

    `is_last`: the schedule is still in force, and `until_ms` is the job's watermark.
    """

    schedule: Ticks
    anchor_ms: int
    after_ms: int
    until_ms: int
    is_last: bool
    late_starts: LateStartRule

    def chunks(self) -> Iterator[_Chunk]:
        """Yield chunks that cover the span, even where it has no ticks."""
        after_ms = self.after_ms
        while after_ms < self.until_ms:
            ticks = self.schedule.ticks(after_ms, self.until_ms, self.anchor_ms, CHUNK)
            until_ms = ticks[-1] if len(ticks) == CHUNK else self.until_ms
            yield _Chunk(after_ms, until_ms, ticks)
            after_ms = until_ms


def audit(
    database: Database, *, since_ms: int, until_ms: int, timezone: str, job_id: int | None = None
) -> AuditReport:
    """Return the tallies of the due times in (since, until], of all jobs or of one.

    Args:
        database: where runs, skips and history are stored.
        since_ms: epoch milliseconds; 0 = from the first due time.
        until_ms: epoch milliseconds.
        timezone: the zone of jobs that have none of their own.
        job_id: the only job to audit; None = all.

    """
    return database.read(lambda session: _audit(session, (since_ms, until_ms), timezone, job_id))


def _audit(
    session: Session, bounds: tuple[int, int], timezone: str, job_id: int | None
) -> AuditReport:
    known = tick_rows.jobs(session)
    tallies = Tallies({one_id: row.name for one_id, row in known.items()}, job_id)
    downtimes = _downtimes(session)
    for one_id, made in groupby(history.changes(session), lambda change: change.job_id):
        job, changes = tallies.of(one_id), list(made)
        if job is None:
            continue
        stored = known.get(one_id)
        end_ms = stored.last_tick_at if stored else changes[-1].watermark
        missed = _of_app(downtimes, stored.app_id if stored else EVERY_APP)
        calendars = calendars_for(session, changes)
        for span in _spans(changes, end_ms, bounds, timezone, missed, calendars=calendars):
            _compare(session, span, job)
    ranges = [(job_id, job_id)] if job_id is not None else list(tick_rows.job_ranges(session))
    for jobs in ranges:
        for doubled_id, tick in tick_rows.doubled(
            session, jobs, after_ms=bounds[0], until_ms=bounds[1]
        ):
            if job := tallies.of(doubled_id):
                job.add_doubled(tick)
        audit_shards(session, tallies, bounds, jobs)
        audit_strays(session, tallies, bounds, jobs)
    audit_backfills(session, tallies, bounds, job_id)
    audit_children(session, tallies, bounds)
    audit_flows(session, tallies, bounds)
    audit_waiting(session, tallies)
    return AuditReport(
        jobs=tallies.all(),
        planned=tick_rows.open_runs(session, planned=True),
        in_flight=tick_rows.open_runs(session, planned=False),
        limits=limits.find_damage(session) if job_id is None else (),
        odd=odd_runs(session, ranges, bounds, {row.id: row.name for row in known.values()}),
        board=audit_board(session, bounds=bounds, now_ms=database_now_ms(session), job_id=job_id),
        epochs=audited_epochs(session, bounds),
    )


def audit_job(
    session: Session, job_id: int, bounds: tuple[int, int], timezone: str
) -> JobTally | None:
    """Return the tally of one job's due times in `bounds`; None if the job does not exist.

    `bounds` are epoch milliseconds, the first excluded. Of other jobs only the parents are read, so
    the cost depends on the job's own ticks. The distance between the last fixed-delay tick of one
    range and the first of the next is not checked, nor whether a fixed delay waits forever, nor
    whether the backfills of its runs exist.
    """
    known = tick_rows.jobs_by_ids(session, [job_id])
    if not known:
        return None
    tallies = Tallies({job_id: known[0].name}, job_id)
    job = tallies.of(job_id)
    assert job is not None
    changes = list(history.changes_of(session, job_id))
    end_ms = known[0].last_tick_at
    missed = _of_app(_downtimes(session), known[0].app_id)
    calendars = calendars_for(session, changes)
    for span in _spans(changes, end_ms, bounds, timezone, missed, calendars=calendars):
        _compare(session, span, job)
    alone = (job_id, job_id)
    for _, tick in tick_rows.doubled(session, alone, after_ms=bounds[0], until_ms=bounds[1]):
        job.add_doubled(tick)
    audit_shards(session, tallies, bounds, alone)
    audit_backfills(session, tallies, bounds, job_id)
    if job_links.parent_ids(session, [job_id]):
        audit_children(session, tallies, bounds)
    audit_flows(session, tallies, bounds)
    return job


def _downtimes(session: Session) -> list[Downtime]:
    """Return when no scheduler could send, and when apps were paused."""
    return [*uptimes.downtimes(session), *pauses.ended(session, database_now_ms(session))]


def _of_app(downtimes: Sequence[Downtime], app_id: int) -> list[Downtime]:
    return [downtime for downtime in downtimes if downtime.app_id in (EVERY_APP, app_id)]


def _spans(
    changes: list[History],
    end_ms: int,
    bounds: tuple[int, int],
    timezone: str,
    downtimes: Sequence[Downtime],
    *,
    calendars: Calendars,
) -> Iterator[_Span]:
    """Yield the spans in which the job was enabled, cut to the bounds."""
    if not changes:
        return
    ends = [change.watermark for change in changes[1:]] + [end_ms]
    for change, end in zip(changes, ends, strict=True):
        after_ms, until_ms = max(change.watermark, bounds[0]), min(end, bounds[1])
        if change.enabled and after_ms < until_ms:
            schedule = read_schedule(
                ScheduleFacts.of(change, change.timezone or timezone), calendars
            )
            is_last = change is changes[-1] and until_ms == end_ms
            late_starts = LateStartRule.of(change.misfire, downtimes, changes)
            yield _Span(schedule, change.anchor, after_ms, until_ms, is_last, late_starts)


def _compare(session: Session, span: _Span, job: JobTally) -> None:
    distance_ms = span.schedule.least_distance_ms()
    if distance_ms is None:
        _compare_computed(session, span, job)
        return
    last_ms = span.until_ms if span.is_last else None
    delays = DelaySpan(
        distance_ms, span.anchor_ms, span.after_ms, span.until_ms, last_ms, span.late_starts
    )
    audit_delays(session, delays, job)


def _compare_computed(session: Session, span: _Span, job: JobTally) -> None:
    # Before the rows: a tick that is skipped meanwhile must not count as fired too.
    skipped = _Skipped(tick_rows.skips(session, job.job_id))
    for chunk in span.chunks():
        _compare_chunk(session, chunk, skipped, span.late_starts, job)


def _compare_chunk(
    session: Session,
    chunk: _Chunk,
    skipped: "_Skipped",
    late_starts: LateStartRule,
    job: JobTally,
) -> None:
    rows = tick_rows.ticks_with_rows(
        session, job.job_id, after_ms=chunk.after_ms, until_ms=chunk.until_ms
    )
    statuses = {row.scheduled_at: row.status for row in rows}
    for row in rows:
        if late_starts.forbids(row):
            job.add_late(row.scheduled_at)
    purged_until = tick_rows.purged_until(session, job.job_id)
    for tick in chunk.ticks:
        job.due += 1
        status = statuses.pop(tick, None)
        in_skip = skipped.covers(tick)
        has_fired = status not in (None, RunStatus.CANCELLED)
        if has_fired and in_skip:
            job.add_doubled(tick)
        elif status == RunStatus.CANCELLED and not in_skip:
            job.cancelled += 1
        elif has_fired:
            job.fired += 1
        elif in_skip:
            job.skipped += 1
        elif tick <= purged_until:
            job.purged += 1
        else:
            job.add_lost(tick)
    for tick in statuses:
        job.add_doubled(tick)


class _Skipped:
    """Ordered ranges of skipped ticks; `covers` must be called with ascending ticks."""

    def __init__(self, skips: Iterable[SkippedTicks]) -> None:
        self._ranges = [(skip.from_at, skip.to_at) for skip in skips]
        self._at = 0

    def covers(self, tick: int) -> bool:
        while self._at < len(self._ranges) and self._ranges[self._at][1] < tick:
            self._at += 1
        return self._at < len(self._ranges) and self._ranges[self._at][0] <= tick
