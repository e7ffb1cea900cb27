"""The console's list of runs: newest first, page by page, along the index that suits the search.

one or a few jobs            along `i_tick`, by tick
some statuses or apps        along `i_status_due`, by due time: see `newest_runs`
all runs                     along `i_trigger_time`, by due time to the second

Kind, address, date, message and whether a failure is unresolved have no index, so only a limited
number of runs is examined for a page; if that does not fill it, the page says where to continue.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from operator import eq, ge, lt
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, and_, case, func, or_, select, true, union_all
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of, use_index
from warren.sql.instants import HOUR_MS, at, epoch_ms
from warren.sql.listings import newest_runs, run_messages
from warren.sql.listings.newest_runs import (
    FoundRun,
    IndexedRun,
    Place,
    ReadSizes,
    RunSelection,
    ScannedRun,
    Walk,
)
from warren.sql.models import Run
from warren.sql.models.run_tables import BY_DUE_SECOND, BY_TICK
from warren.sql.rows import Query, query
from warren.sql.run_status import RunStatus
from warren.sql.runs import reruns
from warren.sql.runs.run_rows import DetailedRun

#: A job's runs are read by tick, but may be due long after it: late retries and misfires, children
#: of long runs. So this many runs with ticks before the earliest due time are looked at too.
MAX_EARLIER_RUNS = 5_000

_TICK = (Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
_NEWEST_FIRST = tuple(column.desc() for column in _TICK)


class TickOrder:
    """Queries of jobs' runs by tick, between two due times, or of one tick.

    The constructor looks up where each job's query begins.
    """

    def __init__(
        self,
        session: Session,
        job_ids: Sequence[int],
        *,
        since_ms: int | None,
        until_ms: int | None,
        tick_at: int | None = None,
    ) -> None:
        self._tick_at = tick_at
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._first_ticks = {} if since_ms is None else _first_ticks(session, job_ids, since_ms)

    def of(self, job_id: int, before: Place | None = None) -> Query:
        """Return a query of a job's runs with their ticks, from a position in all jobs' runs on."""
        statement = (
            use_index(query(ScannedRun, Run).add_columns(*_TICK), Run, BY_TICK)
            .where(Run.job_id == job_id, *_before(before, job_id))
            .order_by(*_NEWEST_FIRST)
        )
        if self._tick_at is not None:
            statement = statement.where(Run.scheduled_at == self._tick_at)
        if self._since_ms is not None:
            first_tick = self._first_ticks.get(job_id, 0)
            statement = statement.where(
                Run.scheduled_at >= first_tick, Run.due_at >= self._since_ms
            )
        if self._until_ms is not None:
            statement = statement.where(Run.scheduled_at < self._until_ms)
        return statement


def _first_ticks(session: Session, job_ids: Sequence[int], since_ms: int) -> dict[int, int]:
    """Return, for each job, the first tick whose runs are looked at."""
    earlier = (
        use_index(select(Run.job_id, Run.scheduled_at), Run, BY_TICK)
        .where(Run.scheduled_at < since_ms)
        .order_by(*_NEWEST_FIRST)
        .offset(MAX_EARLIER_RUNS)
        .limit(1)
    )
    firsts = (select(earlier.where(Run.job_id == job_id).subquery()) for job_id in job_ids)
    return dict(session.execute(union_all(*firsts)).all())


def _before(place: Place | None, job_id: int) -> list[ColumnElement[bool]]:
    """Return the conditions on a job's runs before a position, which is a tick and then a job.

    There are none for a position of another order.
    """
    if place is None or len(place) != len(_TICK) + 1:
        return []
    *tick, last_job = place
    same = [column == value for column, value in zip(_TICK, tick, strict=True)]
    earlier = [
        and_(*same[:number], column < value)
        for number, (column, value) in enumerate(zip(_TICK, tick, strict=True))
    ]
    if job_id < last_job:
        earlier.append(and_(*same))
    # Only the first condition can be the start of an index range.
    return [Run.scheduled_at <= tick[0], or_(*earlier)]


#: The most runs that are examined for one page; each costs a read by primary key.
MAX_EXAMINED = newest_runs.MAX_ROWS
#: The most walks along an index for one page.
MAX_WALKS = 8
#: How far ahead a list of all runs goes; runs planned for later are listed only when asked for.
AHEAD_MS = HOUR_MS
#: The most runs that one statement of a sweep reads.
MAX_SWEEP_ROWS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSearch:
    """Which runs to return; None, and no statuses, mean all.

    Attributes:
        app_ids: the apps that exist for the visitor, or fewer.
        job_id: one job.
        job_ids: a few jobs.
        run_date: the date that the runs are about.
        outside_flows: without the runs of flows' nodes.
        flow_run_id: only runs of the nodes of this run of a flow; see `recent`.
        backfill_id: only runs of this backfill; see `recent`.
        tick_of: only runs of the same tick as this run; see `recent`.
        run_ids: only these.
        tick_at: only one tick of each of the jobs.
        text: a part of the message.
        since_ms: the earliest due time.
        unresolved: only failures that nothing later of their shard and due time has replaced.
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
    run_date: date | None = None
    outside_flows: bool = False
    flow_run_id: int | None = None
    backfill_id: int | None = None
    tick_of: int | None = None
    run_ids: frozenset[int] | None = None
    tick_at: int | None = None
    unresolved: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    before: Place | None = None
    limit: int = 50
    looked_at: int = MAX_EXAMINED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of runs; `older` is where the next page begins, None if there is none.

    `is_cut`: the page is not full because the limit of examined runs was reached.
    """

    runs: list[DetailedRun]
    older: Place | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The ids of the matching runs, newest first; `is_all` is False if a limit ended the search."""

    run_ids: list[int]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCount:
    """How many runs match; `is_all` is False if a limit ended the count."""

    number: int
    is_all: bool


