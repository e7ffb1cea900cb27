"""What the console's first page asks: short lists along an index, and the counters of the day."""

from collections.abc import Collection, Sequence
from datetime import date, datetime, time
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from sql import newest_runs
from sql.models import App, DayReport, Job, Registration, Run
from sql.newest_runs import Parts
from sql.presence import EXECUTOR
from sql.rows import AnyRow, Rows
from sql.run_status import RunStatus

#: How a run ends when something is wrong with it.
FAILURES = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.LOST, RunStatus.UNDELIVERED})
_COLUMNS = (
    Run.id,
    Run.job_id,
    Run.job_group,
    Run.status,
    Run.kind,
    Run.due_at,
    Run.started_at,
    Run.finished_at,
    Run.executor_address,
    Run.shard_index,
    Run.shard_total,
    Run.handle_msg,
    Run.trigger_msg,
)


def job_counts(session: Session, app_ids: Collection[int] | None) -> tuple[int, int]:
    """Return how many jobs there are, and how many of them are enabled.

    It looks at an entry of an index for each job, so whoever shows it to many asks seldom.
    """
    statement = select(Job.trigger_status, func.count()).group_by(Job.trigger_status)
    if app_ids is not None:
        statement = statement.where(Job.job_group.in_(app_ids))
    counts = {row[0]: row[1] for row in session.execute(statement)}
    return sum(counts.values()), counts.get(1, 0)


def executors(session: Session, app_ids: Collection[int] | None) -> Sequence[Registration]:
    """Return the executors of apps, by app and address."""
    statement = select(Registration).where(Registration.registry_group == EXECUTOR)
    if app_ids is not None:
        names = select(App.app_name).where(App.id.in_(app_ids))
        statement = statement.where(Registration.registry_key.in_(names))
    in_order = statement.order_by(Registration.registry_key, Registration.registry_value)
    return session.execute(in_order).scalars().all()


def day(session: Session, wanted: date) -> AnyRow | None:
    """Return `running_count, suc_count, fail_count` of a day, None when nobody has counted it."""
    midnight = datetime.combine(wanted, time())
    return session.execute(
        select(DayReport.running_count, DayReport.suc_count, DayReport.fail_count).where(
            DayReport.trigger_day == midnight
        )
    ).one_or_none()


def running(session: Session, app_ids: Collection[int] | None, *, limit: int) -> Rows:
    """Return runs at work, those that began last first; there are no more than slots."""
    began = Run.started_at.label("sort_at")
    statement = select(*_COLUMNS, began).where(Run.status == RunStatus.RUNNING)
    if app_ids is not None:
        statement = statement.where(Run.job_group.in_(app_ids))
    return _named(session, statement.order_by(began.desc(), Run.id.desc()).limit(limit))


def failed(session: Session, app_ids: Collection[int] | None, *, since_ms: int, limit: int) -> Rows:
    """Return what failed, due last first."""
    failures = Parts(statuses=FAILURES, app_ids=app_ids, since_ms=since_ms)
    newest = newest_runs.read(session, failures, limit=limit)
    chosen = Run.id.in_([row.id for _, row in newest.rows[:limit]])
    return _named(session, select(*_COLUMNS, Run.due_at.label("sort_at")).where(chosen))


def _named(session: Session, runs: Select[*tuple[Any, ...]]) -> Rows:
    """Add the names of job and app to runs that are few already; their order is kept."""
    few = runs.subquery()
    named = (
        select(*few.c, Job.job_desc.label("job"), App.app_name.label("app"))
        .outerjoin(Job, Job.id == few.c.job_id)
        .outerjoin(App, App.id == few.c.job_group)
        .order_by(few.c.sort_at.desc(), few.c.id.desc())
    )
    return session.execute(named).all()
