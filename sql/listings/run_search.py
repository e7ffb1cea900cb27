"""The console's list of runs: newest first, page by page, always along an index.

    a job's runs, a few jobs'   along `i_tick`, by tick
    of some states or apps      along `i_status_due`, by due time: see `newest_runs`
    all runs                    along `i_trigger_time`, by due time to the second

Kind, address and message have no index: runs are looked at in one of those orders, so many for a
page and no more. A page that was not filled by then says where looking goes on.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, and_, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from sql.dialects.hints import use_index
from sql.instants import at, epoch_ms
from sql.listings import newest_runs, run_lines, run_messages
from sql.listings.newest_runs import Due, RunSelection, ScannedRun
from sql.listings.run_lines import RunLine
from sql.models import Run
from sql.rows import Query, query
from sql.run_status import RunStatus

#: Runs looked at for one page; each costs a read by primary key.
LOOKED_AT = newest_runs.ALL_ROWS
#: Runs read by one statement of a sweep.
AT_ONCE = 2_000
#: A page that is not filled by then is left so.
ROUNDS = 8
#: Of one job, runs due so long after their tick are still found by when they were due.
LATE_MS = 3_600_000

#: Where a page ended: the columns of its last run in the order of the list.
Place = tuple[int, ...]

_TICK = (Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSearch:
    """Which runs to show. None, and no statuses, mean all; `before` is where the last page ended.

    `app_ids` are those that exist for whoever asks, or fewer. Instants are those of due times:
    from `since_ms` up to `until_ms`, without it. `job_ids` are a few jobs at most, `job_id` is one.
    `text` is a part of the message.
    """

    app_ids: Collection[int] | None = None
    job_id: int | None = None
    job_ids: Sequence[int] | None = None
    text: str | None = None
    statuses: frozenset[RunStatus] = frozenset()
    kind: str | None = None
    address: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: Place | None = None
    limit: int = 50
    looked_at: int = LOOKED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of runs; `older` is where the next one begins, None when there is no more.

    `is_cut`: so many runs were looked at that the page was left unfilled.
    """

    runs: list[RunLine]
    older: Place | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Runs that fit; `is_all` is False when a bound ended the search."""

    runs: list[ScannedRun]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Rows in the list's order, each with its place; `end`: where looking stopped, if it did."""

    rows: Sequence[tuple[Place, ScannedRun]]
    end: Place | None
    looked_at: int


def page(session: Session, wanted: RunSearch) -> RunPage:
    """Return a page of runs, newest first; a place of another list's order gives its first page."""
    chosen: list[tuple[Place, ScannedRun]] = []
    rest, looked_at = wanted, 0
    for _ in range(ROUNDS):
        walk = _walk(session, rest)
        fitting = {row.id for row in _fitting(session, [row for _, row in walk.rows], wanted)}
        chosen += [(place, row) for place, row in walk.rows if row.id in fitting]
        looked_at += walk.looked_at
        if walk.end is None or len(chosen) > wanted.limit or looked_at >= wanted.looked_at:
            break
        rest = replace(wanted, before=walk.end)
    if len(chosen) > wanted.limit:
        chosen = chosen[: wanted.limit]
        return RunPage(runs=_lines(session, chosen), older=chosen[-1][0])
    is_cut = walk.end is not None and len(chosen) < wanted.limit
    return RunPage(runs=_lines(session, chosen), older=walk.end, is_cut=is_cut)


def sweep(session: Session, wanted: RunSearch, *, most: int, looked_at: int) -> SweepResult:
    """Return all runs that fit, newest first, but no more than a bound of each kind.

    Args:
        session: reads a part of the index at a time.
        wanted: its `before`, `limit` and `looked_at` do not count.
        most: runs returned at most.
        looked_at: runs looked at, fitting or not, about so many at most.

    """
    chosen: dict[int, ScannedRun] = {}
    seen = 0
    for rows in _batches(session, wanted):
        if seen >= looked_at:
            return SweepResult(runs=list(chosen.values()), is_all=False)
        seen += len(rows)
        chosen.update((row.id, row) for row in _fitting(session, rows, wanted))
        if len(chosen) > most:
            return SweepResult(runs=list(chosen.values())[:most], is_all=False)
    return SweepResult(runs=list(chosen.values()), is_all=True)