def page(session: Session, wanted: RunSearch) -> RunPage:
    """Return a page of runs, newest first; with a position of another order, the first page."""
    chosen: list[tuple[Place, FoundRun]] = []
    rest, looked_at = wanted, 0
    for _ in range(MAX_WALKS):
        walk = _walk(session, rest)
        fitting = set(_fitting(session, [run for _, run in walk.rows], wanted))
        chosen += [(place, run) for place, run in walk.rows if run.id in fitting]
        looked_at += walk.looked_at
        if walk.end is None or len(chosen) > wanted.limit or looked_at >= wanted.looked_at:
            break
        rest = replace(wanted, before=walk.end)
    older, is_cut = walk.end, walk.end is not None and len(chosen) < wanted.limit
    if len(chosen) > wanted.limit:
        chosen = chosen[: wanted.limit]
        older = chosen[-1][0]
    # Runs deleted in between are missing.
    lines = run_messages.by_ids(session, [run.id for _, run in chosen])
    return RunPage(runs=lines, older=older, is_cut=is_cut)


def sweep(session: Session, wanted: RunSearch, *, most: int, looked_at: int) -> SweepResult:
    """Return all runs that match, within two limits.

    Args:
        session: reads the index in batches.
        wanted: `before`, `limit` and `looked_at` are ignored.
        most: most runs returned.
        looked_at: most runs examined, to within one batch.

    """
    chosen: dict[int, None] = {}
    seen = 0
    is_known_to_index = is_along_partitions(wanted) or not wanted.statuses
    is_exact = is_known_to_index and not has_rest(wanted)
    # Equal batches, so that the last one reads little beyond `most`.
    rows = -(-(most + 1) // -(-(most + 1) // MAX_SWEEP_ROWS))
    if not is_exact:
        rows = max(rows, MAX_SWEEP_ROWS // 2)
    for runs in _batches(session, wanted, rows):
        if seen >= looked_at:
            return SweepResult(run_ids=list(chosen), is_all=False)
        seen += len(runs)
        chosen.update(dict.fromkeys(_fitting(session, runs, wanted)))
        if len(chosen) > most:
            return SweepResult(run_ids=list(chosen)[:most], is_all=False)
    return SweepResult(run_ids=list(chosen), is_all=True)


def count(session: Session, wanted: RunSearch, *, most: int, looked_at: int) -> RunCount:
    """Count the runs that match, within the limits of `sweep`.

    The database counts them, unless it has to search messages or later runs, or read several jobs.
    """
    if wanted.text is not None or wanted.job_ids is not None or wanted.unresolved:
        swept = sweep(session, wanted, most=most, looked_at=looked_at)
        return RunCount(number=len(swept.run_ids), is_all=swept.is_all)
    is_known_to_index = wanted.job_id is None and not has_rest(wanted)
    limit = most + 1 if is_known_to_index else looked_at
    examined = _candidates(session, wanted).limit(limit).subquery()
    fits = [compare(examined.c[name], value) for name, compare, value in _criteria(wanted)]
    matches = of(session).sum_of(case((and_(true(), *fits), 1), else_=0))
    counted, matching = session.execute(select(func.count(), matches).select_from(examined)).one()
    return RunCount(number=min(matching, most), is_all=counted < limit and matching <= most)


def is_along_partitions(wanted: RunSearch) -> bool:
    """Whether a search reads along the partitions of `newest_runs`."""
    is_of_jobs = wanted.job_id is not None or wanted.job_ids is not None
    return not is_of_jobs and (wanted.app_ids is not None or bool(wanted.statuses))


def selection(wanted: RunSearch) -> RunSelection:
    """Return the part of a search that `newest_runs` understands, from its newest run on."""
    return RunSelection(
        statuses=wanted.statuses or frozenset(RunStatus),
        app_ids=wanted.app_ids,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
        row=_row_of(wanted),
        sizes=ReadSizes(all_rows=wanted.looked_at),
    )


def has_rest(wanted: RunSearch) -> bool:
    """Whether the search has criteria that are in no index."""
    return wanted.unresolved or wanted.text is not None or _is_wide(wanted)


def _row_of(wanted: RunSearch) -> type[FoundRun]:
    return ScannedRun if _is_wide(wanted) else IndexedRun


def _is_wide(wanted: RunSearch) -> bool:
    """Whether the search needs columns of runs that no index has."""
    columns = (
        wanted.kind,
        wanted.address,
        wanted.run_date,
        wanted.flow_run_id,
        wanted.backfill_id,
        wanted.run_ids,
    )
    return wanted.outside_flows or any(value is not None for value in columns)


def _walk(session: Session, wanted: RunSearch) -> Walk[Any]:
    """Return the next runs along the index that suits the search.

    Only what the index knows is checked; the caller checks the rest.
    """
    job_ids = wanted.job_ids if wanted.job_id is None else [wanted.job_id]
    if job_ids is not None:
        return _along_ticks(session, wanted, job_ids)
    limit = wanted.looked_at if has_rest(wanted) else wanted.limit + 1
    # A position of another order counts as none.
    before = wanted.before if wanted.before and len(wanted.before) == 2 else None  # noqa: PLR2004 - due time and id
    if is_along_partitions(wanted):
        return newest_runs.read(session, replace(selection(wanted), before=before), limit=limit)
    return _along_time(session, wanted, before, limit)


def _batches(session: Session, wanted: RunSearch, rows: int) -> Iterator[Sequence[FoundRun]]:
    """Yield batches of up to `rows` runs along an index, newest first."""
    if is_along_partitions(wanted):
        runs = newest_runs.stream(session, selection(wanted))
        while batch := list(islice(runs, rows)):
            yield batch
        return
    rest = replace(wanted, before=None, limit=rows, looked_at=rows)
    while True:
        walk = _walk(session, rest)
        yield [run for _, run in walk.rows]
        if walk.end is None:
            return
        rest = replace(rest, before=walk.end)


def _candidates(session: Session, wanted: RunSearch) -> Query:
    """Return a query of the runs that `_walk` would read, for one job, or all, or by status or app.

    As there, only what the index knows is checked.
    """
    if wanted.job_id is not None:
        return _ticks(session, wanted, [wanted.job_id]).of(wanted.job_id)
    if is_along_partitions(wanted):
        return newest_runs.unordered(session, selection(wanted))
    return _times_of(wanted, ScannedRun)


def _fitting(session: Session, runs: Sequence[FoundRun], wanted: RunSearch) -> list[int]:
    """Return the ids of the runs that match."""
    criteria = list(_criteria(wanted))
    run_ids = [run.id for run in runs if _fits(run, criteria)]
    if wanted.unresolved:
        resolved = reruns.superseded(session, run_ids)
        run_ids = [run_id for run_id in run_ids if run_id not in resolved]
    if wanted.text is None:
        return run_ids
    with_text = run_messages.with_text(session, run_ids, wanted.text)
    return [run_id for run_id in run_ids if run_id in with_text]


#: The name of a column, how its value is compared, and with what.
_Criterion: TypeAlias = tuple[str, Callable[[Any, Any], Any], Any]


def _criteria(wanted: RunSearch) -> Iterator[_Criterion]:
    """Yield what a run has to match, in Python as in SQL."""
    criteria: tuple[_Criterion, ...] = (
        ("app_id", _is_in, wanted.app_ids),
        ("id", _is_in, wanted.run_ids),
        ("status", _is_in, wanted.statuses or None),
        ("kind", eq, wanted.kind),
        ("address", eq, wanted.address),
        ("run_date", eq, wanted.run_date),
        ("flow_run_id", _is_none, wanted.outside_flows or None),
        ("flow_run_id", eq, wanted.flow_run_id),
        ("backfill_id", eq, wanted.backfill_id),
        ("due_at", ge, wanted.since_ms),
        ("due_at", lt, wanted.until_ms),
    )
    return (criterion for criterion in criteria if criterion[2] is not None)


def _is_none(value: Any, _wanted: bool) -> Any:
    return value.is_(None) if isinstance(value, ColumnElement) else value is None


def _is_in(value: Any, values: Collection[Any]) -> Any:
    return value.in_(values) if isinstance(value, ColumnElement) else value in values


def _fits(run: FoundRun, criteria: Sequence[_Criterion]) -> bool:
    return all(
        compare(getattr(run, name), value)
        for name, compare, value in criteria
        if name in run._fields
    )


def _along_ticks(session: Session, wanted: RunSearch, job_ids: Sequence[int]) -> Walk[ScannedRun]:
    """Read some runs of each job, and stop where the first of these parts ends."""
    if not job_ids:
        return Walk([], end=None, looked_at=0)
    is_filtered = has_rest(wanted) or bool(wanted.statuses)
    limit = wanted.looked_at if is_filtered else wanted.limit + 1
    job_limit = max(newest_runs.MIN_PARTITION_ROWS, min(limit, wanted.looked_at // len(job_ids)))
    ticks = _ticks(session, wanted, job_ids)
    parts = [ticks.of(job_id, wanted.before).limit(job_limit) for job_id in job_ids]
    union = union_all(*(select(part.subquery()) for part in parts))
    width = len(ScannedRun._fields)
    runs = [(row[width:], ScannedRun(*row[:width])) for row in session.execute(union)]
    placed = sorted((((*tick, run.job_id), run) for tick, run in runs), reverse=True)
    places: dict[int, list[Place]] = {}
    for place, run in placed:
        places.setdefault(run.job_id, []).append(place)
    end = max((part[-1] for part in places.values() if len(part) >= job_limit), default=None)
    complete = [(place, run) for place, run in placed if end is None or place >= end]
    return Walk(complete, end=end, looked_at=len(placed))


def _ticks(session: Session, wanted: RunSearch, job_ids: Sequence[int]) -> TickOrder:
    return TickOrder(
        session,
        job_ids,
        since_ms=wanted.since_ms,
        until_ms=wanted.until_ms,
        tick_at=wanted.tick_at,
    )


def _along_time(
    session: Session, wanted: RunSearch, before: Place | None, limit: int
) -> Walk[FoundRun]:
    kind = _row_of(wanted)
    statement = _times_of(wanted, kind)
    if before is not None:
        due, run_id = at(before[0]), before[1]
        statement = statement.where(
            Run.due_second <= due, or_(Run.due_second < due, Run.id < run_id)
        )
    runs = [(due, kind(*row)) for *row, due in session.execute(statement.limit(limit))]
    placed = [((epoch_ms(due), run.id), run) for due, run in runs]
    end = placed[-1][0] if len(placed) >= limit else None
    return Walk(placed, end=end, looked_at=len(placed))


def _times_of(wanted: RunSearch, kind: type[FoundRun]) -> Query:
    statement = (
        use_index(query(kind, Run).add_columns(Run.due_second), Run, BY_DUE_SECOND)
        .where(Run.due_second.is_not(None))
        .order_by(Run.due_second.desc(), Run.id.desc())
    )
    if wanted.since_ms is not None:
        statement = statement.where(Run.due_second >= at(wanted.since_ms))
    if wanted.until_ms is not None:
        statement = statement.where(Run.due_second < at(wanted.until_ms + 999))
    return statement
