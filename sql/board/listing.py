"""Reads the board: jobs by their trouble, counts, errors that jobs share, and what lasted."""

import json
from collections.abc import Collection
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select
from sqlalchemy.orm import Session

from warren.sql.board.job_states import Trouble
from warren.sql.board.live import lost_with
from warren.sql.dialects.supported import use_index
from warren.sql.models import (
    App,
    BoardEvent,
    Job,
    JobError,
    JobState,
    Mute,
    Outlook,
    Run,
    SkippedTicks,
)
from warren.sql.models.run_tables import BY_STATUS
from warren.sql.rows import Query, fetch, query
from warren.sql.run_status import RunStatus

#: The troubles of jobs that fail.
FAILING = (Trouble.FAILING, Trouble.LOST)


class BoardScope(NamedTuple):
    """Whose jobs count: those of apps, and only these jobs; None = all."""

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None

    def conditions(self, app_id: Any, job_id: Any) -> list[ColumnElement[bool]]:
        """Return the conditions on columns with the ids of an app and a job."""
        apps = [] if self.app_ids is None else [app_id.in_(sorted(self.app_ids))]
        return apps if self.job_ids is None else [*apps, job_id.in_(sorted(self.job_ids))]


class JobsState(NamedTuple):
    """Jobs with one of these troubles; with `failed_since`, only those that failed after it."""

    troubles: Collection[Trouble]
    failed_since: int | None = None


def is_in_state(state: JobsState) -> ColumnElement[bool]:
    """Return the condition that a job is in a state; one that has never run is fine."""
    job_id = Job.id
    if Trouble.NONE in state.troubles and state.failed_since is None:
        others = set(Trouble) - set(state.troubles)
        return cast(
            ColumnElement[bool],
            job_id.not_in(select(JobState.job_id).where(JobState.trouble.in_(others))),
        )
    wanted = select(JobState.job_id).where(JobState.trouble.in_(state.troubles))
    if state.failed_since is not None:
        failed = select(JobError.job_id).where(JobError.last_at >= state.failed_since)
        wanted = wanted.where(JobState.job_id.in_(failed))
    return cast(ColumnElement[bool], job_id.in_(wanted))


class BoardJob(NamedTuple):
    """A job's state with its names; see `JobState`. The last three are None without a mute."""

    job_id: int
    job: str
    app_id: int
    app: str
    is_enabled: int
    next_tick_at: int
    timezone: str | None
    trouble: int
    failing_since: int
    failing_count: int
    error_key: str
    error_since: int
    error_count: int
    error_text: str
    error_run_id: int
    good_at: int
    newest_at: int
    newest_status: str
    newest_run_id: int
    took_ms: int
    usual_ms: int
    week_ms: int
    skipped_since: int
    skipped_count: int
    waiting_count: int
    waiting_since: int
    long_since: int
    strip: str
    muted_by: str | None
    mute_reason: str | None
    mute_until: int | None
    mute_silences: int | None
    mute_error: str | None


class SharedError(NamedTuple):
    """An error of the jobs that fail with it now: how many, since when, and the first job's."""

    error_key: str
    jobs: int
    since_at: int


class EventRow(NamedTuple):
    """Something that lasted; see `warren.sql.models.BoardEvent`."""

    id: int
    kind: str
    app_id: int
    app: str | None
    subject: str
    since_at: int
    until_at: int | None
    runs: int
    error_key: str | None


def counts(session: Session, scope: BoardScope) -> dict[Trouble, int]:
    """Return how many jobs have each trouble; those without any, which are most, do not count."""
    # A range of the index, however many jobs are fine.
    numbers = select(JobState.trouble, func.count()).where(JobState.trouble < Trouble.NONE)
    numbers = numbers.group_by(JobState.trouble)
    if conditions := scope.conditions(Job.app_id, JobState.job_id):
        numbers = numbers.join(Job, Job.id == JobState.job_id).where(*conditions)
    return {Trouble(trouble): number for trouble, number in session.execute(numbers)}


def counts_by_app(session: Session) -> dict[str, dict[Trouble, int]]:
    """Return how many jobs of each app have each trouble; apps without any are absent."""
    numbers = (
        select(App.name, JobState.trouble, func.count())
        .join(Job, Job.id == JobState.job_id)
        .join(App, App.id == Job.app_id)
        .where(
            JobState.trouble.in_([trouble for trouble in Trouble if trouble is not Trouble.NONE])
        )
        .group_by(App.name, JobState.trouble)
    )
    found: dict[str, dict[Trouble, int]] = {}
    for app, trouble, number in session.execute(numbers):
        found.setdefault(app, {})[Trouble(trouble)] = number
    return found