def _batches(session: Session, wanted: RunSearch) -> Iterator[Sequence[ScannedRun]]:
    """Yield the runs that an index finds, newest first."""
    if _is_along_parts(wanted):
        runs = newest_runs.stream(session, _selection(wanted, before=None))
        while batch := list(islice(runs, AT_ONCE)):
            yield batch
        return
    rest = replace(wanted, before=None, limit=AT_ONCE, looked_at=AT_ONCE)
    while True:
        walk = _walk(session, rest)
        yield [row for _, row in walk.rows]
        if walk.end is None:
            return
        rest = replace(rest, before=walk.end)


def _fitting(session: Session, rows: Sequence[ScannedRun], wanted: RunSearch) -> list[ScannedRun]:
    fitting = [row for row in rows if _fits(row, wanted)]
    if wanted.text is None:
        return fitting
    said = run_messages.with_text(session, [row.id for row in fitting], wanted.text)
    return [row for row in fitting if row.id in said]


def _walk(session: Session, wanted: RunSearch) -> _Walk:
    if wanted.job_id is not None:
        return _along_ticks(session, wanted, wanted.job_id)
    if wanted.job_ids is not None:
        return _along_ticks_of_jobs(session, wanted, wanted.job_ids)
    if _is_along_parts(wanted):
        return _along_parts(session, wanted)
    return _along_time(session, wanted)


def _is_along_parts(wanted: RunSearch) -> bool:
    is_of_jobs = wanted.job_id is not None or wanted.job_ids is not None
    return not is_of_jobs and (wanted.app_ids is not None or bool(wanted.statuses))


def _along_ticks(session: Session, wanted: RunSearch, job_id: int) -> _Walk:
    statement = _ticks_of(wanted, job_id, _before(_TICK, wanted.before))
    limit = _limit(wanted, has_rest=_has_rest(wanted) or bool(wanted.statuses))
    rows = _pairs(session, statement.limit(limit))
    return _walked(rows, limit)


