"""Queries of the timeline: runs in a span of time, and the next ticks of enabled jobs.

All queries use an index and have a limit; the results show what was left out.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import cast

from sqlalchemy import BigInteger, Select, bindparam, func, literal, select, union_all
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.instants import MINUTE_MS
from warren.sql.jobs import job_names
from warren.sql.jobs.job_names import NamedJob
from warren.sql.listings import newest_runs
from warren.sql.listings.newest_runs import DrawnRun, RunSelection, Walk
from warren.sql.models import Job, Run
from warren.sql.models.job_tables import BY_NEXT_TICK
from warren.sql.models.run_tables import BY_TICK
from warren.sql.rows import Query, fetch, fetch_plain, query
from warren.sql.run_status import FINE, OPEN, RunStatus

#: The most runs of each kind in a sample: open, failed and successful ones.
SAMPLE_LIMIT = 400
#: The statuses of runs that did not succeed.
TROUBLE = frozenset(RunStatus) - OPEN - FINE - {RunStatus.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The newest runs of a span; before `complete_from_ms` some are missing, None = none is."""

    runs: list[DrawnRun]
    complete_from_ms: int | None


def sample(
    session: Session,
    app_ids: Collection[int] | None,
    *,
    from_ms: int,
    until_ms: int,
    limit: int = SAMPLE_LIMIT,
) -> Sample:
    """Return the newest open, failed and successful runs, up to `limit` of each.

    Open runs count however long ago they were due, because they may have been running since.
    """
    parts = ((OPEN, None), (TROUBLE, from_ms), (FINE, from_ms))
    sampled: dict[int, DrawnRun] = {}
    ends = []
    for statuses, since in parts:
        wanted = RunSelection(
            statuses=statuses, app_ids=app_ids, since_ms=since, until_ms=until_ms, row=DrawnRun
        )
        runs = cast("Iterator[DrawnRun]", newest_runs.stream(session, wanted))
        newest = list(islice(runs, limit + 1))
        if len(newest) > limit:
            newest.pop()
            ends.append(newest[-1].due_at)
        # One that changes meanwhile is read twice; its later state counts.
        sampled |= {run.id: run for run in newest}
    return Sample(runs=[*sampled.values()], complete_from_ms=max(ends, default=None))


def of_jobs(
    session: Session, job_ids: Sequence[int], *, from_ms: int, until_ms: int, limit: int
) -> list[DrawnRun]:
    """Return the newest runs of a few jobs with ticks in a span, up to `limit` of each job."""
    if not job_ids:
        return []
    values = {"from_ms": from_ms, "until_ms": until_ms, "most": limit}
    values |= {f"job_{number}": job_id for number, job_id in enumerate(job_ids)}
    return fetch_plain(session, DrawnRun, _newest_of_jobs(len(job_ids)), values)


# Built once for each number of jobs: building it takes longer than executing it.
@lru_cache(maxsize=64)
def _newest_of_jobs(count: int) -> Query:
    value = partial(bindparam, type_=BigInteger())
    newest = (
        use_index(query(DrawnRun, Run), Run, BY_TICK)
        .where(Run.scheduled_at >= value("from_ms"), Run.scheduled_at < value("until_ms"))
        .order_by(Run.scheduled_at.desc())
        .limit(value("most"))
    )
    by_job = (newest.where(Run.job_id == bindparam(f"job_{n}")).subquery() for n in range(count))
    return union_all(*(select(runs) for runs in by_job))  # type: ignore[return-value]


def of_apps(
    session: Session, app_ids: Collection[int], *, from_ms: int, until_ms: int, limit: int
) -> dict[int, Sample]:
    """Return each app's newest runs that are due in a span, at least `limit` if there are more."""
    wanted = RunSelection(
        statuses=frozenset(RunStatus),
        app_ids=app_ids,
        since_ms=from_ms,
        until_ms=until_ms,
        row=DrawnRun,
    )
    walks = cast("dict[int, Walk[DrawnRun]]", newest_runs.read_by_app(session, wanted, limit=limit))
    samples = {app_id: Sample(runs=[], complete_from_ms=None) for app_id in app_ids}
    for app_id, walk in walks.items():
        runs = [run for _, run in walk.rows]
        samples[app_id] = Sample(runs=runs, complete_from_ms=walk.end[0] if walk.end else None)
    return samples


#: The most runs of one day that are examined, the latest ones.
MAX_DAY_RUNS = 40


