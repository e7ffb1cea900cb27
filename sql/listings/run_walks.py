"""Reads runs along an index, newest first, for lists that page through them.

one or a few jobs            along `i_tick`, by tick
some statuses or apps        along `i_status_due`, by due time: see `newest_runs`
all runs                     along `i_trigger_time`, by due time to the second
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, CompoundSelect, and_, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from warren.sql.dialects.supported import use_index
from warren.sql.instants import at, epoch_ms
from warren.sql.listings import newest_runs
from warren.sql.listings.newest_runs import (
    Due,
    FoundRun,
    IndexedRun,
    ReadSizes,
    RunSelection,
    ScannedRun,
)
from warren.sql.models import Run
from warren.sql.models.runs import BY_DUE_SECOND, BY_TICK
from warren.sql.rows import Query, query
from warren.sql.run_status import RunStatus

#: Most runs examined for one page; each costs a read by primary key.
LOOKED_AT = newest_runs.ALL_ROWS
#: A job's runs are read by tick, but may be due long after it: late retries and misfires, children
#: of long runs. So this many runs with ticks before the earliest due time are looked at too.
EARLIER_RUNS = 5_000

#: The position where a page ended: the values of its last run in the columns of the order.
Place = tuple[int, ...]

_TICK = (Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSearch:
    """Which runs to return; None, and no statuses, mean all.

    Attributes:
        app_ids: the apps that exist for the visitor, or fewer.
        job_id: one job.
        job_ids: a few jobs.
        text: a part of the message.
        since_ms: the earliest due time.
        unresolved: only failures whose shard of the due time is failed now.
        until_ms: the due time before which runs are returned.
        before: the position where the previous page ended.
        limit: runs on a page.
        looked_at: most runs examined for a page.

    """

    app_ids: Collection[int] | None = None
    job_id: int | None = None
    job_ids: Sequence[int] | None = None
    text: str | None = None
    statuses: frozenset[RunStatus] = frozenset()
    kind: str | None = None
    address: str | None = None
    unresolved: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    before: Place | None = None
    limit: int = 50
    looked_at: int = LOOKED_AT


class DatedRun(NamedTuple):
    """The columns of a run that a search for messages alone needs."""

    id: int
    due_at: int


ListedRun: TypeAlias = FoundRun | DatedRun
_Row = TypeVar("_Row", bound=ScannedRun | DatedRun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Runs in the list's order, each with its position; `end` is where reading stopped.

    `end` None = there are no more runs. `looked_at` is how many were read.
    """

    rows: Sequence[tuple[Place, ListedRun]]
    end: Place | None
    looked_at: int


def walk(session: Session, wanted: RunSearch) -> Walk:
    """Return the next runs along the index that suits the search.

    Only what the index knows is checked; the caller checks the rest.
    """
    if wanted.job_id is not None:
        return _along_ticks(session, wanted, wanted.job_id)
    if wanted.job_ids is not None:
        return _along_ticks_of_jobs(session, wanted, wanted.job_ids)
    if is_along_partitions(wanted):
        return _along_partitions(session, wanted)
    return _along_time(session, wanted)


def candidates(session: Session, wanted: RunSearch) -> Query:
    """Return a query of the runs that `walk` would read, for one job, or all, or by status or app.

    As there, only what the index knows is checked.
    """
    if wanted.job_id is not None:
        return _ticks_of(wanted, wanted.job_id, _first_ticks(session, wanted, [wanted.job_id]))
    if is_along_partitions(wanted):
        return newest_runs.unordered(session, selection(wanted, before=None))
    return _times_of(wanted, ScannedRun)


def is_along_partitions(wanted: RunSearch) -> bool:
    """Whether a search reads along the partitions of `newest_runs`."""
    is_of_jobs = wanted.job_id is not None or wanted.job_ids is not None
    return not is_of_jobs and (wanted.app_ids is not None or bool(wanted.statuses))


def _along_ticks(session: Session, wanted: RunSearch, job_id: int) -> Walk:
    first_ticks = _first_ticks(session, wanted, [job_id])
    statement = _ticks_of(wanted, job_id, first_ticks, _before(_TICK, wanted.before))
    limit = _limit(wanted, has_rest=has_rest(wanted) or bool(wanted.statuses))
    rows = _pairs(session, ScannedRun, statement.limit(limit))
    return _walked(rows, limit)


