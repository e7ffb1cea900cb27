"""The console's list of runs: newest first, page by page, always along an index.

    a job's runs                along `i_tick`, by tick
    of some states or apps      along `i_status_due`, by due time: see `newest_runs`
    all runs                    along `i_trigger_time`, by due time to the second

Kind and address have no index: runs are looked at in one of those orders, so many for a page and
no more. A page that was not filled by then says where looking goes on.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.orm import InstrumentedAttribute, Session

from sql.dialects.hints import use_index
from sql.instants import at, epoch_ms
from sql.listings import newest_runs, run_lines
from sql.listings.newest_runs import Parts, WalkedRun
from sql.listings.run_lines import RunLine
from sql.models import Run
from sql.rows import Query, query
from sql.run_status import RunStatus

#: Runs looked at for one page; each costs a read by primary key.
LOOKED_AT = newest_runs.MOST
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
    from `since_ms` up to `until_ms`, without it.
    """

    app_ids: Collection[int] | None = None
    job_id: int | None = None
    statuses: frozenset[RunStatus] = frozenset()
    kind: str | None = None
    address: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: Place | None = None
    limit: int = 50
    looked_at: int = LOOKED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page of runs; `older` is where the next one begins, None when there is no more.

    `is_cut`: so many runs were looked at that the page was left unfilled.
    """

    runs: list[RunLine]
    older: Place | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Rows in the list's order, each with its place; `end`: where looking stopped, if it did."""

    rows: Sequence[tuple[Place, WalkedRun]]
    end: Place | None
    looked_at: int


def page(session: Session, wanted: RunSearch) -> Found:
    """Return a page of runs, newest first; a place of another list's order gives its first page."""
    chosen: list[tuple[Place, WalkedRun]] = []
    rest, looked_at = wanted, 0
    for _ in range(ROUNDS):
        walk = _walk(session, rest)
        chosen += [(place, row) for place, row in walk.rows if _fits(row, wanted)]
        looked_at += walk.looked_at
        if walk.end is None or len(chosen) > wanted.limit or looked_at >= wanted.looked_at:
            break
        rest = replace(wanted, before=walk.end)
    if len(chosen) > wanted.limit:
        chosen = chosen[: wanted.limit]
        return Found(runs=_lines(session, chosen), older=chosen[-1][0])
    is_cut = walk.end is not None and len(chosen) < wanted.limit
    return Found(runs=_lines(session, chosen), older=walk.end, is_cut=is_cut)


def _walk(session: Session, wanted: RunSearch) -> _Walk:
    if wanted.job_id is not None:
        return _along_ticks(session, wanted, wanted.job_id)
    if wanted.app_ids is None and not wanted.statuses:
        return _along_time(session, wanted)
    return _along_parts(session, wanted)


def _along_ticks(session: Session, wanted: RunSearch, job_id: int) -> _Walk:
    statement = (
        use_index(query(WalkedRun, Run).add_columns(*_TICK), Run, "i_tick")
        .where(Run.job_id == job_id, *_before(_TICK, wanted.before))
        .order_by(*(column.desc() for column in _TICK))
    )
    if wanted.since_ms is not None:
        statement = statement.where(Run.scheduled_at >= wanted.since_ms - LATE_MS)
    if wanted.until_ms is not None:
        statement = statement.where(Run.scheduled_at < wanted.until_ms)
    limit = _limit(wanted, has_rest=_has_rest(wanted) or bool(wanted.statuses))
    rows = _pairs(session, statement.limit(limit))
    return _walked(rows, limit)


def _along_time(session: Session, wanted: RunSearch) -> _Walk:
    statement = (
        use_index(query(WalkedRun, Run).add_columns(Run.trigger_time), Run, "i_trigger_time")
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
    before = wanted.before
    parts = Parts(
        statuses=wanted.statuses or frozenset(RunStatus),
        app_ids=wanted.app_ids,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
        before=(before[0], before[1]) if before is not None and len(before) == 2 else None,  # noqa: PLR2004 - due time and id
    )
    found = newest_runs.read(session, parts, limit=_limit(wanted, has_rest=_has_rest(wanted)))
    return _Walk(rows=found.rows, end=found.end, looked_at=found.looked_at)


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


def _has_rest(wanted: RunSearch) -> bool:
    """Whether something is asked for that no index knows."""
    return wanted.kind is not None or wanted.address is not None


def _limit(wanted: RunSearch, *, has_rest: bool) -> int:
    return wanted.looked_at if has_rest else wanted.limit + 1


def _pairs(session: Session, statement: Query) -> list[tuple[tuple[Any, ...], WalkedRun]]:
    """Return runs, each after what was selected of it besides."""
    width = len(WalkedRun._fields)
    return [(row[width:], WalkedRun._make(row[:width])) for row in session.execute(statement)]


def _lines(session: Session, chosen: Sequence[tuple[Place, WalkedRun]]) -> list[RunLine]:
    # One that was cleared in between is gone.
    return run_lines.by_ids(session, [run.id for _, run in chosen])


def _walked(placed: list[tuple[Place, WalkedRun]], limit: int) -> _Walk:
    end = placed[-1][0] if len(placed) >= limit else None
    return _Walk(rows=placed, end=end, looked_at=len(placed))


def _fits(row: WalkedRun, wanted: RunSearch) -> bool:
    return (
        (wanted.app_ids is None or row.app_id in wanted.app_ids)
        and (not wanted.statuses or row.status in wanted.statuses)
        and wanted.kind in (None, row.kind)
        and wanted.address in (None, row.address)
        and (wanted.since_ms is None or row.due_at >= wanted.since_ms)
        and (wanted.until_ms is None or row.due_at < wanted.until_ms)
    )
