"""Jobs: claiming the due ones, moving their watermark, and reading them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sql.batch import chunks, update_each
from sql.errors import Conflict, NotFound
from sql.models import App, Job
from sql.rows import AnyRow, Rows

TABLE = Job.__tablename__

_PLANNING_COLUMNS = (
    Job.id,
    Job.job_group,
    Job.job_desc,
    Job.schedule_type,
    Job.schedule_conf,
    Job.timezone,
    Job.misfire_strategy,
    Job.executor_handler,
    Job.executor_param,
    Job.executor_fail_retry_count,
    Job.executor_route_strategy,
    Job.glue_id,
    Job.trigger_last_time,
    Job.trigger_next_time,
)

_RUNNING_COLUMNS = (
    Job.id,
    Job.job_group,
    Job.job_desc,
    Job.executor_route_strategy,
    Job.executor_handler,
    Job.executor_block_strategy,
    Job.executor_timeout,
    Job.concurrency,
    Job.fresh_process,
    Job.glue_id,
    Job.retry_delay,
    Job.delivery,
    Job.trigger_status,
    Job.stop_reason,
)


def claim_due(session: Session, *, until_ms: int, limit: int) -> Rows:
    """Lock enabled jobs with a tick up to `until_ms` that nobody else holds; return them."""
    return session.execute(
        select(*_PLANNING_COLUMNS)
        .where(Job.trigger_status == 1, Job.trigger_next_time <= until_ms)
        .order_by(Job.trigger_next_time)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()


def next_tick(session: Session) -> int | None:
    """Return the earliest tick that is not planned yet, of all enabled jobs."""
    return session.execute(
        select(func.min(Job.trigger_next_time)).where(Job.trigger_status == 1)
    ).scalar_one()


def advance(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Move the watermark and next tick of claimed jobs: `id, trigger_last_time, …_next_time`."""
    update_each(session, TABLE, rows, guard=f"{TABLE}.trigger_status = 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """That a job stops by itself after its watermark, and why."""

    job_id: int
    watermark_ms: int
    reason: str


def stop(session: Session, stops: Sequence[Stop]) -> None:
    """Stop claimed jobs whose schedules have ended or cannot be computed."""
    rows = [
        {
            "id": one.job_id,
            "trigger_status": 0,
            "trigger_last_time": one.watermark_ms,
            "trigger_next_time": 0,
            "stop_reason": one.reason[:512],
        }
        for one in stops
    ]
    update_each(session, TABLE, rows, guard=f"{TABLE}.trigger_status = 1")


def to_plan(session: Session, job_ids: Iterable[int]) -> dict[int, AnyRow]:
    """Return, by id, what planning a run of these jobs needs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in session.execute(select(*_PLANNING_COLUMNS).where(Job.id.in_(chunk)))
    }


def for_runs(session: Session, job_ids: Iterable[int]) -> dict[int, AnyRow]:
    """Return, by id, what dispatching and ending runs of these jobs needs."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in session.execute(select(*_RUNNING_COLUMNS).where(Job.id.in_(chunk)))
    }


def lock(session: Session, job_id: int) -> Job:
    """Lock a job's row and return it.

    Raises:
        NotFound: it was deleted meanwhile.

    """
    job = session.execute(
        select(Job)
        .where(Job.id == job_id)
        .with_for_update()
        # What this session read of it before the lock may be old by now.
        .execution_options(populate_existing=True)
    ).scalar_one_or_none()
    if job is None:
        raise NotFound(f"no job with id {job_id}")
    return job


def find(session: Session, name: str) -> Job:
    """Return a job by NAME, or by APP/NAME where two apps share a name.

    Raises:
        NotFound: there is none.
        Conflict: several apps have a job of that name.

    """
    app, _, short = name.rpartition("/")
    statement = select(Job).join(App, App.id == Job.job_group).where(Job.job_desc == short)
    if app:
        statement = statement.where(App.app_name == app)
    found = session.execute(statement.limit(2)).scalars().all()
    if not found:
        raise NotFound(f"no job named {name!r}")
    if len(found) > 1:
        raise Conflict(f"several apps have a job named {name!r}; write APP/{name}")
    return found[0]


def find_in_app(session: Session, app_id: int, name: str) -> Job | None:
    """Return an app's job by its name, None when there is none."""
    return session.execute(
        select(Job).where(Job.job_group == app_id, Job.job_desc == name)
    ).scalar_one_or_none()


def listing(session: Session) -> Sequence[tuple[Job, str]]:
    """Return all jobs with their app's name, by app and name."""
    rows = session.execute(
        select(Job, App.app_name)
        .join(App, App.id == Job.job_group)
        .order_by(App.app_name, Job.job_desc)
    )
    return [(job, app) for job, app in rows]