def job_count(session: Session, scope: BoardScope) -> int:
    """Return how many jobs there are."""
    wanted = select(func.count(Job.id)).where(*scope.conditions(Job.app_id, Job.id))
    return int(session.execute(wanted).scalar_one())


def recovered_count(session: Session, scope: BoardScope, *, since_ms: int) -> int:
    """Return how many jobs failed since then and no longer do."""
    wanted = select(func.count(JobError.job_id.distinct())).where(*_recovered(since_ms))
    wanted = wanted.join(JobState, JobState.job_id == JobError.job_id)
    if conditions := scope.conditions(Job.app_id, JobState.job_id):
        wanted = wanted.join(Job, Job.id == JobState.job_id).where(*conditions)
    return int(session.execute(wanted).scalar_one())


def in_trouble(
    session: Session,
    scope: BoardScope,
    *,
    limit: int,
    place: int = 0,
    without_errors: Collection[str] = (),
) -> list[BoardJob]:
    """Return jobs in trouble, the worst first; of one trouble, those with the newest error.

    Those that fail with one of `without_errors` are left out.
    """
    ids = _ids(scope).where(JobState.trouble < Trouble.NONE)
    if without_errors:
        has_other = JobState.error_key.not_in(without_errors)
        ids = ids.where(or_(JobState.trouble.not_in(FAILING), has_other))
    order = (
        JobState.trouble,
        JobState.error_since.desc(),
        JobState.newest_at.desc(),
        JobState.job_id,
    )
    return _in_order(session, ids.order_by(*order).limit(limit).offset(place))


def recovered(
    session: Session, scope: BoardScope, *, since_ms: int, limit: int, place: int
) -> list[BoardJob]:
    """Return jobs that failed since then and no longer do, those that recovered last first."""
    failed = select(JobError.job_id).distinct().where(JobError.last_at >= since_ms)
    ids = _ids(scope).where(JobState.job_id.in_(failed), JobState.trouble.not_in(FAILING))
    newest = ids.order_by(JobState.newest_at.desc(), JobState.job_id)
    return _in_order(session, newest.limit(limit).offset(place))


def everyone(session: Session, scope: BoardScope, *, limit: int, place: int) -> list[BoardJob]:
    """Return all jobs that have run, those in trouble first, each by its id."""
    # In the order of the index, as there may be 100,000 of them.
    ids = _ids(scope).order_by(JobState.trouble, JobState.job_id).limit(limit).offset(place)
    return _in_order(session, ids)


def of_jobs(session: Session, job_ids: Collection[int]) -> dict[int, BoardJob]:
    """Return the states of a few jobs, by id; jobs that have never run are left out."""
    wanted = _jobs(BoardScope()).where(JobState.job_id.in_(sorted(job_ids)))
    return {row.job_id: row for row in fetch(session, BoardJob, wanted)}


def failed_between(
    session: Session, scope: BoardScope, *, since_ms: int, until_ms: int, limit: int
) -> dict[int, int]:
    """Return the jobs that failed in a span of time, each with how many due times did so in a row.

    At most `limit` errors are read, those that lasted longest first.
    """
    number = func.sum(JobError.due_times)
    wanted = select(JobError.job_id, number).where(
        JobError.last_at >= since_ms, JobError.since_at < until_ms
    )
    if conditions := scope.conditions(Job.app_id, JobError.job_id):
        wanted = wanted.join(Job, Job.id == JobError.job_id).where(*conditions)
    most = wanted.group_by(JobError.job_id).order_by(number.desc(), JobError.job_id).limit(limit)
    return {job_id: int(count) for job_id, count in session.execute(most)}


class OldestRun(NamedTuple):
    """A run that is running; of a broadcast, `shard_total` is not 1."""

    id: int
    job_id: int
    shard_total: int
    started_at: int


def oldest_running(session: Session, job_ids: Collection[int]) -> dict[int, OldestRun]:
    """Return the run of each job that started first, of those that are running."""
    if not job_ids:
        return {}
    running = use_index(query(OldestRun, Run), Run, BY_STATUS).where(
        Run.job_id.in_(sorted(job_ids)),
        Run.status == RunStatus.RUNNING,
        Run.started_at.is_not(None),
    )
    newest_first = fetch(session, OldestRun, running.order_by(Run.started_at.desc()))
    return {run.job_id: run for run in newest_first}


