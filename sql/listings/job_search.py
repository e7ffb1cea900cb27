"""Jobs for the console's pages: found by what people know of them, a page at a time.

A page is found first, by ids along an index, and read afterwards; it goes on behind a key, so
the last page costs what the first does. What a visitor may not see is left out by the query.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select
from sqlalchemy.orm import Session

from sql.accounts import preferences
from sql.dialects.hints import use_index
from sql.errors import NotFound
from sql.jobs import child_links
from sql.jobs.parked import PARKED_MS
from sql.listings import run_lines
from sql.listings.recent import ListedJob, listed_jobs
from sql.listings.run_lines import RunLine
from sql.models import App, Job, Run
from sql.rows import fetch, fetch_one

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
    looks, `job_ids` the only jobs. `favourites_of` is the user whose favourites they are, `tag` one
    of their tags. `after` is the `place` of the last job of the page before.
    """

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    app: str | None = None
    is_enabled: bool | None = None
    name: str | None = None
    handler: str | None = None
    author: str | None = None
    tag: str | None = None
    favourites_of: int | None = None
    order: Order = Order.NAME
    after: str | None = None
    limit: int = 50


def search(session: Session, wanted: JobFilter, *, now_ms: int) -> list[ListedJob]:
    """Return jobs in the order asked for."""
    found = _found(session, wanted)
    jobs = fetch(session, ListedJob, listed_jobs(now_ms).where(Job.id.in_(found)))
    ranks = {job_id: rank for rank, job_id in enumerate(found)}
    return sorted(jobs, key=lambda job: ranks[job.id])


def ids(session: Session, wanted: JobFilter, *, most: int) -> Sequence[int]:
    """Return the ids of all jobs that fit, up to a number of them, by app and name."""
    return _found(session, replace(wanted, order=Order.NAME, after=None, limit=most))


def place(job: ListedJob, order: Order) -> str:
    """Return a job's position in an order; the next page starts after it."""
    if order is Order.NEWEST:
        return str(job.id)
    if order is Order.DUE:
        return f"{job.next_tick_at}/{job.id}"
    return f"{job.app_id}/{job.name}"


def show(
    session: Session, job_id: int, app_ids: Collection[int] | None, *, now_ms: int
) -> ListedJob:
    """Return a job.

    Raises:
        NotFound: there is none, or not for this visitor.

    """
    wanted = listed_jobs(now_ms).where(Job.id == job_id, *_visible(app_ids))
    found = fetch_one(session, ListedJob, wanted)
    if found is None:
        raise NotFound(f"no job {job_id}")
    return found


def names(
    session: Session, job_ids: Iterable[int], app_ids: Collection[int] | None
) -> dict[int, str]:
    """Return those of the jobs that exist for a visitor, as APP/NAME."""
    statement = (
        select(Job.id, App.name, Job.name)
        .join(App, App.id == Job.app_id)
        .where(Job.id.in_(list(job_ids)), *_visible(app_ids))
        .order_by(App.name, Job.name)
    )
    return {job_id: f"{app}/{name}" for job_id, app, name in session.execute(statement)}


def last_runs(session: Session, job_id: int, *, now_ms: int, limit: int) -> list[RunLine]:
    """Return a job's runs, the last tick first, backwards along the unique key of ticks."""
    last_first = (
        run_lines.lines()
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
    )
    return fetch(session, RunLine, last_first.limit(limit))


def parents(session: Session, job_id: int, app_ids: Collection[int] | None) -> dict[int, str]:
    """Return the jobs that a job runs after, as APP/NAME; those that exist for a visitor."""
    return names(session, child_links.parent_ids(session, [job_id]), app_ids)


def _found(session: Session, wanted: JobFilter) -> Sequence[int]:
    """Return the ids of a page.

    By name, jobs lie in the index that also has what texts are looked for in. In another order few
    that fit are found there first and sorted; of many, the next one is never far in that order.
    """
    conditions = _conditions(session, wanted)
    texts = (wanted.name, wanted.handler, wanted.author, wanted.tag)
    if wanted.order is not Order.NAME and any(texts):
        fitting = use_index(select(Job.id).where(*conditions), Job, "i_search")
        ids = session.execute(fitting.limit(FEW + 1)).scalars().all()
        if len(ids) <= FEW:
            conditions = [Job.id.in_(ids)]
    statement = _ordered(select(Job.id).where(*conditions), wanted)
    return session.execute(statement.limit(wanted.limit)).scalars().all()


def _conditions(session: Session, wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions = _visible(wanted.app_ids)
    if wanted.job_ids is not None:
        conditions.append(Job.id.in_(wanted.job_ids))
    if wanted.app is not None:
        app_id = session.execute(select(App.id).where(App.name == wanted.app)).scalar()
        conditions.append(Job.app_id == (app_id or 0))
    is_enabled = True if wanted.order is Order.DUE else wanted.is_enabled
    if is_enabled is not None:
        conditions.append(Job.is_enabled == int(is_enabled))
    for column, text in (
        (Job.name, wanted.name),
        (Job.handler, wanted.handler),
        (Job.author, wanted.author),
    ):
        if text:
            # The column's collation is case-sensitive; people are not.
            conditions.append(func.lower(column).contains(text.lower(), autoescape=True))
    if wanted.tag:
        between = literal(",") + Job.tags + literal(",")
        conditions.append(between.contains(f",{wanted.tag},", autoescape=True))
    if wanted.favourites_of is not None:
        conditions.append(Job.id.in_(preferences.favourites(wanted.favourites_of)))
    return conditions


def _ordered(statement: Select[Any], wanted: JobFilter) -> Select[Any]:
    first, last = _key(wanted)
    if wanted.order is Order.NEWEST:
        behind: list[ColumnElement[bool]] = [Job.id < first] if first is not None else []
        return statement.where(*behind).order_by(Job.id.desc())
    if wanted.order is Order.DUE:
        # A job that waits for its own end has no next time yet.
        statement = statement.where(Job.next_tick_at < PARKED_MS)
        columns: tuple[Any, Any] = (Job.next_tick_at, Job.id)
    else:
        columns = (Job.app_id, Job.name)
    if first is not None:
        a, b = columns
        # Only the first condition can be the start of an index range.
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
    return [] if app_ids is None else [Job.app_id.in_(app_ids)]
