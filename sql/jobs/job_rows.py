"""Inserts jobs, and locks and reads them by id; keeps what routes remember about them.

A route remembers so that a rotation continues across schedulers and restarts.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, not_, null, or_, select
from sqlalchemy import insert as insert_into
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from warren.sql.batch import chunks, fetch_by_ids, insert_or_ignore, insert_or_replace
from warren.sql.dialects.supported import PRIMARY_KEY, use_index
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs.job_names import NamedJob, ids_in_app, of_jobs
from warren.sql.models import App, Job, Registration, RouteMemory
from warren.sql.models.job_tables import NO_SCHEDULE
from warren.sql.registry import presence
from warren.sql.rows import fetch, fetch_plain, query


class JobToRun(NamedTuple):
    """The columns of a job needed to dispatch and end its runs."""

    id: int
    schedule_kind: str
    route: str
    block: str
    timeout: int
    concurrency: int
    scope: str
    limits: str | None
    priority: str
    max_waiting: int
    process: str
    retry_delay: int
    retry_backoff: str
    retry_most: int
    retry_jitter: int
    delivery: str
    is_enabled: int
    stop_reason: str | None
    stop_why: str | None


class JobToTrigger(NamedTuple):
    """The columns of a job needed to plan a requested run.

    `scheduler_load` is what the scheduler with the last heartbeat reported; None = there is none,
    or a run calls the job.
    """

    id: int
    app_id: int
    app: str
    name: str
    timezone: str | None
    run_date_days: int
    run_date_months: int
    run_date_workdays: int
    run_date_calendar: str | None
    schedule_options: str | None
    handler: str | None
    param: str | None
    param_template: str | None
    retries: int
    route: str
    script_version: int | None
    max_waiting: int
    concurrency: int
    schedule_kind: str
    is_enabled: int
    scheduler_load: str | None

    @property
    def is_stopped(self) -> bool:
        """Whether it has a schedule that is stopped; a job without one is only ever called."""
        return self.schedule_kind != NO_SCHEDULE and self.is_enabled != 1


def for_runs(session: Session, job_ids: Iterable[int]) -> dict[int, JobToRun]:
    """Return the jobs by id, with what is needed to dispatch and end runs."""
    jobs = fetch_by_ids(session, JobToRun, query(JobToRun, Job), Job.id, job_ids)
    return {job.id: job for job in jobs}


def by_ids(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return jobs by id; those that do not exist are left out."""
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


def lock_if_any(session: Session, job_id: int) -> Job | None:
    """Lock and return a job; None if there is none."""
    rows = select(Job).where(Job.id == job_id).execution_options(populate_existing=True)
    return session.execute(rows.with_for_update()).scalar_one_or_none()


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


def lock_rows(session: Session, job_ids: Iterable[int]) -> None:
    """Lock the jobs among these that exist, in the order of their ids.

    Code that plans runs for due times by their state holds this lock while it reads that state.
    """
    wanted = use_index(select(Job.id), Job, PRIMARY_KEY)
    for chunk in chunks(sorted(set(job_ids))):
        session.execute(wanted.where(Job.id.in_(chunk)).order_by(Job.id).with_for_update()).all()