@dataclass(slots=True)
class DayOutcomes:
    """Runs of a day by outcome; `is_all` is False if the day has more than were examined."""

    succeeded: int = 0
    failed: int = 0
    open: int = 0
    is_all: bool = True

    @property
    def total(self) -> int:
        """Return the number of runs."""
        return self.succeeded + self.failed + self.open

    def add(self, status: str) -> None:
        """Count a run, unless it was cancelled or skipped."""
        if status in TROUBLE:
            self.failed += 1
        elif status in OPEN:
            self.open += 1
        elif status == RunStatus.SUCCEEDED:
            self.succeeded += 1


def outcomes_of_days(session: Session, job_id: int, bounds: Sequence[int]) -> list[DayOutcomes]:
    """Return the outcomes of each day; day N is [bounds[N], bounds[N + 1])."""
    days = [DayOutcomes() for _ in bounds[1:]]
    if not days:
        return []
    by_day = [
        use_index(select(literal(day).label("day"), Run.status), Run, BY_TICK)
        .where(Run.job_id == job_id, Run.scheduled_at >= since, Run.scheduled_at < until)
        .order_by(Run.scheduled_at.desc())
        .limit(MAX_DAY_RUNS)
        .subquery()
        for day, (since, until) in enumerate(pairwise(bounds))
    ]
    seen = [0] * len(days)
    for day, status in session.execute(union_all(*(select(runs) for runs in by_day))):
        days[day].add(status)
        seen[day] += 1
    for outcomes, number in zip(days, seen, strict=True):
        outcomes.is_all = number < MAX_DAY_RUNS
    return days


MAX_JOBS = 5_000


@dataclass(frozen=True, slots=True)
class FirstDue:
    """The ids of the jobs that are due first; `seen_until_ms` as in `NextTicks`."""

    job_ids: Sequence[int]
    seen_until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTicks:
    """The jobs that are due first, and the number of jobs due in each minute from now.

    `seen_until_ms`: jobs due later were not examined; None = all were.
    """

    first: list[NamedJob]
    per_minute: dict[int, int]
    seen_until_ms: int | None

    @property
    def total(self) -> int:
        """Return the number of jobs due, up to `seen_until_ms`."""
        return sum(self.per_minute.values())


def next_ticks(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int, limit: int
) -> NextTicks:
    """Return the jobs whose next tick is in [from, to]; the `limit` first ones with their names."""
    first = first_due(session, app_ids, from_ms=from_ms, to_ms=to_ms, limit=limit)
    return NextTicks(
        first=_named(session, first.job_ids),
        per_minute=due_per_minute(session, app_ids, from_ms=from_ms, to_ms=to_ms),
        seen_until_ms=first.seen_until_ms,
    )


def due_per_minute(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int
) -> dict[int, int]:
    """Return how many jobs have their next tick in each minute after `from_ms` that has any.

    Only the first MAX_JOBS are counted.
    """
    due = _due(from_ms, to_ms).subquery()
    minute = ((due.c.next_tick_at - from_ms) // MINUTE_MS).label("minute")
    counted = select(minute, func.count()).group_by("minute").order_by("minute")
    if app_ids is not None:
        counted = counted.where(due.c.app_id.in_(app_ids))
    return {int(place): number for place, number in session.execute(counted)}


def first_due(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int, limit: int
) -> FirstDue:
    """Return the first jobs whose next tick is in [from, to]."""
    due = _due(from_ms, to_ms).subquery()
    first = select(due.c.id).order_by(due.c.next_tick_at, due.c.id).limit(limit)
    if app_ids is not None:
        first = first.where(due.c.app_id.in_(app_ids))
    examined, last = session.execute(select(func.count(), func.max(due.c.next_tick_at))).one()
    return FirstDue(
        job_ids=session.execute(first).scalars().all(),
        seen_until_ms=last if examined == MAX_JOBS else None,
    )


def _due(from_ms: int, to_ms: int) -> Select[int, int, int]:
    due = (
        select(Job.id, Job.app_id, Job.next_tick_at)
        .where(
            Job.is_enabled == 1,
            Job.next_tick_at >= from_ms,
            Job.next_tick_at <= to_ms,
        )
        .order_by(Job.next_tick_at)
        .limit(MAX_JOBS)
    )
    return use_index(due, Job, BY_NEXT_TICK)


def _named(session: Session, job_ids: Sequence[int]) -> list[NamedJob]:
    named = job_names.of_jobs().where(Job.id.in_(job_ids)).order_by(Job.next_tick_at, Job.id)
    return fetch(session, NamedJob, named) if job_ids else []
