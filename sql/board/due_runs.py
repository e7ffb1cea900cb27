"""Reads the runs and skips that the state of jobs follows from."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.dialects.supported import use_index
from warren.sql.models import Job, Run, SkippedTicks
from warren.sql.models.run_tables import BY_TICK
from warren.sql.rows import among, fetch, query
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs.reruns import DueTime

#: The most due times in one statement.
_CHUNK = 100
#: How many characters of a message are read from its beginning.
_BEGINNING = 3_000
#: How many runs of a job are read at once, and how many of a due time that has many.
PAGE, LAST_ENDED = 200, 20


class DueRun(NamedTuple):
    """A run, with what its due time is judged by."""

    id: int
    job_id: int
    scheduled_at: int
    origin_id: int
    shard_index: int
    shard_total: int
    attempt: int
    status: str
    rerun_of: int | None
    backfill_id: int | None
    flow_run_id: int | None
    started_at: int | None
    finished_at: int | None

    @property
    def may_be_of_node(self) -> bool:
        """Whether it is a run of a flow's node, or may repeat one."""
        return self.flow_run_id is not None or self.rerun_of is not None

    @property
    def is_plain(self) -> bool:
        """Whether it is a success that was tried once, and repeats nothing; as in `totals`."""
        return (
            self.status == RunStatus.SUCCEEDED
            and self.attempt == 0
            and self.shard_total <= 1
            and self.rerun_of is None
            and self.backfill_id is None
            and self.flow_run_id is None
        )


class Skip(NamedTuple):
    """Due times of a job that were skipped."""

    job_id: int
    from_at: int
    to_at: int
    number: int


class Total(NamedTuple):
    """How many runs of a job there are among some, how many of them are plain, and their times."""

    job_id: int
    number: int
    plain: int
    first_at: int
    last_at: int

    def plus(self, other: "Total") -> "Total":
        """Return the total of two parts."""
        return Total(
            self.job_id,
            self.number + other.number,
            self.plain + other.plain,
            min(self.first_at, other.first_at),
            max(self.last_at, other.last_at),
        )


def totals(session: Session, run_ids: Iterable[int]) -> dict[int, Total]:
    """Return the totals of the runs that exist, by job."""
    is_plain = and_(
        Run.status == RunStatus.SUCCEEDED,
        Run.attempt == 0,
        Run.shard_total <= 1,
        Run.rerun_of.is_(None),
        Run.backfill_id.is_(None),
        Run.flow_run_id.is_(None),
    )
    asked = select(
        Run.job_id,
        func.count(),
        func.count(case((is_plain, 1))),
        func.min(Run.scheduled_at),
        func.max(Run.scheduled_at),
    ).group_by(Run.job_id)
    found: dict[int, Total] = {}
    for chunk in chunks(run_ids):
        for row in session.execute(asked.where(among(Run.id, chunk))):
            total = Total(*row)
            known = found.get(total.job_id)
            found[total.job_id] = total if known is None else known.plus(total)
    return found


def by_ids(
    session: Session, run_ids: Iterable[int], *, but_of: Collection[int] = ()
) -> list[DueRun]:
    """Return the runs that exist, but not those of some jobs."""
    wanted = query(DueRun, Run).where(Run.job_id.not_in(but_of)) if but_of else query(DueRun, Run)
    return fetch_by_ids(session, DueRun, wanted, Run.id, run_ids)


def newest(session: Session, job_id: int, *, last_at: int, number: int) -> list[DueRun]:
    """Return this many runs of a job, the newest first, from a due time on into the past."""
    wanted = query(DueRun, Run).where(Run.job_id == job_id, Run.scheduled_at <= last_at)
    in_order = use_index(wanted, Run, BY_TICK).order_by(Run.scheduled_at.desc()).limit(number)
    return fetch(session, DueRun, in_order)


