"""Jobs: claiming the due ones, moving their watermark, and reading them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session

from sql.batch import Guard, chunks, update_each
from sql.dialects.hints import PRIMARY_KEY, use_index
from sql.errors import Conflict, NotFound
from sql.explanation import Explanation
from sql.models import App, Job
from sql.rows import fetch, query

_IS_ENABLED = Guard(f"{Job.is_enabled.expression} = 1")


class JobToPlan(NamedTuple):
    """What planning runs of a job needs."""

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
    """What dispatching and ending runs of a job needs."""

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


class MissedJob(NamedTuple):
    """What a decision on misfires of a job needs."""

    id: int
    misfire: str
    is_enabled: int
    next_tick_at: int


def claim_due(session: Session, *, until_ms: int, limit: int) -> list[JobToPlan]:
    """Lock enabled jobs with a tick up to `until_ms` that nobody else holds; return them."""
    due = (
        query(JobToPlan, Job)
        .where(Job.is_enabled == 1, Job.next_tick_at <= until_ms)
        .order_by(Job.next_tick_at)
        .limit(limit)
    )
    return fetch(session, JobToPlan, due.with_for_update(skip_locked=True))


def claim_by_ids(session: Session, job_ids: Sequence[int]) -> list[MissedJob]:
    """Lock those of the jobs that nobody else holds; return what a decision on misfires needs."""
    wanted = use_index(query(MissedJob, Job), Job, PRIMARY_KEY).where(Job.id.in_(job_ids))
    return fetch(session, MissedJob, wanted.with_for_update(skip_locked=True))


def next_tick(session: Session) -> int | None:
    """Return the earliest tick that is not planned yet, of all enabled jobs."""
    return session.scalar(earliest_tick())


def earliest_tick() -> Select[int]:
    """Return the statement that reads `next_tick`."""
    return select(func.min(Job.next_tick_at)).where(Job.is_enabled == 1)


def advance(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Move the watermark and next tick of claimed jobs: `id, last_tick_at, next_tick_at`."""
    update_each(session, Job, rows, guard=_IS_ENABLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStop:
    """That a job stops by itself after its watermark, and why."""

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
    """Return, by id, what planning a run of these jobs needs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in fetch(session, JobToPlan, query(JobToPlan, Job).where(Job.id.in_(chunk)))
    }


def for_runs(session: Session, job_ids: Iterable[int]) -> dict[int, JobToRun]:
    """Return, by id, what dispatching and ending runs of these jobs needs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in fetch(session, JobToRun, query(JobToRun, Job).where(Job.id.in_(chunk)))
    }


def by_ids(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return those of the jobs that there are."""
    return {
        job.id: job
        for chunk in chunks(job_ids)
        for job in session.execute(select(Job).where(Job.id.in_(chunk))).scalars()
    }


def lock(session: Session, job_id: int) -> Job:
    """Lock a job's row and return it.

    Raises:
        NotFound: it was deleted meanwhile.

    """
    return lock_all(session, [job_id])[job_id]


def lock_all(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Lock the rows of jobs in the order of their ids; return them by id.

    Raises:
        NotFound: one was deleted meanwhile.

    """
    ids = sorted(set(job_ids))
    # What this session read of them before the lock may be old by now.
    rows = use_index(select(Job), Job, PRIMARY_KEY).execution_options(populate_existing=True)
    found = {
        job.id: job
        for chunk in chunks(ids)
        for job in session.execute(
            rows.where(Job.id.in_(chunk)).order_by(Job.id).with_for_update()
        ).scalars()
    }
    for job_id in ids:
        if job_id not in found:
            raise NotFound(f"no job with id {job_id}")
    return found


def find(session: Session, name: str) -> Job:
    """Return a job by NAME, or by APP/NAME where two apps share a name.

    Raises:
        NotFound: there is none.
        Conflict: several apps have a job of that name.

    """
    app, _, short = name.rpartition("/")
    statement = select(Job).join(App, App.id == Job.app_id).where(Job.name == short)
    if app:
        statement = statement.where(App.name == app)
    found = session.execute(statement.limit(2)).scalars().all()
    if not found:
        raise NotFound(f"no job named {name!r}")
    if len(found) > 1:
        raise Conflict(f"several apps have a job named {name!r}; write APP/{name}")
    return found[0]


def app_ids(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return the apps of jobs."""
    statement = select(Job.app_id).where(Job.id.in_(list(job_ids))).distinct()
    return set(session.execute(statement).scalars())


def find_in_app(session: Session, app_id: int, name: str) -> Job | None:
    """Return an app's job by its name, None when there is none."""
    return session.execute(
        select(Job).where(Job.app_id == app_id, Job.name == name)
    ).scalar_one_or_none()


#: Built once, because each trigger of the API asks it.
_NAMED = (
    select(App.id, Job.id, App.name, Job.name)
    .join(App, App.id == Job.app_id)
    .where(App.name == bindparam("its_app"), Job.name == bindparam("its_name"))
)


def named(session: Session, app: str, name: str) -> tuple[int, int] | None:
    """Return the ids of the app and of the job of these names, None when there is no such job."""
    found = session.connection().execute(_NAMED, {"its_app": app, "its_name": name}).one_or_none()
    # To MariaDB and MySQL a name with spaces behind it is the same one.
    return None if found is None or found[2:] != (app, name) else (found[0], found[1])


def ids_in_app(session: Session, app_id: int, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of an app's jobs, given by name, that exist."""
    return {
        name: job_id
        for chunk in chunks(names)
        for name, job_id in session.execute(
            select(Job.name, Job.id).where(Job.app_id == app_id, Job.name.in_(chunk))
        )
    }


def is_any(session: Session) -> bool:
    """Say whether there is a job."""
    return session.execute(select(Job.id).limit(1)).first() is not None


def find_many(session: Session, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Job]:
    """Return those of the jobs, by app id and name, that there are."""
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


def listing(session: Session) -> Sequence[tuple[Job, str]]:
    """Return all jobs with their app's name, by app and name."""
    listed = select(Job, App.name).join(App, App.id == Job.app_id).order_by(App.name, Job.name)
    return session.execute(listed).all()
