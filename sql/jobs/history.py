"""The history of schedules and the records of skipped ticks, for the audit and for people."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import Session

from warren.sql import unfolded
from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.explanation import Explanation
from warren.sql.instants import HOUR_MS
from warren.sql.jobs.due_jobs import HAS_NO_ZONE, JobStop
from warren.sql.models import App, History, Job, Run, SkippedTicks
from warren.sql.models.job_tables import NO_SCHEDULE
from warren.sql.rows import Query, fetch, query
from warren.sql.run_status import RunStatus
from warren.sql.unfolded import Change

#: The most characters of the reason in the record of a skip.
MAX_REASON_LENGTH = 255
#: Changes of schedules read by one statement.
DEFAULT_CHANGES = 5_000


def record_change(
    session: Session, job: Job, *, timezone: str, by: str, now_ms: int, anchor_ms: int
) -> None:
    """Record the schedule in a job's row, which decides its ticks after the watermark."""
    session.add(
        History(
            job_id=job.id,
            changed_at=now_ms,
            changed_by=by,
            watermark=job.last_tick_at,
            enabled=job.is_enabled,
            schedule_kind=job.schedule_kind,
            schedule_value=job.schedule_value,
            schedule_options=job.schedule_options,
            timezone=timezone,
            misfire=job.misfire,
            late_limit=job.late_limit,
            anchor=anchor_ms,
        )
    )


def record_starts(
    session: Session, jobs: Sequence[tuple[int, Mapping[str, Any], str]], *, by: str, now_ms: int
) -> None:
    """Record the schedules of jobs that start, or continue in another time zone.

    `jobs` has the id, the attributes of the row, and the time zone of each.
    """
    rows = [
        {
            "job_id": job_id,
            "changed_at": now_ms,
            "changed_by": by,
            "watermark": row["last_tick_at"],
            "enabled": 1,
            "schedule_kind": row["schedule_kind"],
            "schedule_value": row["schedule_value"],
            "schedule_options": row["schedule_options"],
            "timezone": timezone,
            "misfire": row["misfire"],
            "late_limit": row["late_limit"],
            "anchor": row["next_tick_at"],
        }
        for job_id, row, timezone in jobs
    ]
    if rows:
        session.execute(insert(History), rows)


def record_stops(session: Session, stops: Sequence[JobStop], *, by: str, now_ms: int) -> None:
    """Record that the schedules of jobs ended by themselves."""
    rows = [
        {
            "job_id": stop.job_id,
            "changed_at": now_ms,
            "changed_by": by,
            "watermark": stop.watermark_ms,
            "enabled": 0,
            "schedule_kind": NO_SCHEDULE,
            "timezone": "",
            "misfire": "",
            "late_limit": 0,
            "anchor": 0,
        }
        for stop in stops
    ]
    if rows:
        session.execute(insert(History), rows)


def skipped(
    job_id: int, first: int, last: int, *, count: int, why: Explanation, now_ms: int
) -> SkippedTicks:
    """Return the record that the due times from `first` to `last` are skipped."""
    return SkippedTicks(
        job_id=job_id,
        from_at=first,
        to_at=last,
        count=count,
        reason=why.text[:MAX_REASON_LENGTH],
        why=why.why,
        recorded_at=now_ms,
    )


def record_skips(session: Session, skips: Sequence[SkippedTicks]) -> None:
    """Store records of skipped due times."""
    if skips:
        session.execute(insert(SkippedTicks), [_values(skip) for skip in skips])
        _note(session, skips)


def extend_skips(
    session: Session, skips: Sequence[SkippedTicks], watermarks: Mapping[int, int]
) -> list[SkippedTicks]:
    """Add due times to the last records of their jobs; return those that need a new record.

    A record is extended if it began within the same hour, has the same reason, and no due time lies
    in between. So a job that skips for days has one record per hour, not one per due time.

    Args:
        session: whose transaction has locked the jobs.
        skips: at most one for each job.
        watermarks: up to when the due times of jobs were decided before, by id; skips of other
            jobs get a new record.

    """
    last = _ending_at(session, watermarks) if watermarks else {}
    new, extended = [], []
    for skip in skips:
        record = last.get(skip.job_id)
        if record is None or _key(record) != _key(skip):
            new.append(skip)
            continue
        record.to_at, record.recorded_at = skip.to_at, skip.recorded_at
        record.count += skip.count
        extended.append(record)
    if extended:
        _note(session, extended)
    return new


