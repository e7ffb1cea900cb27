"""What the command line shows: jobs, runs and how a tick went. Plain reads, newest first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ScalarSelect, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from sql import jobs as jobs_table
from sql.errors import NotFound
from sql.models import App, Job, Run
from sql.rows import AnyRow, Rows
from sql.run_status import IN_FLIGHT
from sql.runs import at

JOB_COLUMNS = (
    Job.id,
    Job.job_desc.label("name"),
    App.app_name.label("app"),
    Job.author,
    Job.schedule_type,
    Job.schedule_conf,
    Job.timezone,
    Job.misfire_strategy,
    Job.executor_route_strategy,
    Job.executor_block_strategy,
    Job.executor_handler,
    Job.glue_type,
    Job.glue_id,
    Job.glue_remark,
    Job.glue_updatetime,
    Job.executor_param,
    Job.executor_timeout,
    Job.executor_fail_retry_count,
    Job.retry_delay,
    Job.delivery,
    Job.concurrency,
    Job.fresh_process,
    Job.child_jobid,
    Job.alarm_email,
    Job.alarm_webhook,
    Job.alarm_style,
    Job.trigger_status,
    Job.trigger_last_time,
    Job.trigger_next_time,
    Job.stop_reason,
)

RUN_COLUMNS = (
    Run.id,
    Run.job_id,
    Job.job_desc.label("job"),
    App.app_name.label("app"),
    Run.kind,
    Run.status,
    Run.scheduled_at,
    Run.due_at,
    Run.executor_address,
    Run.executor_handler,
    Run.glue_id,
    Run.executor_param,
    Run.origin_id,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
    Run.trigger_code,
    Run.handle_code,
    Run.routed_at,
    Run.sent_at,
    Run.started_at,
    Run.finished_at,
    Run.kill_requested_at,
    Run.late_status,
    Run.handle_msg,
    Run.trigger_msg,
    Run.log_tail,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to show; None = all. `job` is NAME or APP/NAME, `tick_of` any run of one tick."""

    job: str | None = None
    status: str | None = None
    since_ms: int | None = None
    tick_of: int | None = None
    limit: int = 50


def jobs(session: Session, *, now_ms: int, app: str | None = None) -> Rows:
    """Return jobs by app and name, each with `last_status` and `last_due_at` of its last tick."""
    statement = (
        select(
            *JOB_COLUMNS,
            of_last_run(Run.status, now_ms).label("last_status"),
            of_last_run(Run.due_at, now_ms).label("last_due_at"),
        )
        .join(App, App.id == Job.job_group)
        .order_by(App.app_name, Job.job_desc)
    )
    if app is not None:
        statement = statement.where(App.app_name == app)
    return session.execute(statement).all()


def job(session: Session, name: str) -> AnyRow:
    """Return one job by NAME, or by APP/NAME.

    Raises:
        NotFound: there is none.
        Conflict: several apps have a job of that name.

    """
    job_id = jobs_table.find(session, name).id
    statement = select(*JOB_COLUMNS).join(App, App.id == Job.job_group).where(Job.id == job_id)
    return session.execute(statement).one()


def runs(session: Session, wanted: RunFilter) -> Rows:
    """Return runs, those due last first.

    Raises:
        NotFound: there is no such job, or no run `tick_of`.
        Conflict: several apps have a job of that name.

    """
    statement = _runs()
    if wanted.tick_of is not None:
        statement = statement.where(*_same_tick(run(session, wanted.tick_of)))
    if wanted.job is not None:
        statement = statement.where(Run.job_id == jobs_table.find(session, wanted.job).id)
    if wanted.status is not None:
        statement = statement.where(Run.status == wanted.status)
    if wanted.since_ms is not None:
        # The DATETIME is rounded to whole seconds and has the index; `due_at` is exact.
        since = at(wanted.since_ms - 1_000).replace(microsecond=0)
        statement = statement.where(Run.trigger_time >= since, Run.due_at >= wanted.since_ms)
    newest_first = (Run.trigger_time.desc(), Run.id.desc())
    return session.execute(statement.order_by(*newest_first).limit(wanted.limit)).all()


def run(session: Session, run_id: int) -> AnyRow:
    """Return one run.

    Raises:
        NotFound: there is none.

    """
    found = session.execute(_runs().where(Run.id == run_id)).one_or_none()
    if found is None:
        raise NotFound(f"no run {run_id}")
    return found


def by_ids(session: Session, run_ids: Iterable[int]) -> Rows:
    """Return those of the runs that exist."""
    return session.execute(_runs().where(Run.id.in_(list(run_ids)))).all()


def count_in_flight(session: Session) -> int:
    """Return how many runs some executor holds, or may hold."""
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(IN_FLIGHT))
    ).scalar_one()


def tick(session: Session, run_id: int) -> Rows:
    """Return every shard and attempt of the tick that a run belongs to, in order."""
    statement = _runs().where(*_same_tick(run(session, run_id)))
    return session.execute(statement.order_by(Run.shard_index, Run.attempt)).all()


def of_last_run(column: InstrumentedAttribute[Any], now_ms: int) -> ScalarSelect[Any]:
    """Give a column of a job's last run, for use in a query of jobs.

    Backwards along the unique key of ticks, so one row is read, however many runs a job has.
    """
    return (
        select(column)
        .where(Run.job_id == Job.id, Run.scheduled_at <= now_ms)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(1)
        .correlate(Job)
        .scalar_subquery()
    )


def _runs() -> Select[*tuple[Any, ...]]:
    return (
        select(*RUN_COLUMNS)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.job_group)
    )


def _same_tick(of: AnyRow) -> tuple[Any, ...]:
    return (
        Run.job_id == of.job_id,
        Run.scheduled_at == of.scheduled_at,
        Run.origin_id == of.origin_id,
    )
