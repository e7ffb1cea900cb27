"""Jobs: claims due ones, moves their watermarks, and reads them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy import insert as insert_into
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from sql.batch import Guard, chunks, update_each
from sql.dialects.hints import PRIMARY_KEY, use_index
from sql.errors import Ambiguous, LookupFailure, NotFound
from sql.explanation import Explanation
from sql.models import App, Job
from sql.rows import fetch, fetch_plain, query

_IS_ENABLED = Guard(f"{Job.is_enabled.expression} = 1")


class JobToPlan(NamedTuple):
    """The columns of a job needed to plan its runs."""

    id: int
    app_id: int
    name: str
    schedule_kind: str
    schedule_value: str | None
    timezone: str | None
    misfire: str
    handler: str | None
    param: str | None
    retries: int
    route: str
    script_version: int | None
    last_tick_at: int
    next_tick_at: int


class JobToRun(NamedTuple):
    """The columns of a job needed to dispatch and end its runs."""

    id: int
    route: str
    block: str
    timeout: int
    concurrency: int
    fresh_process: int
    retry_delay: int
    delivery: str
    is_enabled: int
    stop_reason: str | None


class JobToTrigger(NamedTuple):
    """The columns of a job needed to plan a run of it that somebody asked for."""

    id: int
    app_id: int
    app: str
    name: str
    handler: str | None
    param: str | None
    retries: int
    route: str
    script_version: int | None


class MissedJob(NamedTuple):
    """The columns of a job needed to decide about its misfires."""

    id: int
    misfire: str
    is_enabled: int
    next_tick_at: int


def claim_due(session: Session, *, until_ms: int, limit: int) -> list[JobToPlan]:
    """Lock and return enabled jobs with a tick up to `until_ms`; skip those locked by others."""
    due = (
        query(JobToPlan, Job)
        .where(Job.is_enabled == 1, Job.next_tick_at <= until_ms)
        .order_by(Job.next_tick_at)
        .limit(limit)
    )
    # Without the index, MySQL locks all jobs of a small table before it takes the first.
    due = use_index(due, Job, "i_status_next").with_for_update(skip_locked=True)
    return fetch(session, JobToPlan, due)


def claim_by_ids(session: Session, job_ids: Sequence[int]) -> list[MissedJob]:
    """Lock and return those of the jobs that are not locked by others."""
    wanted = use_index(query(MissedJob, Job), Job, PRIMARY_KEY).where(Job.id.in_(job_ids))
    return fetch(session, MissedJob, wanted.with_for_update(skip_locked=True))


def next_tick(session: Session) -> int | None:
    """Return the earliest unplanned tick of all enabled jobs; None without enabled jobs."""
    return session.scalar(earliest_tick())


def earliest_tick() -> Select[int]:
    """Return the SELECT of `next_tick`."""
    return select(func.min(Job.next_tick_at)).where(Job.is_enabled == 1)


def advance(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Move the watermark and next tick of claimed jobs: `id, last_tick_at, next_tick_at`."""
    update_each(session, Job, rows, guard=_IS_ENABLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStop:
    """A job whose schedule ends after its watermark, and why."""

    job_id: int
    watermark_ms: int
    reason: Explanation


def stop(session: Session, stops: Sequence[JobStop]) -> None:
    """Stop claimed jobs whose schedules have ended or cannot be computed."""
    rows = [
        {
            "id": one.job_id,
            "is_enabled": 0,
            "last_tick_at": one.watermark_ms,
            "next_tick_at": 0,
            "stop_reason": one.reason.text[:512],
            "stop_why": one.reason.why,
        }
        for one in stops
    ]
    update_each(session, Job, rows, guard=_IS_ENABLED)


def to_plan(session: Session, job_ids: Iterable[int]) -> dict[int, JobToPlan]:
    """Return the jobs by id, with what is needed to plan runs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in fetch(session, JobToPlan, query(JobToPlan, Job).where(Job.id.in_(chunk)))
    }


def for_runs(session: Session, job_ids: Iterable[int]) -> dict[int, JobToRun]:
    """Return the jobs by id, with what is needed to dispatch and end runs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in fetch(session, JobToRun, query(JobToRun, Job).where(Job.id.in_(chunk)))
    }


