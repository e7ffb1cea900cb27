"""Lists jobs, and searches them for the console's pages, a page at a time.

In a search, first the ids of a page are found along an index, then its jobs are read. Each page
starts after the key of the one before, so all pages cost the same. Queries leave out what the
visitor may not see.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from warren.sql.accounts import preferences
from warren.sql.dialects.supported import use_index
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_links
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.listings import run_messages
from warren.sql.models import App, FlowJob, Job, JobState, Run, ScriptVersion
from warren.sql.models.job_tables import BY_SEARCHED_TEXT
from warren.sql.rows import Query, contains, fetch, fetch_one, query
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import DetailedRun


class ListedJob(NamedTuple):
    """A job with its app's name and its last run; `last_…` are None if it has never run.

    The other fields are those that lists show; `stored` is the whole job.
    """

    id: int
    app_id: int
    name: str
    app: str
    author: str | None
    schedule_kind: str
    schedule_value: str | None
    schedule_options: str | None
    timezone: str | None
    handler: str | None
    script_type: str
    script_version: int | None
    script_number: int | None
    is_enabled: int
    next_tick_at: int
    stop_reason: str | None
    stop_why: str | None
    stored: Job
    last_run_id: int | None
    last_status: str | None
    last_due_at: int | None


def listed_jobs(now_ms: int) -> Query:
    """Return the query of ListedJob rows; their last tick is the last one up to `now_ms`."""
    listed = query(
        ListedJob,
        Job,
        app=App.name,
        script_number=ScriptVersion.number,
        stored=Job,
        last_run_id=_of_last_run(Run.id, now_ms),
        last_status=_of_last_run(Run.status, now_ms),
        last_due_at=_of_last_run(Run.due_at, now_ms),
    ).join(App, App.id == Job.app_id)
    return listed.outerjoin(ScriptVersion, ScriptVersion.id == Job.script_version)


def _of_last_run(column: InstrumentedAttribute[Any], now_ms: int) -> ScalarSelect[Any]:
    """Return a column of a job's last run, as a subquery in a query of jobs.

    It reads one row, backwards along the unique key of ticks, however many runs the job has.
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


#: The most matching jobs that are sorted in memory; each costs a read of its row.
MAX_SORTED = 1_000


class Order(StrEnum):
    """How jobs are sorted; `DUE` lists only enabled jobs, because others have no next tick.

    The last four begin with the highest: when it last ended, how long that took, its usual duration
    against that of a week ago, and against the time between its due times.
    """

    NAME = "name"
    NEWEST = "newest"
    DUE = "due"
    ENDED = "ended"
    TOOK = "took"
    CHANGE = "change"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to return; None = all.

    Attributes:
        app_ids: the apps that exist for the visitor.
        job_ids: the only jobs that exist for the visitor.
        name: a part of the name; `handler` and `author` likewise.
        tag: one of the job's tags.
        favourites_of: a user; only this user's favourites.
        only_flows: only jobs that are flows.
        among: a further condition on their ids.
        after: the `place` of the last job on the previous page.

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
    only_flows: bool = False
    among: ColumnElement[bool] | None = None
    order: Order = Order.NAME
    after: str | None = None
    limit: int = 50


def search(session: Session, wanted: JobFilter, *, now_ms: int) -> list[ListedJob]:
    """Return a page of jobs, in the requested order."""
    job_ids = _page_ids(session, wanted)
    jobs = fetch(session, ListedJob, listed_jobs(now_ms).where(Job.id.in_(job_ids)))
    ranks = {job_id: rank for rank, job_id in enumerate(job_ids)}
    return sorted(jobs, key=lambda job: ranks[job.id])


def ids(session: Session, wanted: JobFilter, *, most: int) -> Sequence[int]:
    """Return the ids of up to `most` jobs that match, in the requested order."""
    return _page_ids(session, replace(wanted, after=None, limit=most))


def place(job: ListedJob, order: Order) -> str:
    """Return a job's position in an order; the next page starts after it."""
    if order is Order.NEWEST or order in _RANKS:
        return str(job.id)
    if order is Order.DUE:
        return f"{job.next_tick_at}/{job.id}"
    return f"{job.app_id}/{job.name}"