def _note(session: Session, skips: Sequence[SkippedTicks]) -> None:
    """Have the board take in skips that this transaction records."""
    jobs, since_at = {skip.job_id for skip in skips}, min(skip.from_at for skip in skips)
    unfolded.note(session, Change(skips=sorted(jobs), skipped_since=since_at))


def changes(session: Session, *, at_once: int = DEFAULT_CHANGES) -> Iterator[History]:
    """Yield all changes, by job and in order.

    They are read `at_once` at a time, because the server would close a connection that is idle for
    as long as a million of them take.
    """
    job_id, change_id = 0, 0
    while True:
        rows = session.execute(
            select(History)
            .where(History.job_id >= job_id, or_(History.job_id > job_id, History.id > change_id))
            .order_by(History.job_id, History.id)
            .limit(at_once)
        )
        page = rows.scalars().all()
        yield from page
        if len(page) < at_once:
            return
        job_id, change_id = page[-1].job_id, page[-1].id


def changes_of(session: Session, job_id: int) -> Sequence[History]:
    """Return all changes of one job, in order."""
    changes = select(History).where(History.job_id == job_id).order_by(History.id)
    return session.execute(changes).scalars().all()


def last_change(session: Session, job_id: int) -> History | None:
    """Return the newest change of one job's schedule; None if there is none."""
    newest = select(History).where(History.job_id == job_id).order_by(History.id.desc()).limit(1)
    return session.execute(newest).scalar_one_or_none()


def zones(session: Session, job_ids: Iterable[int]) -> dict[int, str]:
    """Return the time zones that the jobs' present schedules were recorded with, by job."""
    return {
        job_id: timezone
        for chunk in chunks(job_ids)
        for job_id, timezone in session.execute(
            _newest(History.job_id.in_(chunk)).with_only_columns(History.job_id, History.timezone)
        )
    }


def in_other_zones(session: Session, timezone: str, *, kinds: Collection[str]) -> list[int]:
    """Return the enabled jobs of these kinds that have no zone and were recorded with another."""
    query = (
        _newest()
        .with_only_columns(Job.id)
        .join(Job, Job.id == History.job_id)
        .where(Job.is_enabled == 1, Job.schedule_kind.in_(kinds), HAS_NO_ZONE)
        .where(History.timezone != timezone)
    )
    return list(session.execute(query.order_by(Job.id)).scalars())


