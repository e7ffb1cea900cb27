"""Jobs for the console's pages: found by what people know of them, a page at a time.

A page is found first, by ids along an index, and read afterwards; it goes on behind a key, so
the last page costs what the first does. What a visitor may not see is left out by the query.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from sql import families
from sql.errors import NotFound
from sql.listings import JOB_COLUMNS, of_last_run
from sql.models import App, Job, Run
from sql.parked import PARKED_MS
from sql.rows import AnyRow, Rows

#: Jobs that fit and are sorted at once, each by a read of its row.
FEW = 1_000


class Order(StrEnum):
    """How jobs are sorted; `DUE` has the enabled ones only, as no other has a next time."""

    NAME = "name"
    NEWEST = "newest"
    DUE = "due"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to show, None = all.

    `name`, `handler` and `author` are parts of these. `app_ids` are the apps that exist for whoever
    looks. `after` is the `place` of the last job of the page before.
    """

    app_ids: Collection[int] | None = None
    app: str | None = None
    is_enabled: bool | None = None
    name: str | None = None
    handler: str | None = None
    author: str | None = None
    order: Order = Order.NAME
    after: str | None = None
    limit: int = 50


def search(session: Session, wanted: JobFilter, *, now_ms: int) -> Rows:
    """Return jobs with `last_run_id`, `last_status` and `last_due_at` of their last tick."""
    found = _found(session, wanted)
    rows = session.execute(
        select(
            *JOB_COLUMNS,
            Job.job_group,
            of_last_run(Run.id, now_ms).label("last_run_id"),
            of_last_run(Run.status, now_ms).label("last_status"),
            of_last_run(Run.due_at, now_ms).label("last_due_at"),
        )
        .join(App, App.id == Job.job_group)
        .where(Job.id.in_(found))
    )
    ranks = {job_id: rank for rank, job_id in enumerate(found)}
    return sorted(rows, key=lambda row: ranks[row.id])


def place(job: AnyRow, order: Order) -> str:
    """Return where a job stands in an order; the next page goes on behind it."""
    if order is Order.NEWEST:
        return str(job.id)
    if order is Order.DUE:
        return f"{job.trigger_next_time}/{job.id}"
    return f"{job.job_group}/{job.name}"


def show(session: Session, job_id: int, app_ids: Collection[int] | None) -> AnyRow:
    """Return a job.

    Raises:
        NotFound: there is none, or not for this visitor.

    """
    statement = (
        select(*JOB_COLUMNS, Job.job_group, Job.add_time, Job.update_time)
        .join(App, App.id == Job.job_group)
        .where(Job.id == job_id, *_visible(app_ids))
    )
    found = session.execute(statement).one_or_none()
    if found is None:
        raise NotFound(f"no job {job_id}")
    return found


def names(
    session: Session, job_ids: Iterable[int], app_ids: Collection[int] | None
) -> dict[int, str]:
    """Return those of the jobs that exist for a visitor, as APP/NAME."""
    statement = (
        select(Job.id, App.app_name, Job.job_desc)
        .join(App, App.id == Job.job_group)
        .where(Job.id.in_(list(job_ids)), *_visible(app_ids))
        .order_by(App.app_name, Job.job_desc)
    )
    rows = session.execute(statement)
    return {row.id: f"{row.app_name}/{row.job_desc}" for row in rows}


