"""What belongs to a run: the other runs of its tick, the run that led to it, those it led to."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from sql import families
from sql.errors import NotFound
from sql.models import App, Job, Run
from sql.rows import AnyRow, Rows

#: A broadcast may have thousands of shards; so many of its runs are shown.
SHOWN = 400
#: So many runs of children are shown.
CHILDREN = 100

_LINE = (
    Run.id,
    Run.job_id,
    Run.job_group,
    Job.job_desc.label("job"),
    App.app_name.label("app"),
    Run.status,
    Run.kind,
    Run.due_at,
    Run.started_at,
    Run.finished_at,
    Run.executor_address,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """Runs beside one run, as lines; `parent` is the first run of the tick that led to it."""

    tick: Rows
    parent: AnyRow | None
    children: Rows


def run(session: Session, run_id: int, app_ids: Collection[int] | None) -> AnyRow:
    """Return everything about a run of the given apps, None = of all.

    Raises:
        NotFound: there is none, or it belongs to another app.

    """
    statement = (
        select(
            *Run.__table__.columns,
            Job.job_desc.label("job"),
            App.app_name.label("app"),
            Job.timezone,
            Job.executor_route_strategy.label("route"),
        )
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.job_group)
        .where(Run.id == run_id, *_of_apps(app_ids))
    )
    found = session.execute(statement).one_or_none()
    if found is None:
        raise NotFound(f"no run {run_id}")
    return found


def relations(session: Session, of: AnyRow, app_ids: Collection[int] | None) -> Relations:
    """Return what belongs to a run, as far as it belongs to the given apps."""
    tick = session.execute(
        _lines(app_ids)
        .where(*_of_tick(of.job_id, of.scheduled_at, of.origin_id))
        .order_by(Run.shard_index, Run.attempt)
        .limit(SHOWN)
    ).all()
    head = tick[0].id if tick else of.id
    return Relations(
        tick=tick,
        parent=_parent(session, of, app_ids),
        children=_children(session, of, head, app_ids),
    )


def _parent(session: Session, of: AnyRow, app_ids: Collection[int] | None) -> AnyRow | None:
    """Return the run that `origin_id` names, unless it is the run's own tick or gone."""
    if not of.origin_id:
        return None
    found = session.execute(_lines(app_ids).where(Run.id == of.origin_id)).one_or_none()
    return None if found is None or found.job_id == of.job_id else found


def _children(session: Session, of: AnyRow, head: int, app_ids: Collection[int] | None) -> Rows:
    """Return the runs of the present children that a tick led to: they carry its first run's id."""
    child_ids = families.children(session, [of.job_id]).get(of.job_id, ())
    if not child_ids:
        return []
    # Each child on its own: together, MariaDB would read the whole table.
    rows = [
        row
        for child_id in child_ids[:CHILDREN]
        for row in session.execute(
            _lines(app_ids)
            .where(*_of_tick(child_id, of.scheduled_at, head))
            .order_by(Run.shard_index, Run.attempt)
            .limit(CHILDREN)
        )
    ]
    return rows[:CHILDREN]


def _lines(app_ids: Collection[int] | None) -> Select[*tuple[Any, ...]]:
    return (
        select(*_LINE)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.job_group)
        .where(*_of_apps(app_ids))
    )


def _of_apps(app_ids: Collection[int] | None) -> list[ColumnElement[bool]]:
    return [] if app_ids is None else [Run.job_group.in_(app_ids)]


def _of_tick(job_id: int, scheduled_at: int, origin_id: int) -> list[ColumnElement[bool]]:
    return [Run.job_id == job_id, Run.scheduled_at == scheduled_at, Run.origin_id == origin_id]
