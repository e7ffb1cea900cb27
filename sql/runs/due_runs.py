"""Queries about planned runs: which are due, overdue or have misfired, and how many of a job wait.

No query orders by id with a limit: the database might then read the whole table along its primary
key.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, false, func, not_, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.dialects.supported import of as dialect_of
from warren.sql.models import App, FlowJob, Job, Run
from warren.sql.run_status import BY_SCHEDULE, OPEN, Kind, RunStatus
from warren.sql.runs.run_rows import PlannedRun


class DueSpan(NamedTuple):
    """Due times in [from, to) at which no run of a schedule could be sent; `app_id` 0 = of any app.

    A released run counts as due when it was released. A MISFIRE run that was still waiting is
    decided about again, together with what was missed after it, so for it the end is `over_ms`.
    """

    from_ms: int
    to_ms: int
    over_ms: int
    app_id: int = 0

    def covers(self, run: PlannedRun) -> bool:
        """Whether a planned run needs a decision before it is sent; the same rule as `_is_due`."""
        if run.kind not in BY_SCHEDULE or self.app_id not in (0, run.app_id):
            return False
        released_at = run.due_at if run.released_at is None else run.released_at
        to_ms = self.over_ms if run.kind == Kind.MISFIRE else self.to_ms
        return bool(self.from_ms <= released_at < to_ms)


def next_due(session: Session, *, since_ms: int) -> dict[int, int]:
    """Return the earliest `due_at` of each app's PLANNED runs due at or after `since_ms`.

    The lower bound avoids index entries that are deleted but kept for an old snapshot; without it a
    claim takes 55 ms instead of 4.
    """
    rows = session.execute(next_due_of_apps(since_ms, jumps=dialect_of(session).jumps_to_groups))
    return {row[0]: row[1] for row in rows}


def next_due_of_apps(since_ms: int, *, jumps: bool) -> Select[int, int]:
    """Return the SELECT of `next_due`, for a database that `jumps_to_groups` or for another.

    Grouping by status too, although all have the same, lets MariaDB jump from app to app along the
    index: 6 ms instead of 110 with 100,000 rows. For others each jump is a subquery.
    """
    is_planned = Run.status == RunStatus.PLANNED
    if jumps:
        return (
            select(Run.app_id, func.min(Run.due_at).label("due_at"))
            .where(is_planned, Run.due_at >= since_ms)
            .group_by(Run.status, Run.app_id)
        )
    apps = select(func.min(Run.app_id).label("app_id")).where(is_planned).cte(recursive=True)
    following = select(func.min(Run.app_id)).where(is_planned, Run.app_id > apps.c.app_id)
    apps = apps.union_all(select(following.scalar_subquery()).where(apps.c.app_id.is_not(None)))
    first = select(func.min(Run.due_at)).where(
        is_planned, Run.app_id == apps.c.app_id, Run.due_at >= since_ms
    )
    each = select(apps.c.app_id, first.scalar_subquery().label("due_at")).subquery()
    return select(each.c.app_id, each.c.due_at).where(each.c.due_at.is_not(None))


def next_due_of(
    session: Session,
    app_id: int,
    *,
    after_ms: int,
    until_ms: int,
    without_jobs: Collection[int],
) -> int | None:
    """Return when the next PLANNED run of an app is due in (after, until]; None if there is none.

    Runs of `without_jobs` are left out.
    """
    statement = select(Run.due_at).where(
        Run.status == RunStatus.PLANNED,
        Run.app_id == app_id,
        Run.due_at > after_ms,
        Run.due_at <= until_ms,
        Run.job_id.not_in(list(without_jobs)),
    )
    return session.execute(statement.order_by(Run.due_at).limit(1)).scalar_one_or_none()


def peek_due(
    session: Session,
    app_id: int,
    *,
    since_ms: int,
    until_ms: int,
    limit: int,
    of_jobs: Collection[int] = (),
    without_jobs: Collection[int] = (),
    missed: Sequence[DueSpan] = (),
) -> list[int]:
    """Return the ids of an app's PLANNED runs due in [since, until], oldest first, without locks.

    The ids are in the index, so no row is read. With `of_jobs` only their runs are returned. Runs
    of `without_jobs` are left out, and so are runs that a schedule planned for a time in `missed`.
    """
    statement = select(Run.id).where(
        Run.status == RunStatus.PLANNED,
        Run.app_id == app_id,
        Run.due_at >= since_ms,
        Run.due_at <= until_ms,
    )
    if of_jobs:
        statement = statement.where(Run.job_id.in_(list(of_jobs)))
    if without_jobs:
        statement = statement.where(Run.job_id.not_in(list(without_jobs)))
    if missed:
        statement = statement.where(not_(_is_missed(missed)))
    run_ids = session.execute(statement.order_by(Run.due_at).limit(limit))
    return list(run_ids.scalars())


def peek_flows(
    session: Session,
    app_id: int,
    *,
    since_ms: int,
    until_ms: int,
    limit: int,
    without_jobs: Collection[int] = (),
) -> list[int]:
    """Return the ids of an app's PLANNED runs of flows, as `peek_due` does.

    For an app without flows, only a small table is read.
    """
    flows = select(FlowJob.flow_id).join(Job, Job.id == FlowJob.flow_id).where(Job.app_id == app_id)
    flow_ids = set(session.execute(flows.distinct()).scalars()) - set(without_jobs)
    return [
        run_id
        for chunk in chunks(sorted(flow_ids))
        for run_id in session.execute(
            select(Run.id)
            .where(
                Run.status == RunStatus.PLANNED,
                Run.app_id == app_id,
                Run.due_at >= since_ms,
                Run.due_at <= until_ms,
                Run.job_id.in_(chunk),
            )
            .order_by(Run.due_at)
            .limit(limit)
        ).scalars()
    ][:limit]


def waiting_counts(
    session: Session,
    app_id: int,
    job_ids: Collection[int],
    *,
    until_ms: int,
    without_runs: Collection[int] = (),
) -> dict[int, int]:
    """Return how many PLANNED runs of each of an app's jobs are due by then, without locks."""
    statement = select(Run.job_id, func.count()).where(
        Run.status == RunStatus.PLANNED,
        Run.app_id == app_id,
        Run.due_at <= until_ms,
        Run.job_id.in_(sorted(job_ids)),
        Run.id.not_in(sorted(without_runs)),
    )
    return dict(session.execute(statement.group_by(Run.job_id)).all())