def by_ids(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return those of the jobs that exist, by id."""
    return {
        job.id: job
        for chunk in chunks(job_ids)
        for job in session.execute(select(Job).where(Job.id.in_(chunk))).scalars()
    }


def lock(session: Session, job_id: int) -> Job:
    """Lock and return a job.

    Raises:
        NotFound: there is no such job.

    """
    return lock_all(session, [job_id])[job_id]


def lock_all(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Lock jobs in the order of their ids; return them by id.

    Raises:
        NotFound: a job does not exist.

    """
    ids = sorted(set(job_ids))
    # What this session read before the lock may be outdated.
    rows = use_index(select(Job), Job, PRIMARY_KEY).execution_options(populate_existing=True)
    locked = {
        job.id: job
        for chunk in chunks(ids)
        for job in session.execute(
            rows.where(Job.id.in_(chunk)).order_by(Job.id).with_for_update()
        ).scalars()
    }
    for job_id in ids:
        if job_id not in locked:
            raise NotFound(LookupFailure.NO_JOB, id=job_id)
    return locked


def find(session: Session, name: str) -> Job:
    """Return a job, given as NAME, or as APP/NAME if two apps share the name.

    Raises:
        NotFound: there is no such job.
        Ambiguous: several apps have a job of that name.

    """
    app, _, short = name.rpartition("/")
    statement = select(Job).join(App, App.id == Job.app_id).where(Job.name == short)
    if app:
        statement = statement.where(App.name == app)
    jobs = session.execute(statement.limit(2)).scalars().all()
    if not jobs:
        raise NotFound(LookupFailure.NO_JOB_NAMED, name=name)
    if len(jobs) > 1:
        raise Ambiguous(LookupFailure.SEVERAL_JOBS_NAMED, name=name)
    return jobs[0]


def app_ids(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return the ids of the jobs' apps."""
    statement = select(Job.app_id).where(Job.id.in_(list(job_ids))).distinct()
    return set(session.execute(statement).scalars())


def find_in_app(session: Session, app_id: int, name: str) -> Job | None:
    """Return an app's job by name; None if there is none."""
    return session.execute(
        select(Job).where(Job.app_id == app_id, Job.name == name)
    ).scalar_one_or_none()


#: Built once, because each trigger of the API executes it.
_NAMED = (
    select(App.id, Job.id, App.name, Job.name)
    .join(App, App.id == Job.app_id)
    .where(App.name == bindparam("its_app"), Job.name == bindparam("its_name"))
)


def named(session: Session, app: str, name: str) -> tuple[int, int] | None:
    """Return the ids of the app and the job with these names; None if there is no such job."""
    row = session.connection().execute(_NAMED, {"its_app": app, "its_name": name}).one_or_none()
    # MariaDB and MySQL ignore trailing spaces when they compare names.
    return None if row is None or row[2:] != (app, name) else (row[0], row[1])


#: Built once, because each trigger of the API executes it.
_TO_TRIGGER = (
    query(JobToTrigger, Job, app=App.name)
    .join(App, App.id == Job.app_id)
    .where(Job.id == bindparam("its_id"))
)


def to_trigger(session: Session, job_id: int) -> JobToTrigger | None:
    """Return what a run of a job is planned from; None if there is no such job."""
    return next(iter(fetch_plain(session, JobToTrigger, _TO_TRIGGER, {"its_id": job_id})), None)


def ids_in_app(session: Session, app_id: int, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of an app's jobs by name; unknown names are left out."""
    return {
        name: job_id
        for chunk in chunks(names)
        for name, job_id in session.execute(
            select(Job.name, Job.id).where(Job.app_id == app_id, Job.name.in_(chunk))
        )
    }


def is_any(session: Session) -> bool:
    """Return whether there is any job."""
    return session.execute(select(Job.id).limit(1)).first() is not None


def next_ticks(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the next unplanned tick of those of the jobs that are enabled, by id."""
    enabled = select(Job.id, Job.next_tick_at).where(Job.is_enabled == 1)
    return {
        job_id: tick
        for chunk in chunks(job_ids)
        for job_id, tick in session.execute(enabled.where(Job.id.in_(chunk)))
    }


def find_many(session: Session, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Job]:
    """Return those of the jobs that exist, by app id and name."""
    names: dict[int, list[str]] = defaultdict(list)
    for app_id, name in keys:
        names[app_id].append(name)
    return {
        (app_id, job.name): job
        for app_id, listed in names.items()
        for chunk in chunks(listed)
        for job in session.execute(
            select(Job).where(Job.app_id == app_id, Job.name.in_(chunk))
        ).scalars()
    }


def read_sources(session: Session, jobs: Iterable[Job]) -> None:
    """Read the sources of jobs' scripts together, for callers that look at each of them."""
    scripted = {job.id: job for job in jobs if job.script_version is not None}
    for chunk in chunks(scripted):
        rows = session.execute(select(Job.id, Job.script_source).where(Job.id.in_(chunk)))
        for job_id, source in rows:
            set_committed_value(scripted[job_id], "script_source", source)


def insert(session: Session, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], int]:
    """Insert jobs, given by the row's attributes; return their ids by app id and name."""
    if not rows:
        return {}
    session.execute(insert_into(Job), rows)
    names: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        names[row["app_id"]].append(row["name"])
    return {
        (app_id, name): job_id
        for app_id, listed in names.items()
        for name, job_id in ids_in_app(session, app_id, listed).items()
    }


def names_in_apps(session: Session, app_ids: Iterable[int]) -> list[tuple[int, int, str]]:
    """Return id, app id and name of all jobs of these apps."""
    wanted = select(Job.id, Job.app_id, Job.name).where(Job.app_id.in_(list(app_ids)))
    return [(job_id, app_id, name) for job_id, app_id, name in session.execute(wanted)]


def listing(session: Session) -> Sequence[tuple[Job, str]]:
    """Return all jobs with their app's name, sorted by app and name."""
    listed = select(Job, App.name).join(App, App.id == Job.app_id).order_by(App.name, Job.name)
    return session.execute(listed).all()
