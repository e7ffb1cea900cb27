"""Jobs whose ticks are due: claims them, moves their watermarks, and stops their schedules.

Parked jobs are fixed delays that wait for the end of their tick, which sets the next one. Changes
to many jobs are written with a few statements: the ORM would send one for each job.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, func, inspect, select, update
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import get_history, set_committed_value

from warren.sql.batch import ALREADY_LOCKED, Guard, chunks, fetch_by_ids, modify, update_each
from warren.sql.dialects.supported import LONG_TEXT, PRIMARY_KEY, use_index
from warren.sql.explanation import Explanation
from warren.sql.models import Job
from warren.sql.models.job_tables import BY_NEXT_TICK
from warren.sql.rows import fetch, query

_COLUMNS = Job.__mapper__.columns
_NAMES = frozenset(_COLUMNS.keys())
_LONG_TEXTS = frozenset(name for name, column in _COLUMNS.items() if column.type is LONG_TEXT)


def write(session: Session, jobs: Iterable[Job]) -> None:
    """Write the changes to locked jobs, and everything else that the session has pending.

    Jobs with the same columns changed share a statement, unless one of these holds long texts:
    then each has its own.
    """
    alike: dict[tuple[str, ...], list[Job]] = defaultdict(list)
    for job in jobs:
        names = _changed(job)
        if names and _LONG_TEXTS.isdisjoint(names):
            alike[names].append(job)
    for names, those in alike.items():
        rows = [{name: getattr(job, name) for name in ("id", *names)} for job in those]
        update_each(session, Job, rows, guard=ALREADY_LOCKED)
        for job in those:
            for name in names:
                set_committed_value(job, name, getattr(job, name))
    session.flush()


def _changed(job: Job) -> tuple[str, ...]:
    touched = sorted(_NAMES - inspect(job).unmodified)
    return tuple(name for name in touched if get_history(job, name).has_changes())


#: The next tick of a parked job: never due, so no claim finds it.
PARKED_MS = 2**62


class JobSchedule(NamedTuple):
    """The columns of a job that decide its next due time, and what becomes of those it missed."""

    id: int
    app_id: int
    name: str
    schedule_kind: str
    schedule_value: str | None
    schedule_options: str | None
    timezone: str | None
    misfire: str
    late_limit: int
    catch_up_within: int
    catch_up_most: int
    is_enabled: int
    last_tick_at: int
    next_tick_at: int
    stop_reason: str | None
    stop_why: str | None


def lock(session: Session, job_ids: Iterable[int]) -> list[JobSchedule]:
    """Lock and return the jobs among these that are parked."""
    parked = (
        # By primary key, because the other index would lock all parked jobs.
        use_index(query(JobSchedule, Job), Job, PRIMARY_KEY)
        .where(
            Job.id.in_(sorted(set(job_ids))),
            Job.is_enabled == 1,
            Job.next_tick_at == PARKED_MS,
        )
        .order_by(Job.id)
    )
    return fetch(session, JobSchedule, parked.with_for_update())


def watermarks(session: Session) -> dict[int, int]:
    """Return the watermarks of all parked jobs, by id."""
    parked = select(Job.id, Job.last_tick_at).where(
        Job.is_enabled == 1, Job.next_tick_at == PARKED_MS
    )
    return dict(session.execute(parked).all())


#: Whether a job is in the schedulers' time zone.
HAS_NO_ZONE = func.coalesce(Job.timezone, "") == ""

_IS_ENABLED = Guard(f"{Job.is_enabled.expression} = 1")


class JobToPlan(NamedTuple):
    """The columns of a job needed to plan its runs."""

    id: int
    app_id: int
    name: str
    schedule_kind: str
    schedule_value: str | None
    schedule_options: str | None
    timezone: str | None
    run_date_days: int
    run_date_months: int
    run_date_workdays: int
    run_date_calendar: str | None
    misfire: str
    late_limit: int
    catch_up_within: int
    catch_up_most: int
    handler: str | None
    param: str | None
    param_template: str | None
    retries: int
    route: str
    script_version: int | None
    last_tick_at: int
    next_tick_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStop:
    """A job whose schedule ends after its watermark, and why."""

    job_id: int
    watermark_ms: int
    reason: Explanation


def claim_due(session: Session, *, until_ms: int, limit: int) -> list[JobToPlan]:
    """Lock and return enabled jobs with a tick up to `until_ms`; skip those locked by others."""
    due = (
        query(JobToPlan, Job)
        .where(Job.is_enabled == 1, Job.next_tick_at <= until_ms)
        .order_by(Job.next_tick_at)
        .limit(limit)
    )
    # Without the index, MySQL locks all jobs of a small table before it takes the first.
    due = use_index(due, Job, BY_NEXT_TICK).with_for_update(skip_locked=True)
    return fetch(session, JobToPlan, due)


def claim_by_ids(session: Session, job_ids: Sequence[int]) -> list[JobSchedule]:
    """Lock and return the jobs among these that are not locked by others."""
    wanted = use_index(query(JobSchedule, Job), Job, PRIMARY_KEY).where(Job.id.in_(job_ids))
    return fetch(session, JobSchedule, wanted.with_for_update(skip_locked=True))


def next_tick(session: Session) -> int | None:
    """Return the earliest unplanned tick of all enabled jobs; None without enabled jobs."""
    return session.scalar(earliest_tick())


def next_ticks(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the next unplanned tick of the enabled jobs among these, by id."""
    enabled = select(Job.id, Job.next_tick_at).where(Job.is_enabled == 1)
    return {
        job_id: tick
        for chunk in chunks(job_ids)
        for job_id, tick in session.execute(enabled.where(Job.id.in_(chunk)))
    }


def earliest_tick() -> Select[int]:
    """Return the SELECT of `next_tick`."""
    return select(func.min(Job.next_tick_at)).where(Job.is_enabled == 1)


def to_plan(session: Session, job_ids: Iterable[int]) -> dict[int, JobToPlan]:
    """Return the jobs by id, with what is needed to plan runs."""
    jobs = fetch_by_ids(session, JobToPlan, query(JobToPlan, Job), Job.id, job_ids)
    return {job.id: job for job in jobs}


def advance(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Move the watermark and next tick of claimed jobs: `id, last_tick_at, next_tick_at`."""
    update_each(session, Job, rows, guard=_IS_ENABLED)


def replan(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set the next ticks of locked jobs: `id, next_tick_at`."""
    update_each(session, Job, rows, guard=_IS_ENABLED)


def make_due(
    session: Session, job_ids: Iterable[int], *, kinds: Collection[str], at_ms: int
) -> None:
    """Have jobs claimed at `at_ms` at the latest.

    Only those that are still enabled, without a zone of their own, and of these kinds.
    """
    for chunk in chunks(job_ids):
        later = (
            update(Job)
            .where(Job.id.in_(chunk), Job.is_enabled == 1, Job.next_tick_at > at_ms)
            .where(Job.schedule_kind.in_(kinds), HAS_NO_ZONE)
        )
        modify(session, later.values(next_tick_at=at_ms))


def stop(session: Session, stops: Sequence[JobStop]) -> None:
    """Stop claimed jobs whose schedules have ended or cannot be computed."""
    rows = [
        {
            "id": stopped.job_id,
            "is_enabled": 0,
            "last_tick_at": stopped.watermark_ms,
            "next_tick_at": 0,
            "stop_reason": stopped.reason.text[:512],
            "stop_why": stopped.reason.why,
        }
        for stopped in stops
    ]
    update_each(session, Job, rows, guard=_IS_ENABLED)