def _along_ticks_of_jobs(session: Session, wanted: RunSearch, job_ids: Sequence[int]) -> _Walk:
    """Look at a part of each job's runs, and go no further than all of these parts reach."""
    if not job_ids:
        return _Walk(rows=[], end=None, looked_at=0)
    limit = _limit(wanted, has_rest=_has_rest(wanted) or bool(wanted.statuses))
    each = max(newest_runs.PARTITION_ROWS, min(limit, LOOKED_AT // len(job_ids)))
    parts = [
        _ticks_of(wanted, job_id, _before_of_job(wanted.before, job_id)).limit(each)
        for job_id in job_ids
    ]
    found = _pairs(session, union_all(*(select(part.subquery()) for part in parts)))
    shares: dict[int, list[Place]] = {}
    placed = sorted((((*tick, run.job_id), run) for tick, run in found), reverse=True)
    for place, run in placed:
        shares.setdefault(run.job_id, []).append(place)
    end = max((places[-1] for places in shares.values() if len(places) >= each), default=None)
    known = [one for one in placed if end is None or one[0] >= end]
    return _Walk(rows=known, end=end, looked_at=len(placed))


def _ticks_of(wanted: RunSearch, job_id: int, before: Sequence[ColumnElement[bool]]) -> Query:
    statement = (
        use_index(query(ScannedRun, Run).add_columns(*_TICK), Run, "i_tick")
        .where(Run.job_id == job_id, *before)
        .order_by(*(column.desc() for column in _TICK))
    )
    if wanted.since_ms is not None:
        statement = statement.where(Run.scheduled_at >= wanted.since_ms - LATE_MS)
    if wanted.until_ms is not None:
        statement = statement.where(Run.scheduled_at < wanted.until_ms)
    return statement


def _along_time(session: Session, wanted: RunSearch) -> _Walk:
    statement = (
        use_index(query(ScannedRun, Run).add_columns(Run.trigger_time), Run, "i_trigger_time")
        .where(Run.trigger_time.is_not(None))
        .order_by(Run.trigger_time.desc(), Run.id.desc())
    )
    if wanted.before is not None and len(wanted.before) == 2:  # noqa: PLR2004 - time and id
        due, run_id = at(wanted.before[0]), wanted.before[1]
        statement = statement.where(
            Run.trigger_time <= due, or_(Run.trigger_time < due, Run.id < run_id)
        )
    if wanted.since_ms is not None:
        statement = statement.where(Run.trigger_time >= at(wanted.since_ms))
    if wanted.until_ms is not None:
        statement = statement.where(Run.trigger_time < at(wanted.until_ms + 999))
    limit = _limit(wanted, has_rest=_has_rest(wanted))
    rows = _pairs(session, statement.limit(limit))
    return _walked([((epoch_ms(due), run.id), run) for (due,), run in rows], limit)


def _along_parts(session: Session, wanted: RunSearch) -> _Walk:
    place = wanted.before
    before = (place[0], place[1]) if place is not None and len(place) == 2 else None  # noqa: PLR2004 - due time and id
    limit = _limit(wanted, has_rest=_has_rest(wanted))
    found = newest_runs.read(session, _selection(wanted, before=before), limit=limit)
    return _Walk(rows=found.rows, end=found.end, looked_at=found.looked_at)


def _selection(wanted: RunSearch, *, before: Due | None) -> RunSelection:
    return RunSelection(
        statuses=wanted.statuses or frozenset(RunStatus),
        app_ids=wanted.app_ids,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
        before=before,
    )


def _before(
    columns: Sequence[InstrumentedAttribute[Any]], place: Place | None
) -> list[ColumnElement[bool]]:
    """Return that a row comes before a place in ascending order; nothing for a foreign place."""
    if place is None or len(place) != len(columns):
        return []
    pairs = list(zip(columns, place, strict=True))
    earlier = [
        and_(*(one == value for one, value in pairs[:number]), column < value)
        for number, (column, value) in enumerate(pairs)
    ]
    return [columns[0] <= place[0], or_(*earlier)]


def _before_of_job(place: Place | None, job_id: int) -> list[ColumnElement[bool]]:
    """Return the same of the runs of one of several jobs, which come by tick and then by job."""
    if place is None or len(place) != len(_TICK) + 1:
        return []
    *tick, last_job = place
    first, rest = _before(_TICK, tuple(tick))
    same = and_(*(column == value for column, value in zip(_TICK, tick, strict=True)))
    return [first, or_(rest, same) if job_id < last_job else rest]


def _has_rest(wanted: RunSearch) -> bool:
    """Whether something is asked for that no index knows."""
    return any(one is not None for one in (wanted.kind, wanted.address, wanted.text))


def _limit(wanted: RunSearch, *, has_rest: bool) -> int:
    return wanted.looked_at if has_rest else wanted.limit + 1


def _pairs(
    session: Session, statement: Query | CompoundSelect[Any]
) -> list[tuple[tuple[Any, ...], ScannedRun]]:
    """Return runs, each after what was selected of it besides."""
    width = len(ScannedRun._fields)
    return [(row[width:], ScannedRun._make(row[:width])) for row in session.execute(statement)]


def _lines(session: Session, chosen: Sequence[tuple[Place, ScannedRun]]) -> list[RunLine]:
    # One that was cleared in between is gone.
    return run_lines.by_ids(session, [run.id for _, run in chosen])


def _walked(placed: list[tuple[Place, ScannedRun]], limit: int) -> _Walk:
    end = placed[-1][0] if len(placed) >= limit else None
    return _Walk(rows=placed, end=end, looked_at=len(placed))


def _fits(row: ScannedRun, wanted: RunSearch) -> bool:
    return (
        (wanted.app_ids is None or row.app_id in wanted.app_ids)
        and (not wanted.statuses or row.status in wanted.statuses)
        and wanted.kind in (None, row.kind)
        and wanted.address in (None, row.address)
        and (wanted.since_ms is None or row.due_at >= wanted.since_ms)
        and (wanted.until_ms is None or row.due_at < wanted.until_ms)
    )