def show(
    session: Session, job_id: int, app_ids: Collection[int] | None, *, now_ms: int
) -> ListedJob:
    """Return a job.

    Raises:
        NotFound: there is no such job, or the visitor may not see it.

    """
    wanted = listed_jobs(now_ms).where(Job.id == job_id, *_visible(app_ids))
    job = fetch_one(session, ListedJob, wanted)
    if job is None:
        raise NotFound(LookupFailure.NO_JOB, id=job_id)
    return job


def children(
    session: Session, job_ids: Iterable[int], known: JobFilter
) -> dict[int, Sequence[str]]:
    """Return the children of jobs as APP/NAME, without those that do not exist for the visitor."""
    by_parent = job_links.children(session, job_ids)
    every = {child for ids in by_parent.values() for child in ids}
    if known.job_ids is not None:
        every &= {*known.job_ids}
    by_id = names(session, every, known.app_ids)
    return {
        job_id: [by_id[child] for child in ids if child in by_id]
        for job_id, ids in by_parent.items()
    }


def names(
    session: Session, job_ids: Iterable[int], app_ids: Collection[int] | None
) -> dict[int, str]:
    """Return the names, as APP/NAME, of the jobs that the visitor may see."""
    statement = (
        select(Job.id, App.name, Job.name)
        .join(App, App.id == Job.app_id)
        .where(Job.id.in_(list(job_ids)), *_visible(app_ids))
        .order_by(App.name, Job.name)
    )
    return {job_id: f"{app}/{name}" for job_id, app, name in session.execute(statement)}


def last_runs(session: Session, job_id: int, *, now_ms: int, limit: int) -> list[DetailedRun]:
    """Return a job's runs, the latest tick first, along the unique key of ticks."""
    last_first = (
        run_messages.lines()
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
    )
    return fetch(session, DetailedRun, last_first.limit(limit))


def asked_for(session: Session, job_id: int, *, after_ms: int, limit: int) -> list[DetailedRun]:
    """Return a job's planned runs that people requested for a certain time, soonest first."""
    planned = run_messages.lines().where(
        Run.job_id == job_id,
        Run.scheduled_at > after_ms,
        Run.status == RunStatus.PLANNED,
        Run.origin_id == Run.id,
    )
    return fetch(
        session, DetailedRun, planned.order_by(Run.scheduled_at, Run.origin_id).limit(limit)
    )


def parents(session: Session, job_id: int, app_ids: Collection[int] | None) -> dict[int, str]:
    """Return the parents of a job, as APP/NAME, that the visitor may see."""
    return names(session, job_links.parent_ids(session, [job_id]), app_ids)


def _page_ids(session: Session, wanted: JobFilter) -> Sequence[int]:
    """Return the ids of a page.

    The index `i_search` has all columns of text searches, in the order of names. For another order,
    matching jobs are first looked up there: if they are few, they are sorted; if they are many, the
    next match is never far along that order's own index.
    """
    conditions = _conditions(session, wanted)
    texts = (wanted.name, wanted.handler, wanted.author, wanted.tag)
    if wanted.order is not Order.NAME and any(texts):
        fitting = use_index(select(Job.id).where(*conditions), Job, BY_SEARCHED_TEXT)
        ids = session.execute(fitting.limit(MAX_SORTED + 1)).scalars().all()
        if len(ids) <= MAX_SORTED:
            conditions = [Job.id.in_(ids)]
    fitting = select(Job.id).where(*conditions)
    if wanted.order in _RANKS:
        return _ranked_ids(session, fitting, wanted)
    return session.execute(_ordered(fitting, wanted).limit(wanted.limit)).scalars().all()