def _newest(*of: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Return a SELECT of each job's newest change."""
    newest = select(func.max(History.id).label("id")).where(*of).group_by(History.job_id).subquery()
    return select(History).join(newest, newest.c.id == History.id)


def _ending_at(session: Session, ends: Mapping[int, int]) -> dict[int, SkippedTicks]:
    """Return the records that end at these instants, of the last hour before, by job."""
    return {
        skip.job_id: skip
        for chunk in chunks(ends)
        for skip in session.execute(
            select(SkippedTicks).where(
                SkippedTicks.job_id.in_(chunk),
                SkippedTicks.from_at > min(ends.values()) - HOUR_MS,
                SkippedTicks.to_at >= min(ends.values()),
            )
        ).scalars()
        if skip.to_at == ends[skip.job_id]
    }


def _key(skip: SkippedTicks) -> tuple[int, str, str | None]:
    """Return what skipped due times in one record have in common."""
    return skip.from_at // HOUR_MS, skip.reason, skip.why


def _values(skip: SkippedTicks) -> dict[str, int | str | None]:
    return {
        "job_id": skip.job_id,
        "from_at": skip.from_at,
        "to_at": skip.to_at,
        "count": skip.count,
        "reason": skip.reason,
        "why": skip.why,
        "recorded_at": skip.recorded_at,
    }


class SkipLine(NamedTuple):
    """Skipped due times of a job: `number` of them from `from_at` to `to_at`, and why.

    Backfills have made good `made_good` of them since, the last by run `made_good_by`.
    """

    id: int
    job_id: int
    job: str | None
    app: str | None
    timezone: str | None
    from_at: int
    to_at: int
    number: int
    reason: str
    why: str | None
    recorded_at: int
    made_good: int = 0
    made_good_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipFilter:
    """Which skips to list: None = all. `since_ms` and `until_ms` are due times.

    `before` is where an earlier page ended: the last due time and the id of its last skip.
    """

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    job_id: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: tuple[int, int] | None = None
    limit: int = 50


def skip_lines(session: Session, wanted: SkipFilter) -> list[SkipLine]:
    """Return skips, the latest due time first; of a deleted job, `job` and `app` are None."""
    statement = (
        _skip_query()
        .order_by(SkippedTicks.to_at.desc(), SkippedTicks.id.desc())
        .limit(wanted.limit)
    )
    if wanted.app_ids is not None:
        statement = statement.where(Job.app_id.in_(wanted.app_ids))
    if wanted.job_ids is not None:
        statement = statement.where(SkippedTicks.job_id.in_(wanted.job_ids))
    if wanted.job_id is not None:
        statement = statement.where(SkippedTicks.job_id == wanted.job_id)
    if wanted.since_ms is not None:
        statement = statement.where(SkippedTicks.to_at >= wanted.since_ms)
    if wanted.until_ms is not None:
        statement = statement.where(SkippedTicks.from_at < wanted.until_ms)
    if wanted.before is not None:
        last_at, last_id = wanted.before
        is_same = and_(SkippedTicks.to_at == last_at, SkippedTicks.id < last_id)
        statement = statement.where(or_(SkippedTicks.to_at < last_at, is_same))
    return fetch(session, SkipLine, statement)


def skips_of_jobs(
    session: Session, job_ids: Sequence[int], *, from_ms: int, until_ms: int, limit: int
) -> list[SkipLine]:
    """Return the latest skips of a few jobs in a span of due times, up to `limit` of each job."""
    if not job_ids:
        return []
    values = {"from_ms": from_ms, "until_ms": until_ms, "most": limit}
    values |= {f"job_{number}": job_id for number, job_id in enumerate(job_ids)}
    found = session.connection().execute(_latest_of_jobs(len(job_ids)), values).scalars().all()
    return fetch_by_ids(session, SkipLine, _skip_query(), SkippedTicks.id, found)


# Built once for each number of jobs: building it takes longer than executing it.
@lru_cache(maxsize=64)
def _latest_of_jobs(count: int) -> CompoundSelect[int]:
    value = partial(bindparam, type_=BigInteger())
    latest = (
        select(SkippedTicks.id)
        .where(SkippedTicks.from_at < value("until_ms"), SkippedTicks.to_at >= value("from_ms"))
        .order_by(SkippedTicks.from_at.desc())
        .limit(value("most"))
    )
    by_job = (
        latest.where(SkippedTicks.job_id == bindparam(f"job_{n}")).subquery() for n in range(count)
    )
    return union_all(*(select(skips) for skips in by_job))


def skipped_spans(
    session: Session, job_id: int, skip_ids: Collection[int]
) -> list[tuple[int, int]]:
    """Return the first and last due time of each of these records that is of this job."""
    columns = select(SkippedTicks.from_at, SkippedTicks.to_at)
    wanted = columns.where(SkippedTicks.id.in_(sorted(skip_ids)), SkippedTicks.job_id == job_id)
    return [(first, last) for first, last in session.execute(wanted)]


def _made_good(column: ColumnElement[int]) -> ScalarSelect[int]:
    """Return a value of the runs of backfills that have succeeded for skipped due times."""
    good = select(column).where(
        Run.job_id == SkippedTicks.job_id,
        Run.scheduled_at.between(SkippedTicks.from_at, SkippedTicks.to_at),
        Run.backfill_id.is_not(None),
        Run.status == RunStatus.SUCCEEDED,
    )
    return good.correlate(SkippedTicks).scalar_subquery()


def _skip_query() -> Query:
    named: dict[str, Any] = {"job": Job.name, "app": App.name, "timezone": Job.timezone}
    named |= {"made_good": _made_good(func.count(Run.scheduled_at.distinct()))}
    named |= {"made_good_by": _made_good(func.max(Run.id))}
    skips = query(SkipLine, SkippedTicks, number=SkippedTicks.count, **named)
    return skips.outerjoin(Job, Job.id == SkippedTicks.job_id).outerjoin(App, App.id == Job.app_id)