def job_of(session: Session, run_id: int) -> int | None:
    """Return the id of a run's job; None if there is no such run."""
    return session.execute(select(Run.job_id).where(Run.id == run_id)).scalar_one_or_none()


def overdue_counts(session: Session, *, before_ms: int) -> dict[int, int]:
    """Return the number of each job's PLANNED runs that were due before `before_ms`.

    Runs of backfills, which are few, do not count.
    """
    rows = session.execute(
        select(Run.job_id, func.count())
        .where(Run.status == RunStatus.PLANNED, Run.due_at < before_ms)
        .where(Run.backfill_id.is_(None))
        .group_by(Run.job_id)
    )
    return dict(rows.all())


def count_due(
    session: Session, app_ids: Collection[int] | None, *, until_ms: int, most: int
) -> int:
    """Count the PLANNED runs of apps that are due, up to `most`; None = of all apps."""
    # With its app, each is found along the index of states; those due later are not read.
    apps = session.execute(select(App.id)).scalars().all() if app_ids is None else app_ids
    due = select(Run.id).where(
        Run.status == RunStatus.PLANNED, Run.app_id.in_(sorted(apps)), Run.due_at <= until_ms
    )
    counted = select(func.count()).select_from(due.limit(most).subquery())
    return session.execute(counted).scalar_one()


