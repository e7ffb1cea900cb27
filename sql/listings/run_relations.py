"""The runs related to a run: those of its tick, the parent's run, and the children's runs."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.sql.jobs import child_links
from warren.sql.listings.recent import DetailedRun
from warren.sql.listings.run_lines import RunLine, lines
from warren.sql.models import Run
from warren.sql.rows import Query, fetch, fetch_one

#: Most runs of the tick that are shown; a broadcast may have thousands of shards.
SHOWN = 400
#: Most runs of children that are shown.
CHILDREN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The runs related to one run; `parent` is the first run of the tick that caused it.

    `reruns` are all runs of any origin that repeat one of its due time, without their retries.
    """

    tick: list[RunLine]
    reruns: list[RunLine]
    parent: RunLine | None
    children: list[RunLine]


def relations(session: Session, of: DetailedRun, app_ids: Collection[int] | None) -> Relations:
    """Return the related runs in the given apps; None = all apps."""
    tick = _of_tick(session, (of.job_id, of.scheduled_at, of.origin_id), app_ids, limit=SHOWN)
    head = tick[0].id if tick else of.id
    return Relations(
        tick=tick,
        reruns=_reruns(session, of, app_ids),
        parent=_parent(session, of, app_ids),
        children=_children(session, of, head, app_ids),
    )


def _reruns(session: Session, of: DetailedRun, app_ids: Collection[int] | None) -> list[RunLine]:
    repeated = _lines(app_ids).where(
        Run.job_id == of.job_id,
        Run.scheduled_at == of.scheduled_at,
        Run.attempt == 0,
        Run.rerun_of.is_not(None),
    )
    in_order = repeated.order_by(Run.origin_id, Run.shard_index).limit(CHILDREN)
    return fetch(session, RunLine, in_order)


def _parent(session: Session, of: DetailedRun, app_ids: Collection[int] | None) -> RunLine | None:
    """Return the run that `origin_id` names, if it exists and is of another job."""
    if not of.origin_id:
        return None
    origin = fetch_one(session, RunLine, _lines(app_ids).where(Run.id == of.origin_id))
    return None if origin is None or origin.job_id == of.job_id else origin


def _children(
    session: Session, of: DetailedRun, head: int, app_ids: Collection[int] | None
) -> list[RunLine]:
    """Return the runs of the present children whose origin is the tick's first run, `head`."""
    child_ids = child_links.children(session, [of.job_id]).get(of.job_id, ())
    # One query for each child: with one for all, MariaDB would read the whole table.
    runs = [
        run
        for child_id in child_ids[:CHILDREN]
        for run in _of_tick(session, (child_id, of.scheduled_at, head), app_ids, limit=CHILDREN)
    ]
    return runs[:CHILDREN]


def _of_tick(
    session: Session, tick: tuple[int, int, int], app_ids: Collection[int] | None, *, limit: int
) -> list[RunLine]:
    job_id, scheduled_at, origin_id = tick
    of_tick = _lines(app_ids).where(
        Run.job_id == job_id, Run.scheduled_at == scheduled_at, Run.origin_id == origin_id
    )
    in_order = of_tick.order_by(Run.shard_index, Run.attempt)
    return fetch(session, RunLine, in_order.limit(limit))


def _lines(app_ids: Collection[int] | None) -> Query:
    return lines() if app_ids is None else lines().where(Run.app_id.in_(app_ids))