def at(session: Session, times: Iterable[DueTime]) -> list[DueRun]:
    """Return all runs of due times."""
    return [
        run
        for chunk in chunks(sorted(set(times)), _CHUNK)
        for run in fetch(session, DueRun, query(DueRun, Run).where(or_(*map(_is_at, chunk))))
    ]


def last_ended(session: Session, times: Iterable[DueTime]) -> list[DueRun]:
    """Return the LAST_ENDED newest runs of each due time, by origin and attempt.

    Without those that are open at their first attempt.
    """
    columns = [getattr(Run, name) for name in DueRun._fields]
    place = func.row_number().over(
        partition_by=(Run.job_id, Run.scheduled_at),
        order_by=(Run.origin_id.desc(), Run.attempt.desc()),
    )
    has_ended = or_(Run.status.not_in(OPEN), Run.attempt > 0)
    found: list[DueRun] = []
    for chunk in chunks(sorted(set(times)), _CHUNK):
        ended = select(*columns, place.label("place")).where(or_(*map(_is_at, chunk)), has_ended)
        placed = ended.subquery()
        asked = select(*(placed.c[name] for name in DueRun._fields))
        rows = session.execute(asked.where(placed.c.place <= LAST_ENDED))
        found += [DueRun(*row) for row in rows]
    return found


def newest_first(
    session: Session, job_id: int, *, until_at: int | None = None, page_length: int = PAGE
) -> Iterator[list[DueRun]]:
    """Yield the runs of each due time of a job before `until_at`, the newest due time first."""
    while True:
        wanted = query(DueRun, Run).where(Run.job_id == job_id)
        if until_at is not None:
            wanted = wanted.where(Run.scheduled_at < until_at)
        newest = (
            use_index(wanted, Run, BY_TICK).order_by(Run.scheduled_at.desc()).limit(page_length)
        )
        page = fetch(session, DueRun, newest)
        times = [list(runs) for _, runs in groupby(page, lambda run: run.scheduled_at)]
        if len(page) == page_length:
            # The last one may be cut.
            last = times.pop()[0].scheduled_at
            if not times:
                times.append(at(session, [DueTime(job_id, last)]))
        yield from times
        if len(page) < page_length:
            return
        until_at = times[-1][0].scheduled_at


def messages(session: Session, run_ids: Iterable[int]) -> dict[int, str]:
    """Return the beginning of each run's message, or of its routing message, or its status."""
    routed = func.nullif(Run.trigger_message, "")
    text = func.coalesce(func.nullif(Run.message, ""), routed, Run.status)
    return {
        run_id: message
        for chunk in chunks(run_ids)
        for run_id, message in session.execute(
            select(Run.id, func.substr(text, 1, _BEGINNING)).where(among(Run.id, chunk))
        )
    }


def reasons(session: Session, run_ids: Iterable[int]) -> dict[int, str]:
    """Return the reasons behind what `messages` returns, as JSON, of the runs that have one."""
    has_message = func.coalesce(Run.message, "") != ""
    why = case((has_message, Run.message_why), else_=Run.trigger_why)
    return {
        run_id: reason
        for chunk in chunks(run_ids)
        for run_id, reason in session.execute(select(Run.id, why).where(among(Run.id, chunk)))
        if reason
    }


def skips(session: Session, job_ids: Iterable[int]) -> list[Skip]:
    """Return the newest skips of each job, in no order."""
    return [
        skip
        for job_id in job_ids
        for skip in fetch(
            session,
            Skip,
            query(Skip, SkippedTicks, number=SkippedTicks.count)
            .where(SkippedTicks.job_id == job_id)
            .order_by(SkippedTicks.from_at.desc())
            .limit(PAGE),
        )
    ]


def existing(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return which of the jobs exist."""
    return {
        job_id
        for chunk in chunks(job_ids)
        for job_id in session.execute(select(Job.id).where(among(Job.id, chunk))).scalars()
    }


def _is_at(time: DueTime) -> ColumnElement[bool]:
    return and_(Run.job_id == time.job_id, Run.scheduled_at == time.scheduled_at)