def waiting_by_app(session: Session, *, now_ms: int) -> dict[str, int]:
    """Return the number of PLANNED runs that are due, by the name of their app."""
    waiting = (
        select(Run.app_id.label("app_id"), func.count().label("runs"))
        .where(Run.status == RunStatus.PLANNED, Run.due_at <= now_ms)
        .group_by(Run.app_id)
        .subquery()
    )
    named = select(App.name, waiting.c.runs).join(waiting, App.id == waiting.c.app_id)
    return dict(session.execute(named).all())


def missed_jobs(session: Session, missed: Sequence[DueSpan]) -> list[int]:
    """Return the jobs with PLANNED runs of their schedules that misfired in one of the spans."""
    rows = session.execute(
        select(Run.job_id).where(Run.status == RunStatus.PLANNED, _is_missed(missed)).distinct()
    )
    return sorted(rows.scalars())


def missed(session: Session, job_ids: Iterable[int], missed: Sequence[DueSpan]) -> dict[int, int]:
    """Return the jobs of these jobs' runs that misfired in a span, by run id, without locks."""
    planned = select(Run.id, Run.job_id).where(Run.status == RunStatus.PLANNED, _is_missed(missed))
    return {
        run_id: job_id
        for chunk in chunks(job_ids)
        for run_id, job_id in session.execute(planned.where(Run.job_id.in_(chunk)))
    }


def last_ticks(
    session: Session, job_ids: Iterable[int], *, since_ms: int, now_ms: int
) -> dict[int, int]:
    """Return each job's last tick at or after `since_ms` that is due by now and has a run."""
    rows = session.execute(
        select(Run.job_id, func.max(Run.scheduled_at))
        .where(
            Run.job_id.in_(sorted(job_ids)),
            Run.scheduled_at >= since_ms,
            Run.due_at <= now_ms,
            Run.kind.in_(BY_SCHEDULE),
            Run.status != RunStatus.CANCELLED,
        )
        .group_by(Run.job_id)
    )
    return dict(rows.all())


def _is_missed(missed: Sequence[DueSpan]) -> ColumnElement[bool]:
    """Return the condition on scheduled runs that could not be sent in one of the spans."""
    is_due = or_(false(), *map(_is_due, missed))
    return and_(Run.kind.in_(BY_SCHEDULE), is_due)


def _is_due(span: DueSpan) -> ColumnElement[bool]:
    released_at = func.coalesce(Run.released_at, Run.due_at)
    is_due = and_(
        Run.due_at < span.over_ms,
        released_at >= span.from_ms,
        released_at < case((Run.kind == Kind.MISFIRE, span.over_ms), else_=span.to_ms),
    )
    return and_(Run.app_id == span.app_id, is_due) if span.app_id else is_due


@dataclass(slots=True)
class Waiting:
    """The due runs of a job: those that are not sent, and those at each address.

    At each address up to `concurrency` of them are running.
    """

    concurrency: int
    planned: int = 0
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many wait."""
        most = max(1, self.concurrency)
        return self.planned + sum(max(0, runs - most) for runs in self.sent.values())

    def send(self, address: str) -> None:
        """Count a run that is sent."""
        self.sent[address] = self.sent.get(address, 0) + 1


def waiting_of_jobs(
    session: Session,
    app_id: int,
    concurrency: Mapping[int, int],
    *,
    until_ms: int,
    without_runs: Collection[int] = (),
) -> dict[int, Waiting]:
    """Return the waiting runs of an app's jobs, given with their concurrency; takes no locks."""
    rows = session.execute(
        select(Run.job_id, Run.status, Run.address, func.count())
        .where(
            Run.status.in_(OPEN),
            Run.app_id == app_id,
            Run.due_at <= until_ms,
            Run.job_id.in_(sorted(concurrency)),
            Run.id.not_in(sorted(without_runs)),
        )
        .group_by(Run.job_id, Run.status, Run.address)
    )
    planned: dict[int, int] = defaultdict(int)
    sent: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for job_id, status, address, runs in rows:
        if status == RunStatus.PLANNED:
            planned[job_id] += runs
        else:
            sent[job_id][address or ""] += runs
    return {
        job_id: Waiting(most, planned[job_id], dict(sent[job_id]))
        for job_id, most in concurrency.items()
    }
