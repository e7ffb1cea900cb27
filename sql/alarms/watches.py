"""When to check which job next, and queries for the runs that a check reads."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, insert_or_ignore, modify
from warren.sql.models import App, Job, Run, SkippedTicks, Watch
from warren.sql.rows import fetch, query
from warren.sql.run_status import LATE_MS, RunStatus

#: The most runs of a job that a check reads, newest first.
MAX_RUNS = 2_000
#: The usual duration is the median of the last successes: of this many at most, and at least.
MAX_SUCCESSES, MIN_SUCCESSES = 20, 5
#: How far ahead due times are read. Schedules plan less far ahead, and any number of runs may have
#: been requested for later.
AHEAD_MS = 60_000
_FIRST_ROUTED = func.coalesce(Run.first_routed_at, Run.routed_at)
_WAITING = (RunStatus.PLANNED, RunStatus.ROUTED, RunStatus.SENT)


class WatchedJob(NamedTuple):
    """A job that is to be checked; `app_id` None = it was deleted."""

    job_id: int
    next_look_at: int
    since_at: int
    started_until: int
    finished_until: int
    last_success_at: int
    app_id: int | None
    expect: str | None
    timezone: str | None
    schedule_kind: str | None
    is_enabled: int | None
    next_tick_at: int | None


class WatchedRun(NamedTuple):
    """A run, with what is needed to judge its due time; `routed_at` is when it was first."""

    scheduled_at: int
    origin_id: int
    shard_index: int
    shard_total: int
    status: str
    due_at: int
    routed_at: int | None
    started_at: int | None
    finished_at: int | None


class SkippedSpan(NamedTuple):
    """Due times that were skipped."""

    from_at: int
    to_at: int


class LongRun(NamedTuple):
    """The due time of a run that takes too long, and how long it may take."""

    job_id: int
    app_id: int
    scheduled_at: int
    longest_ms: int
    expect: str | None


class Backlog(NamedTuple):
    """A job's waiting runs that are overdue: how many, and when the first was due."""

    job_id: int
    app_id: int
    app: str
    number: int
    oldest_at: int


def look_soon(session: Session, job_ids: Iterable[int], *, since_ms: int) -> None:
    """Have jobs checked immediately, and judge them from now on."""
    ids = sorted(set(job_ids))
    if not ids:
        return
    row = {
        "next_look_at": 0,
        "since_at": since_ms,
        "started_until": 0,
        "finished_until": 0,
        "last_success_at": 0,
        "usual_ms": 0,
        "longest_ms": 0,
    }
    insert_or_ignore(session, Watch, [{"job_id": id_, **row} for id_ in ids], key="job_id")
    for chunk in chunks(ids):
        soon = update(Watch).where(Watch.job_id.in_(chunk))
        modify(session, soon.values(next_look_at=0, since_at=since_ms))


def due(session: Session, now_ms: int, limit: int) -> list[WatchedJob]:
    """Return the jobs that are due for a check, the most overdue first."""
    watched = query(
        WatchedJob,
        Watch,
        app_id=Job.app_id,
        expect=Job.expect,
        timezone=Job.timezone,
        schedule_kind=Job.schedule_kind,
        is_enabled=Job.is_enabled,
        next_tick_at=Job.next_tick_at,
    )
    joined = watched.join(Job, Job.id == Watch.job_id, isouter=True)
    soon = joined.where(Watch.next_look_at <= now_ms).order_by(Watch.next_look_at).limit(limit)
    return fetch(session, WatchedJob, soon)


def settle(session: Session, job: WatchedJob, **columns: int) -> None:
    """Store the findings of a check, unless the job has changed and must be checked again."""
    seen = update(Watch).where(
        Watch.job_id == job.job_id,
        Watch.next_look_at == job.next_look_at,
        Watch.since_at == job.since_at,
    )
    modify(session, seen.values(**columns))


def forget(session: Session, job_id: int) -> None:
    """Stop watching a job."""
    modify(session, delete(Watch).where(Watch.job_id == job_id))