def shared_errors(session: Session, scope: BoardScope, *, limit: int) -> list[SharedError]:
    """Return the errors with which two jobs or more fail now, those of most jobs first."""
    number, since = func.count(JobState.job_id), func.min(JobState.error_since)
    wanted = (
        select(JobState.error_key, number, since)
        .where(JobState.trouble.in_(FAILING), JobState.error_key != "")
        .group_by(JobState.error_key)
        .having(number > 1)
        .order_by(number.desc(), since, JobState.error_key)
        .limit(limit)
    )
    if conditions := scope.conditions(Job.app_id, JobState.job_id):
        wanted = wanted.join(Job, Job.id == JobState.job_id).where(*conditions)
    return [SharedError(*row) for row in session.execute(wanted)]


def newest_with_errors(
    session: Session, scope: BoardScope, error_keys: Collection[str], *, limit: int
) -> dict[str, dict[int, int]]:
    """Return the newest runs of the jobs that fail with each error now, by error and job.

    At most `limit` jobs of each error are read: those that failed with it first, in this order.
    """
    place = func.row_number().over(
        partition_by=JobState.error_key, order_by=(JobState.error_since, JobState.job_id)
    )
    ranked = (
        _ids(scope)
        .add_columns(JobState.error_key, JobState.newest_run_id, place.label("place"))
        .where(JobState.trouble.in_(FAILING), JobState.error_key.in_(sorted(error_keys)))
        .subquery()
    )
    first = select(ranked.c.error_key, ranked.c.job_id, ranked.c.newest_run_id)
    first = first.where(ranked.c.place <= limit).order_by(ranked.c.place)
    found: dict[str, dict[int, int]] = {}
    for key, job_id, run_id in session.execute(first) if error_keys else ():
        found.setdefault(key, {})[job_id] = run_id or 0
    return found


def events(session: Session, app_ids: Collection[int] | None, *, since_ms: int) -> list[EventRow]:
    """Return what lasted until after a moment, the newest first; app 0 is the whole cluster.

    Events of deleted apps are left out.
    """
    wanted = query(EventRow, BoardEvent, app=App.name).outerjoin(App, App.id == BoardEvent.app_id)
    wanted = wanted.where(or_(BoardEvent.until_at.is_(None), BoardEvent.until_at >= since_ms))
    wanted = wanted.where(or_(BoardEvent.app_id == 0, App.id.is_not(None)))
    if app_ids is not None:
        wanted = wanted.where(BoardEvent.app_id.in_([0, *sorted(app_ids)]))
    newest = wanted.order_by(BoardEvent.since_at.desc(), BoardEvent.id.desc())
    return fetch(session, EventRow, newest.limit(200))


def over_again(
    session: Session, scope: BoardScope, error_keys: Collection[str], *, since_ms: int
) -> dict[str, int]:
    """Return how many of the jobs that had errors since a moment do not fail now, by error."""
    counted = select(JobError.error_key, func.count()).group_by(JobError.error_key)
    counted = counted.join(JobState, JobState.job_id == JobError.job_id)
    counted = counted.where(JobError.error_key.in_(sorted(error_keys)), *_recovered(since_ms))
    if conditions := scope.conditions(Job.app_id, JobState.job_id):
        counted = counted.join(Job, Job.id == JobState.job_id).where(*conditions)
    return {key: int(number) for key, number in session.execute(counted)}


def newest_runs_with(
    session: Session, scope: BoardScope, error_keys: Collection[str], *, since_ms: int
) -> dict[str, int]:
    """Return the newest run that failed with each error since a moment."""
    newest = select(JobError.error_key, func.max(JobError.run_id)).group_by(JobError.error_key)
    newest = newest.where(JobError.error_key.in_(sorted(error_keys)), JobError.last_at >= since_ms)
    if conditions := scope.conditions(Job.app_id, JobError.job_id):
        newest = newest.join(Job, Job.id == JobError.job_id).where(*conditions)
    return {key: int(run_id) for key, run_id in session.execute(newest)}


def of_jobs_where(
    session: Session, scope: BoardScope, condition: ColumnElement[bool], *, limit: int, place: int
) -> list[BoardJob]:
    """Return the jobs of which a condition holds, those in trouble first."""
    order = (JobState.trouble, JobState.newest_at.desc(), Job.id)
    wanted = _jobs(scope).where(condition).order_by(*order)
    return fetch(session, BoardJob, wanted.limit(limit).offset(place))


def had_error(error_key: str, *, since_ms: int, until_ms: int) -> ColumnElement[bool]:
    """Return the condition that a job failed with an error in a span of time."""
    found = select(JobError.job_id).where(
        JobError.error_key == error_key,
        JobError.last_at >= since_ms,
        JobError.since_at <= until_ms,
    )
    return cast(ColumnElement[bool], Job.id.in_(found))


