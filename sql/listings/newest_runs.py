"""Reads the newest runs with certain statuses and apps, along `(status, job_group, due_at)`.

The index orders the runs of one status and app, a partition, by due time; no index orders all
partitions together. The newest run of each partition costs one step in the index, and shows which
few partitions can have the newest runs overall. So 500 apps cost little more than one.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import count, islice, product
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    bindparam,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import Session

from warren.sql.accounts import audit_log
from warren.sql.dialects.supported import of as dialect_of
from warren.sql.dialects.supported import use_index
from warren.sql.models import App, Run
from warren.sql.models.run_tables import BY_STATUS
from warren.sql.rows import Query, fetch, fetch_plain, query
from warren.sql.run_status import RunStatus

#: The fewest rows to read from each partition, and the most rows to read from all of them.
MIN_PARTITION_ROWS, MAX_ROWS = 5, 2_000

#: Statements that are kept, each for its number of partitions.
_REMEMBERED = 64

#: The position of a run in a list: its values in the columns of the order, which is descending.
#: Here, these are `due_at` and id.
Place: TypeAlias = tuple[int, ...]


class IndexedRun(NamedTuple):
    """The columns of a run that are in the index; the run's row is not read for them."""

    id: int
    status: str
    due_at: int
    app_id: int


class ScannedRun(NamedTuple):
    """The columns of a run that filters need."""

    id: int
    job_id: int
    kind: str
    address: str | None
    status: str
    due_at: int
    run_date: date | None
    flow_run_id: int | None
    backfill_id: int | None
    app_id: int


class DrawnRun(NamedTuple):
    """The columns of a run that decide how it is drawn; a page reads them of thousands of runs."""

    id: int
    app_id: int
    job_id: int
    status: str
    scheduled_at: int
    due_at: int
    flow_run_id: int | None
    started_at: int | None
    finished_at: int | None