def runs_after(
    session: Session, job_id: int, after_ms: int, *, now_ms: int, most: int = MAX_RUNS
) -> list[WatchedRun]:
    """Return a job's newest runs that were due after an instant."""
    newest = query(WatchedRun, Run, routed_at=_FIRST_ROUTED).where(
        Run.job_id == job_id,
        Run.scheduled_at > after_ms,
        Run.scheduled_at <= now_ms + AHEAD_MS,
    )
    return fetch(session, WatchedRun, newest.order_by(Run.scheduled_at.desc()).limit(most))


def skips_after(session: Session, job_id: int, after_ms: int) -> list[SkippedSpan]:
    """Return the due times of a job after an instant that were skipped."""
    skipped = query(SkippedSpan, SkippedTicks).where(
        SkippedTicks.job_id == job_id, SkippedTicks.to_at > after_ms
    )
    return fetch(session, SkippedSpan, skipped.order_by(SkippedTicks.from_at))


def was_held(session: Session, job_id: int, since_ms: int, until_ms: int) -> bool:
    """Return whether some due time of a job's schedule could not be sent in a span of time."""
    run = select(Run.id).where(
        Run.job_id == job_id,
        Run.scheduled_at.between(since_ms - LATE_MS, until_ms),
        Run.origin_id == 0,
        or_(_FIRST_ROUTED.is_(None), since_ms < _FIRST_ROUTED),
    )
    skip = select(SkippedTicks.id).where(
        SkippedTicks.job_id == job_id,
        SkippedTicks.to_at >= since_ms - LATE_MS,
        SkippedTicks.from_at <= until_ms,
    )
    return any(session.execute(found.limit(1)).first() is not None for found in (run, skip))


def last_success(session: Session, job_id: int, *, now_ms: int, most: int = MAX_RUNS) -> int:
    """Return when the last success among a job's newest runs ended; 0 = there is none."""
    newest = (
        select(Run.status, Run.finished_at)
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms + AHEAD_MS)
        .order_by(Run.scheduled_at.desc())
        .limit(most)
        .subquery()
    )
    last = select(func.max(newest.c.finished_at)).where(newest.c.status == RunStatus.SUCCEEDED)
    return session.execute(last).scalar_one() or 0


def usual_ms(session: Session, job_id: int, *, now_ms: int) -> int:
    """Return the median duration of a job's last successes; 0 = there are too few."""
    newest = (
        select(Run.status, Run.started_at, Run.finished_at, Run.scheduled_at)
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms + AHEAD_MS)
        .order_by(Run.scheduled_at.desc())
        .limit(MAX_RUNS)
        .subquery()
    )
    succeeded = (
        select(newest.c.finished_at - newest.c.started_at)
        .where(newest.c.status == RunStatus.SUCCEEDED, newest.c.started_at.is_not(None))
        .order_by(newest.c.scheduled_at.desc())
        .limit(MAX_SUCCESSES)
    )
    durations: Sequence[int] = session.execute(succeeded).scalars().all()
    return max(1, int(median(durations))) if len(durations) >= MIN_SUCCESSES else 0


def long_runs(session: Session, now_ms: int) -> list[LongRun]:
    """Return the runs that take longer than their job's owner expects, the oldest first."""
    running = (
        query(LongRun, Run, longest_ms=Watch.longest_ms, expect=Job.expect)
        .join(Watch, Watch.job_id == Run.job_id)
        .join(Job, Job.id == Run.job_id)
        .where(
            Run.status == RunStatus.RUNNING,
            Watch.longest_ms > 0,
            Run.started_at + Watch.longest_ms <= now_ms,
        )
    )
    return fetch(session, LongRun, running.order_by(Run.started_at).limit(MAX_RUNS))


def backlogs(
    session: Session, *, overdue_before_ms: int, most: int, oldest_before_ms: int
) -> list[Backlog]:
    """Return the jobs whose overdue runs are at least `most`, or of which one is too old."""
    number, oldest = func.count(), func.min(Run.due_at)
    waiting = (
        query(Backlog, Run, app=func.max(App.name), number=number, oldest_at=oldest)
        .join(App, App.id == Run.app_id)
        .where(Run.status.in_(_WAITING), Run.due_at <= overdue_before_ms)
        .group_by(Run.job_id, Run.app_id)
        .having((number >= most) | (oldest <= oldest_before_ms))
    )
    return fetch(session, Backlog, waiting)