def try_lock(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Lock the jobs among these that are not locked; return their ids."""
    wanted = use_index(select(Job.id), Job, PRIMARY_KEY)
    return {
        job_id
        for chunk in chunks(sorted(set(job_ids)))
        for job_id in session.execute(
            wanted.where(Job.id.in_(chunk)).order_by(Job.id).with_for_update(skip_locked=True)
        ).scalars()
    }


def app_ids(session: Session, job_ids: Iterable[int]) -> set[int]:
    statement = select(Job.app_id).where(Job.id.in_(list(job_ids))).distinct()
    return set(session.execute(statement).scalars())


#: Built once, because each trigger of the API executes it.
_LAST_SCHEDULER = (
    select(Registration.load)
    .where(Registration.kind == presence.ADMIN, Registration.app == presence.SCHEDULER)
    .order_by(Registration.beat_at.desc())
    .limit(1)
    .scalar_subquery()
)
_TO_TRIGGER = query(JobToTrigger, Job, app=App.name, scheduler_load=_LAST_SCHEDULER).join(
    App, App.id == Job.app_id
)
_ITS_ID = _TO_TRIGGER.where(Job.id == bindparam("its_id"))
_ITS_PATH = _TO_TRIGGER.where(App.name == bindparam("its_app"), Job.name == bindparam("its_name"))


def to_trigger(session: Session, wanted: int | tuple[str, str]) -> JobToTrigger | None:
    """Return what a run of a job is planned from; None if there is no such job.

    `wanted` is its id, or its app and name.
    """
    if isinstance(wanted, int):
        return next(iter(fetch_plain(session, JobToTrigger, _ITS_ID, {"its_id": wanted})), None)
    app, name = wanted
    names = {"its_app": app, "its_name": name}
    job = next(iter(fetch_plain(session, JobToTrigger, _ITS_PATH, names)), None)
    # MariaDB and MySQL ignore trailing spaces when they compare names.
    return job if job is None or (job.app, job.name) == wanted else None


def to_call(
    session: Session, keys: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], JobToTrigger]:
    """Return the jobs that exist, by app id and name; others are left out."""
    names: dict[int, set[str]] = defaultdict(set)
    for app_id, name in keys:
        names[app_id].add(name)
    of_apps = query(JobToTrigger, Job, app=App.name, scheduler_load=null()).join(
        App, App.id == Job.app_id
    )
    return {
        (app_id, job.name): job
        for app_id, wanted in names.items()
        for chunk in chunks(sorted(wanted))
        for job in fetch(
            session, JobToTrigger, of_apps.where(Job.app_id == app_id, Job.name.in_(chunk))
        )
    }


def without_rule(
    session: Session, *, kinds: Collection[str], dated: Collection[str], app_ids: Collection[int]
) -> list[NamedJob]:
    """Return the jobs of some apps whose schedules were stored without a rule, by app and name.

    They are of one of these kinds, or of one that is `dated` and has a `from`.
    """
    stored = Job.schedule_options
    has_from = and_(Job.schedule_kind.in_(sorted(dated)), stored.contains('"from":'))
    wanted = (
        of_jobs()
        .where(Job.app_id.in_(sorted(app_ids)))
        .where(or_(Job.schedule_kind.in_(sorted(kinds)), has_from))
        .where(or_(stored.is_(None), not_(stored.contains('"rule":'))))
    )
    return fetch(session, NamedJob, wanted.order_by(App.name, Job.name))


def is_any(session: Session) -> bool:
    return session.execute(select(Job.id).limit(1)).first() is not None


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


def lock_route_memories(session: Session, job_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the memory of each job, locked until the transaction ends; empty for a new job.

    A missing row is inserted, so that two schedulers with the first runs of a job wait for each
    other.
    """
    wanted = sorted(set(job_ids))
    memories = _lock_memories(session, wanted)
    missing = [job_id for job_id in wanted if job_id not in memories]
    if missing:
        empty = [{"job_id": job_id, "memory": "{}"} for job_id in missing]
        insert_or_ignore(session, RouteMemory, empty, key="job_id")
        memories |= _lock_memories(session, missing)
    return memories


def store_route_memories(session: Session, memories: Mapping[int, Mapping[str, Any]]) -> None:
    """Store what routes remember from now on."""
    if not memories:
        return
    rows = [
        {"job_id": job_id, "memory": json.dumps(memory)}
        for job_id, memory in sorted(memories.items())
    ]
    insert_or_replace(session, RouteMemory, rows, key="job_id")


def _lock_memories(session: Session, job_ids: list[int]) -> dict[int, dict[str, Any]]:
    rows = session.execute(
        select(RouteMemory.job_id, RouteMemory.memory)
        .where(RouteMemory.job_id.in_(job_ids))
        .order_by(RouteMemory.job_id)
        .with_for_update()
    )
    return {job_id: json.loads(memory) for job_id, memory in rows}