def _along_ticks_of_jobs(session: Session, wanted: RunSearch, job_ids: Sequence[int]) -> Walk:
    """Read some runs of each job, and stop where the first job's part ends."""
    if not job_ids:
        return Walk(rows=[], end=None, looked_at=0)
    limit = _limit(wanted, has_rest=has_rest(wanted) or bool(wanted.statuses))
    each = max(newest_runs.PARTITION_ROWS, min(limit, wanted.looked_at // len(job_ids)))
    first_ticks = _first_ticks(session, wanted, job_ids)
    parts = [
        _ticks_of(wanted, job_id, first_ticks, _before_of_job(wanted.before, job_id)).limit(each)
        for job_id in job_ids
    ]
    pairs = _pairs(session, ScannedRun, union_all(*(select(part.subquery()) for part in parts)))
    shares: dict[int, list[Place]] = {}
    placed = sorted((((*tick, run.job_id), run) for tick, run in pairs), reverse=True)
    for place, run in placed:
        shares.setdefault(run.job_id, []).append(place)
    end = max((places[-1] for places in shares.values() if len(places) >= each), default=None)
    known = [one for one in placed if end is None or one[0] >= end]
    return Walk(rows=known, end=end, looked_at=len(placed))


def _ticks_of(
    wanted: RunSearch,
    job_id: int,
    first_ticks: Mapping[int, int],
    before: Sequence[ColumnElement[bool]] = (),
) -> Query:
    statement = (
        use_index(query(ScannedRun, Run).add_columns(*_TICK), Run, BY_TICK)
        .where(Run.job_id == job_id, *before)
        .order_by(*(column.desc() for column in _TICK))
    )
    if wanted.since_ms is not None:
        statement = statement.where(
            Run.scheduled_at >= first_ticks.get(job_id, 0), Run.due_at >= wanted.since_ms
        )
    if wanted.until_ms is not None:
        statement = statement.where(Run.scheduled_at < wanted.until_ms)
    return statement


def _first_ticks(session: Session, wanted: RunSearch, job_ids: Sequence[int]) -> dict[int, int]:
    """Return the tick of each job from which on runs are looked at; without one, all are."""
    if wanted.since_ms is None or not job_ids:
        return {}
    earlier = (
        use_index(select(Run.job_id, Run.scheduled_at), Run, BY_TICK)
        .where(Run.scheduled_at < wanted.since_ms)
        .order_by(*(column.desc() for column in _TICK))
        .offset(EARLIER_RUNS)
        .limit(1)
    )
    firsts = (select(earlier.where(Run.job_id == job_id).subquery()) for job_id in job_ids)
    return dict(session.execute(union_all(*firsts)).all())


def _along_time(session: Session, wanted: RunSearch) -> Walk:
    is_narrow = wanted.kind is None and wanted.address is None
    row: type[ScannedRun | DatedRun] = DatedRun if is_narrow else ScannedRun
    statement = _times_of(wanted, row)
    if wanted.before is not None and len(wanted.before) == 2:  # noqa: PLR2004 - time and id
        due, run_id = at(wanted.before[0]), wanted.before[1]
        statement = statement.where(
            Run.due_second <= due, or_(Run.due_second < due, Run.id < run_id)
        )
    limit = _limit(wanted, has_rest=has_rest(wanted))
    rows = _pairs(session, row, statement.limit(limit))
    return _walked([((epoch_ms(due), run.id), run) for (due,), run in rows], limit)


def _times_of(wanted: RunSearch, row: type[ScannedRun | DatedRun]) -> Query:
    statement = (
        use_index(query(row, Run).add_columns(Run.due_second), Run, BY_DUE_SECOND)
        .where(Run.due_second.is_not(None))
        .order_by(Run.due_second.desc(), Run.id.desc())
    )
    if wanted.since_ms is not None:
        statement = statement.where(Run.due_second >= at(wanted.since_ms))
    if wanted.until_ms is not None:
        statement = statement.where(Run.due_second < at(wanted.until_ms + 999))
    return statement


def _along_partitions(session: Session, wanted: RunSearch) -> Walk:
    place = wanted.before
    before = (place[0], place[1]) if place is not None and len(place) == 2 else None  # noqa: PLR2004 - due time and id
    limit = _limit(wanted, has_rest=has_rest(wanted))
    newest = newest_runs.read(session, selection(wanted, before=before), limit=limit)
    return Walk(rows=newest.rows, end=newest.end, looked_at=newest.looked_at)


def selection(wanted: RunSearch, *, before: Due | None) -> RunSelection:
    """Return the part of a search that `newest_runs` understands."""
    return RunSelection(
        statuses=wanted.statuses or frozenset(RunStatus),
        app_ids=wanted.app_ids,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
        before=before,
        row=IndexedRun if wanted.kind is None and wanted.address is None else ScannedRun,
        sizes=ReadSizes(all_rows=wanted.looked_at),
    )


def _before(
    columns: Sequence[InstrumentedAttribute[Any]], place: Place | None
) -> list[ColumnElement[bool]]:
    """Return the conditions on rows before a position; none for one of another order."""
    if place is None or len(place) != len(columns):
        return []
    pairs = list(zip(columns, place, strict=True))
    earlier = [
        and_(*(one == value for one, value in pairs[:number]), column < value)
        for number, (column, value) in enumerate(pairs)
    ]
    return [columns[0] <= place[0], or_(*earlier)]


def _before_of_job(place: Place | None, job_id: int) -> list[ColumnElement[bool]]:
    """Return the same for the runs of one of several jobs, ordered by tick and then by job."""
    if place is None or len(place) != len(_TICK) + 1:
        return []
    *tick, last_job = place
    first, rest = _before(_TICK, tuple(tick))
    same = and_(*(column == value for column, value in zip(_TICK, tick, strict=True)))
    return [first, or_(rest, same) if job_id < last_job else rest]


def has_rest(wanted: RunSearch) -> bool:
    """Whether the search has criteria that are in no index."""
    return wanted.unresolved or any(
        one is not None for one in (wanted.kind, wanted.address, wanted.text)
    )


def _limit(wanted: RunSearch, *, has_rest: bool) -> int:
    return wanted.looked_at if has_rest else wanted.limit + 1


def _pairs(
    session: Session, row: type[_Row], statement: Query | CompoundSelect[Any]
) -> list[tuple[tuple[Any, ...], _Row]]:
    """Return the runs of a query, each preceded by the values of its additional columns."""
    width = len(row._fields)
    return [(each[width:], row(*each[:width])) for each in session.execute(statement)]


def _walked(placed: Sequence[tuple[Place, ListedRun]], limit: int) -> Walk:
    end = placed[-1][0] if len(placed) >= limit else None
    return Walk(rows=placed, end=end, looked_at=len(placed))