def was_skipped(*, since_ms: int, until_ms: int) -> ColumnElement[bool]:
    """Return the condition that due times of a job were skipped in a span of time."""
    found = select(SkippedTicks.job_id).where(*_skipped(since_ms=since_ms, until_ms=until_ms))
    return cast(ColumnElement[bool], Job.id.in_(found))


def skipped_between(session: Session, scope: BoardScope, *, since_ms: int, until_ms: int) -> int:
    """Return how many due times were skipped in a span of time."""
    wanted = select(func.sum(SkippedTicks.count)).where(
        *_skipped(since_ms=since_ms, until_ms=until_ms)
    )
    if conditions := scope.conditions(Job.app_id, SkippedTicks.job_id):
        wanted = wanted.join(Job, Job.id == SkippedTicks.job_id).where(*conditions)
    return int(session.execute(wanted).scalar() or 0)


def _skipped(*, since_ms: int, until_ms: int) -> tuple[ColumnElement[bool], ...]:
    return SkippedTicks.to_at >= since_ms, SkippedTicks.from_at <= until_ms


def lost_runs_on(app_id: int, address: str, *, since_ms: int) -> ColumnElement[bool]:
    """Return the condition that a job lost runs with an executor."""
    lost = select(Run.job_id).where(*lost_with(app_id, address, since_ms=since_ms))
    return cast(ColumnElement[bool], Job.id.in_(lost))


def names_limit(name: str, app_id: int) -> ColumnElement[bool]:
    """Return the condition that a job of an app has to do with a limit."""
    uses = literal(",") + Job.limits + literal(",")
    is_named = or_(uses.contains(f",{name},"), uses.contains(f",{name}:"))
    return and_(Job.app_id == app_id, Job.limits.is_not(None), is_named)


def is_enabled_in(app_id: int) -> ColumnElement[bool]:
    """Return the condition that a job of an app has a schedule that fires; 0 = of any app."""
    of_app = () if app_id == 0 else (Job.app_id == app_id,)
    return and_(Job.is_enabled == 1, *of_app)


class OutlookRow(NamedTuple):
    """What is expected of an app in the next hour; see `warren.scheduler.board.next_hour`."""

    app_id: int
    app: str
    made_at: int
    content: dict[str, Any]


def outlooks(
    session: Session, app_ids: Collection[int] | None, *, since_ms: int
) -> list[OutlookRow]:
    """Return what is expected of apps, by name; nothing that was computed before `since_ms`."""
    columns = select(Outlook.app_id, App.name, Outlook.made_at, Outlook.content)
    wanted = columns.join(App, App.id == Outlook.app_id).where(Outlook.made_at >= since_ms)
    if app_ids is not None:
        wanted = wanted.where(Outlook.app_id.in_(sorted(app_ids)))
    return [
        OutlookRow(app_id, app, made_at, json.loads(content))
        for app_id, app, made_at, content in session.execute(wanted.order_by(App.name))
    ]


def _ids(scope: BoardScope) -> Select[int]:
    """Return a query for the ids of jobs, to be narrowed and ordered.

    The names and strips are read for those alone that are shown.
    """
    ids = select(JobState.job_id)
    if conditions := scope.conditions(Job.app_id, JobState.job_id):
        ids = ids.join(Job, Job.id == JobState.job_id).where(*conditions)
    return ids


def _in_order(session: Session, ids: Select[int]) -> list[BoardJob]:
    chosen = list(session.execute(ids).scalars())
    found = of_jobs(session, chosen) if chosen else {}
    return [found[id_] for id_ in chosen if id_ in found]


def _jobs(scope: BoardScope) -> Query:
    mutes: dict[str, Any] = {
        "muted_by": Mute.made_by,
        "mute_reason": Mute.reason,
        "mute_until": Mute.until_at,
        "mute_silences": Mute.silences,
        "mute_error": Mute.error_key,
    }
    jobs: dict[str, Any] = {
        "job": Job.name,
        "app_id": Job.app_id,
        "app": App.name,
        "is_enabled": Job.is_enabled,
        "next_tick_at": Job.next_tick_at,
        "timezone": Job.timezone,
    }
    found = query(BoardJob, JobState, **jobs, **mutes).join(Job, Job.id == JobState.job_id)
    found = found.join(App, App.id == Job.app_id)
    found = found.outerjoin(Mute, Mute.job_id == JobState.job_id)
    return found.where(*scope.conditions(Job.app_id, Job.id))


def _recovered(since_ms: int) -> list[ColumnElement[bool]]:
    return [and_(JobError.last_at >= since_ms, JobState.trouble.not_in(FAILING))]