FoundRun: TypeAlias = IndexedRun | ScannedRun | DrawnRun
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Walk(Generic[R_co]):
    """Runs in a list's order, each with its position, complete up to `end`.

    There may be more after `end`; None = no more. `looked_at` is how many were read.
    """

    rows: Sequence[tuple[Place, R_co]]
    end: Place | None
    looked_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSizes:
    """How much to read at once.

    Attributes:
        partitions: most partitions that are read one by one.
        partition_rows: fewest rows to read from each partition.
        all_rows: most rows to read from all of them.
        stream_rows: rows that a stream first reads of a partition.
        stream_partitions: partitions that a stream reads by one statement.

    """

    partitions: int = 50
    partition_rows: int = MIN_PARTITION_ROWS
    all_rows: int = MAX_ROWS
    stream_rows: int = 32
    stream_partitions: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Which runs to read: of these statuses and apps (None = all), due in [since_ms, until_ms).

    `before` is the run after which to continue; None = start with the newest. `row` is what to read
    of each run, `sizes` how much at once.
    """

    statuses: frozenset[RunStatus]
    app_ids: Collection[int] | None
    since_ms: int | None = None
    until_ms: int | None = None
    before: Place | None = None
    row: type[FoundRun] = IndexedRun
    sizes: ReadSizes = ReadSizes()


#: The status and the app of a partition.
_Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Slice:
    """The rows read of one partition or instant; `end` is where more may follow, None = nothing."""

    rows: Sequence[FoundRun]
    end: Place | None


def read(session: Session, wanted: RunSelection, *, limit: int) -> Walk[FoundRun]:
    """Return the newest runs.

    Without `before`, and with a `limit` up to `all_rows / partitions`, these are at least `limit`
    runs if there are that many.
    """
    return _joined(_read(session, wanted, limit))


def read_by_app(session: Session, wanted: RunSelection, *, limit: int) -> dict[int, Walk[FoundRun]]:
    """Return the newest runs of each app that has any, at least `limit` if there are that many.

    It reads up to `limit` runs of each status.
    """
    slices: dict[int, list[_Slice]] = defaultdict(list)
    parts = (part for _, part in _heads(session, wanted, app_ids(session, wanted)))
    while some := list(islice(parts, wanted.sizes.partitions)):
        for (_, app_id), rows in _first_rows(session, wanted, some, limit).items():
            slices[app_id].append(_slice_of(rows, limit, None))
    return {app_id: _joined(mine) for app_id, mine in slices.items()}


def _joined(slices: Sequence[_Slice]) -> Walk[FoundRun]:
    # Beyond the end of one slice, other slices may lack runs that come in between.
    end = max((part.end for part in slices if part.end is not None), default=None)
    runs = {(run.due_at, run.id): run for part in slices for run in part.rows}
    return Walk(
        [
            (place, runs[place])
            for place in sorted(runs, reverse=True)
            if end is None or place >= end
        ],
        end=end,
        looked_at=sum(len(part.rows) for part in slices),
    )


def stream(session: Session, wanted: RunSelection) -> Iterator[FoundRun]:
    """Yield the runs, newest first, for callers that need many.

    No row is read twice: reading of a partition starts when its newest run is next, and continues,
    twice as much each time, when all rows read so far were yielded. A run whose status changes
    meanwhile may come twice or not at all.
    """
    sizes = wanted.sizes
    heads = deque(_heads(session, wanted, app_ids(session, wanted)))
    number = count()
    heap: list[tuple[int, int, int, FoundRun, Iterator[FoundRun]]] = []

    def add(runs: Iterator[FoundRun]) -> None:
        if (run := next(runs, None)) is not None:
            heappush(heap, (-run.due_at, -run.id, next(number), run, runs))

    while heads or heap:
        if heads and (not heap or heads[0][0] >= -heap[0][0]):
            begun = [heads.popleft()[1] for _ in range(min(sizes.stream_partitions, len(heads)))]
            for part, rows in _first_rows(session, wanted, begun, sizes.stream_rows).items():
                add(_read_on(session, wanted, part, rows))
        else:
            *_, run, runs = heappop(heap)
            yield run
            add(runs)


def unordered(session: Session, wanted: RunSelection) -> Query:
    """Return a query of the runs, in any order, that reads no others."""
    return use_index(query(wanted.row, Run), Run, BY_STATUS).where(
        Run.status.in_(wanted.statuses),
        Run.app_id.in_(app_ids(session, wanted)),
        *_times(wanted),
        *_behind(wanted),
    )


def _read_on(
    session: Session, wanted: RunSelection, part: _Partition, rows: list[FoundRun]
) -> Iterator[FoundRun]:
    limit = wanted.sizes.stream_rows
    while True:
        yield from sorted(rows, key=lambda row: (row.due_at, row.id), reverse=True)
        if len(rows) < limit:
            return
        limit = min(limit * 2, wanted.sizes.all_rows)
        wanted = replace(wanted, before=min((row.due_at, row.id) for row in rows))
        rows = _first_rows(session, wanted, [part], limit)[part]


def latest_due(session: Session, wanted: RunSelection) -> int:
    """Return when the newest run is due; 0 if there is none."""
    heads = _heads(session, wanted, app_ids(session, wanted))
    return heads[0][0] if heads else 0


def app_ids(session: Session, wanted: RunSelection) -> Collection[int]:
    """Return the apps of a selection; all of them include deleted ones, whose runs are kept."""
    if wanted.app_ids is not None:
        return wanted.app_ids
    return {*session.execute(select(App.id)).scalars(), *audit_log.deleted_app_ids(session)}


def _read(session: Session, wanted: RunSelection, limit: int) -> list[_Slice]:
    apps, limit_one_by_one = app_ids(session, wanted), wanted.sizes.partitions
    parts = list(product((status.value for status in sorted(wanted.statuses)), sorted(apps)))
    if len(parts) <= limit_one_by_one:
        return _one_by_one(session, wanted, parts, limit)
    heads = _heads(session, wanted, apps)
    if len(heads) <= limit_one_by_one:
        return _one_by_one(session, wanted, [part for _, part in heads], limit)
    # As many partitions as are read have a run at least as new, so no older run is needed.
    oldest = heads[limit_one_by_one - 1][0]
    newer = [part for due_at, part in heads if due_at > oldest]
    tied = [part for due_at, part in heads if due_at == oldest]
    return [
        *_one_by_one(session, wanted, newer, limit),
        _of_one_instant(session, wanted, oldest, tied, limit),
    ]


def _heads(
    session: Session, wanted: RunSelection, apps: Collection[int]
) -> list[tuple[int, _Partition]]:
    """Return when the newest run of each partition that has any is due, the newest first."""
    if not apps or not wanted.statuses:
        return []
    times = _times(wanted)
    if wanted.before is not None:
        due_at, run_id = wanted.before
        times.append(Run.due_at <= (due_at if run_id > 0 else due_at - 1))
    newest = _newest_due if dialect_of(session).jumps_to_groups else _newest_due_by_jumps
    rows = session.execute(newest(wanted.statuses, apps, times))
    return sorted(((due_at, (status, app_id)) for due_at, status, app_id in rows), reverse=True)


def _newest_due(
    statuses: Collection[RunStatus], apps: Collection[int], times: Sequence[ColumnElement[bool]]
) -> Select[int, str, int]:
    return (
        use_index(select(func.max(Run.due_at), Run.status, Run.app_id), Run, BY_STATUS)
        .where(Run.status.in_(statuses), Run.app_id.in_(apps), *times)
        .group_by(Run.status, Run.app_id)
    )


def _newest_due_by_jumps(
    statuses: Collection[RunStatus], apps: Collection[int], times: Sequence[ColumnElement[bool]]
) -> Select[int, str, int]:
    """Return the same for a database that would read all runs for it: each jump is a subquery.

    A day of 300,000 runs takes PostgreSQL 4 ms instead of 170.
    """
    each = union_all(*(select(literal(status.value).label("status")) for status in statuses))
    status = each.subquery().c.status
    first = select(func.min(Run.app_id)).where(Run.status == status, Run.app_id >= min(apps))
    parts = select(status, first.scalar_subquery().label("app_id")).cte(recursive=True)
    status, app_id = parts.c.status, parts.c.app_id
    following = select(func.min(Run.app_id)).where(
        Run.status == status, Run.app_id > app_id, Run.app_id <= max(apps)
    )
    parts = parts.union_all(select(status, following.scalar_subquery()).where(app_id.is_not(None)))
    status, app_id = parts.c.status, parts.c.app_id
    newest = select(func.max(Run.due_at)).where(Run.status == status, Run.app_id == app_id, *times)
    heads = select(newest.scalar_subquery().label("due_at"), status, app_id)
    found = heads.where(app_id.in_(apps)).subquery()
    return select(found.c.due_at, found.c.status, found.c.app_id).where(found.c.due_at.is_not(None))


def _one_by_one(
    session: Session, wanted: RunSelection, parts: Sequence[_Partition], limit: int
) -> list[_Slice]:
    """Return the newest runs of each of a few partitions."""
    if not parts:
        return []
    sizes = wanted.sizes
    limit = max(sizes.partition_rows, min(limit, sizes.all_rows // len(parts)))
    by_part = _first_rows(session, wanted, parts, limit)
    return [_slice_of(rows, limit, None) for rows in by_part.values()]


def _first_rows(
    session: Session, wanted: RunSelection, parts: Sequence[_Partition], limit: int
) -> dict[_Partition, list[FoundRun]]:
    shape = (wanted.since_ms is not None, wanted.until_ms is not None, wanted.before is not None)
    due_at, run_id = wanted.before or (None, None)
    values: dict[str, Any] = {
        "since_ms": wanted.since_ms,
        "until_ms": wanted.until_ms,
        "due_at": due_at,
        "run_id": run_id,
        "most": limit,
    }
    for number, (status, app_id) in enumerate(parts):
        values |= {f"status_{number}": status, f"app_{number}": app_id}
    by_part: dict[_Partition, list[FoundRun]] = {part: [] for part in parts}
    statement = _first_rows_query(wanted.row, len(parts), *shape)  # type: ignore[arg-type]
    for run in fetch_plain(session, wanted.row, statement, values):
        by_part[run.status, run.app_id].append(run)
    return by_part


# Built once for each number of partitions: SQLAlchemy takes longer to look at so many SELECTs than
# the database to execute them.
@lru_cache(maxsize=_REMEMBERED)
def _first_rows_query(
    row: type[FoundRun], count: int, has_since: bool, has_until: bool, is_continued: bool
) -> Query:
    """Return the query of the first rows of so many partitions, with names for all values."""
    value = partial(bindparam, type_=BigInteger())
    conditions: list[ColumnElement[bool]] = []
    if has_since:
        conditions.append(Run.due_at >= value("since_ms"))
    if has_until:
        conditions.append(Run.due_at < value("until_ms"))
    if is_continued:
        conditions += _after(value("due_at"), value("run_id"))
    newest = (
        use_index(query(row, Run), Run, BY_STATUS)
        .where(*conditions)
        .order_by(Run.due_at.desc(), Run.id.desc())
        .limit(value("most"))
    )
    parts = (
        newest.where(Run.status == bindparam(f"status_{n}"), Run.app_id == bindparam(f"app_{n}"))
        for n in range(count)
    )
    return union_all(*(select(part.subquery()) for part in parts))  # type: ignore[return-value]


def _of_one_instant(
    session: Session, wanted: RunSelection, due_at: int, tied: Sequence[_Partition], limit: int
) -> _Slice:
    """Return the runs of many partitions that are due at the same instant, their newest one."""
    statement = (
        use_index(query(wanted.row, Run), Run, BY_STATUS)
        .where(
            Run.status.in_({status for status, _ in tied}),
            Run.app_id.in_({app_id for _, app_id in tied}),
            Run.due_at == due_at,
            *_behind(wanted),
        )
        .order_by(Run.id.desc())
        .limit(limit)
    )
    return _slice_of(fetch(session, wanted.row, statement), limit, (due_at, 0))


def _slice_of(rows: Sequence[FoundRun], limit: int, rest: Place | None) -> _Slice:
    """Return rows as a slice; if there are fewer than `limit`, it ends at `rest`."""
    end = min((row.due_at, row.id) for row in rows) if len(rows) >= limit else rest
    return _Slice(rows, end)


def _times(wanted: RunSelection) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.since_ms is not None:
        conditions.append(Run.due_at >= wanted.since_ms)
    if wanted.until_ms is not None:
        conditions.append(Run.due_at < wanted.until_ms)
    return conditions


def _behind(wanted: RunSelection) -> list[ColumnElement[bool]]:
    if wanted.before is None:
        return []
    return _after(*wanted.before)


def _after(due_at: Any, run_id: Any) -> list[ColumnElement[bool]]:
    # Only the first condition can be the start of an index range.
    return [Run.due_at <= due_at, or_(Run.due_at < due_at, Run.id < run_id)]