def app_names(session: Session, app_ids: Collection[int] | None) -> list[str]:
    """Return the names of the apps that exist for a visitor."""
    statement = select(App.app_name).order_by(App.app_name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return list(session.execute(statement).scalars())


def last_runs(session: Session, job_id: int, *, now_ms: int, limit: int) -> Rows:
    """Return a job's runs, the last tick first, backwards along the unique key of ticks."""
    return session.execute(
        select(
            Run.id,
            Run.status,
            Run.kind,
            Run.due_at,
            Run.scheduled_at,
            Run.started_at,
            Run.finished_at,
            Run.executor_address,
            Run.shard_index,
            Run.shard_total,
            Run.attempt,
            func.substr(Run.handle_msg, 1, 200).label("handle_msg"),
            func.substr(Run.trigger_msg, 1, 200).label("trigger_msg"),
        )
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(limit)
    ).all()


def parents(session: Session, job_id: int, app_ids: Collection[int] | None) -> dict[int, str]:
    """Return the jobs that a job runs after, as APP/NAME; those that exist for a visitor."""
    holds = Job.child_jobid.contains(str(job_id))
    rows = session.execute(select(Job.id, Job.child_jobid).where(holds, *_visible(app_ids)))
    return names(session, [row.id for row in rows if job_id in families.ids(row.child_jobid)], None)


def _found(session: Session, wanted: JobFilter) -> Sequence[int]:
    """Return the ids of a page.

    By name, jobs lie in the index that also has what texts are looked for in. In another order few
    that fit are found there first and sorted; of many, the next one is never far in that order.
    """
    conditions = _conditions(session, wanted)
    if wanted.order is not Order.NAME and (wanted.name or wanted.handler or wanted.author):
        fitting = (
            select(Job.id).where(*conditions).with_hint(Job, "FORCE INDEX (i_search)", "mysql")
        )
        ids = session.execute(fitting.limit(FEW + 1)).scalars().all()
        if len(ids) <= FEW:
            conditions = [Job.id.in_(ids)]
    statement = _ordered(select(Job.id).where(*conditions), wanted)
    return session.execute(statement.limit(wanted.limit)).scalars().all()


def _conditions(session: Session, wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions = _visible(wanted.app_ids)
    if wanted.app is not None:
        app_id = session.execute(select(App.id).where(App.app_name == wanted.app)).scalar()
        conditions.append(Job.job_group == (app_id or 0))
    is_enabled = True if wanted.order is Order.DUE else wanted.is_enabled
    if is_enabled is not None:
        conditions.append(Job.trigger_status == int(is_enabled))
    for column, text in (
        (Job.job_desc, wanted.name),
        (Job.executor_handler, wanted.handler),
        (Job.author, wanted.author),
    ):
        if text:
            # The columns' collation tells capitals from small letters; people do not.
            conditions.append(func.lower(column).contains(text.lower(), autoescape=True))
    return conditions


def _ordered(statement: Select[Any], wanted: JobFilter) -> Select[Any]:
    first, last = _key(wanted)
    if wanted.order is Order.NEWEST:
        behind: list[ColumnElement[bool]] = [Job.id < first] if first is not None else []
        return statement.where(*behind).order_by(Job.id.desc())
    if wanted.order is Order.DUE:
        # A job that waits for its own end has no next time yet.
        statement = statement.where(Job.trigger_next_time < PARKED_MS)
        columns: tuple[Any, Any] = (Job.trigger_next_time, Job.id)
    else:
        columns = (Job.job_group, Job.job_desc)
    if first is not None:
        a, b = columns
        # The first condition alone is what an index can begin at.
        statement = statement.where(a >= first, or_(a > first, and_(a == first, b > last)))
    return statement.order_by(*columns)


def _key(wanted: JobFilter) -> tuple[int | None, Any]:
    """Return behind what a page begins; nothing when it is the first, or what was sent is none."""
    first, _, last = (wanted.after or "").partition("/")
    if not first.isdecimal() or len(first) > 18:  # noqa: PLR2004 - digits of a BIGINT
        return None, None
    if wanted.order is Order.DUE:
        return (int(first), int(last)) if last.isdecimal() and len(last) < 10 else (None, None)  # noqa: PLR2004 - of an INT
    return int(first), last


def _visible(app_ids: Collection[int] | None) -> list[ColumnElement[bool]]:
    return [] if app_ids is None else [Job.job_group.in_(app_ids)]