def _conditions(session: Session, wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions = _visible(wanted.app_ids)
    if wanted.job_ids is not None:
        conditions.append(Job.id.in_(wanted.job_ids))
    if wanted.app is not None:
        app_id = session.execute(select(App.id).where(App.name == wanted.app)).scalar()
        conditions.append(Job.app_id == (app_id or 0))
    if wanted.among is not None:
        conditions.append(wanted.among)
    if wanted.is_enabled is not None:
        conditions.append(Job.is_enabled == int(wanted.is_enabled))
    if wanted.order is Order.DUE:
        conditions.append(Job.is_enabled == 1)
    texts = ((Job.name, wanted.name), (Job.handler, wanted.handler), (Job.author, wanted.author))
    conditions += [contains(session, column, text) for column, text in texts if text]
    if wanted.tag:
        between = literal(",") + Job.tags + literal(",")
        conditions.append(contains(session, between, f",{wanted.tag},"))
    if wanted.only_flows:
        conditions.append(Job.id.in_(select(FlowJob.flow_id)))
    if wanted.favourites_of is not None:
        conditions.append(Job.id.in_(preferences.favourites(wanted.favourites_of)))
    return conditions


def _period_ms() -> ColumnElement[Any]:
    """Return the time between a job's last and next due time; NULL if it has no two."""
    is_known = and_(Job.last_tick_at > 0, Job.next_tick_at.between(Job.last_tick_at, PARKED_MS))
    return case((is_known, Job.next_tick_at - Job.last_tick_at))


#: By what jobs are ranked, in orders without an index: whole numbers, those of jobs that have none
#: are NULL.
_RANKS: Mapping[Order, ColumnElement[Any]] = {
    Order.ENDED: JobState.newest_at + 0,
    Order.TOOK: JobState.took_ms + 0,
    Order.CHANGE: JobState.usual_ms * 1_000 // func.nullif(JobState.week_ms, 0, type_=BigInteger),
    Order.SHARE: JobState.usual_ms * 1_000 // func.nullif(_period_ms(), 0, type_=BigInteger),
}


def _ranked_ids(session: Session, fitting: Select[Any], wanted: JobFilter) -> Sequence[int]:
    """Return a page by rank; the next page begins after a job, wherever that stands now.

    Jobs without a rank follow all others by their ids. They are read apart, so that these need no
    sorting, however many they are.
    """
    rank = func.coalesce(_RANKS[wanted.order], 0)
    known = fitting.join(JobState, JobState.job_id == Job.id).where(rank > 0)
    unknown = fitting.outerjoin(JobState, JobState.job_id == Job.id).where(rank <= 0)
    after, _ = _key(wanted)
    is_among_unknown = False
    if after is not None:
        of_job = select(rank).select_from(Job).outerjoin(JobState, JobState.job_id == Job.id)
        last = session.execute(of_job.where(Job.id == after)).scalar()
        if last is None:
            return []
        known = known.where(or_(rank < last, and_(rank == last, Job.id > after)))
        if is_among_unknown := last <= 0:
            unknown = unknown.where(Job.id > after)
    ids: list[int] = []
    if not is_among_unknown:
        highest_first = known.order_by(rank.desc(), Job.id)
        ids += session.execute(highest_first.limit(wanted.limit)).scalars()
    if len(ids) < wanted.limit:
        rest = unknown.order_by(Job.id).limit(wanted.limit - len(ids))
        ids += session.execute(rest).scalars()
    return ids


def _ordered(statement: Select[Any], wanted: JobFilter) -> Select[Any]:
    first, last = _key(wanted)
    if wanted.order is Order.NEWEST:
        behind: list[ColumnElement[bool]] = [Job.id < first] if first is not None else []
        return statement.where(*behind).order_by(Job.id.desc())
    if wanted.order is Order.DUE:
        # A fixed delay that waits for the end of its tick has no next tick yet.
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
    """Return the two parts of the key that a page starts after; both None for the first page.

    An unreadable key counts as none.
    """
    first, _, last = (wanted.after or "").partition("/")
    if not first.isdecimal() or len(first) > 18:  # noqa: PLR2004 - digits of a BIGINT
        return None, None
    if wanted.order is Order.DUE:
        return (int(first), int(last)) if last.isdecimal() and len(last) < 10 else (None, None)  # noqa: PLR2004 - of an INT
    return int(first), last


def _visible(app_ids: Collection[int] | None) -> list[ColumnElement[bool]]:
    return [] if app_ids is None else [Job.app_id.in_(app_ids)]
