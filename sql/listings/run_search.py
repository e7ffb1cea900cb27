"""The console's list of runs: newest first, page by page.

`run_walks` reads along an index. Kind, address, message and whether a failure was made good have
none, so only a limited number of runs is examined for a page; if that does not fill it, the page
says where to continue.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlalchemy import ColumnElement, Subquery, and_, case, func, select, true
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of
from warren.sql.listings import newest_runs, run_messages, run_walks
from warren.sql.listings.newest_runs import IndexedRun
from warren.sql.listings.run_messages import RunLine
from warren.sql.listings.run_walks import DatedRun, ListedRun, Place, RunSearch
from warren.sql.runs import reruns

#: Runs read by one statement of a sweep.
AT_ONCE = 2_000
#: Most walks for one page.
ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of runs; `older` is where the next page begins, None if there is none.

    `is_cut`: the page is not full because the limit of examined runs was reached.
    """

    runs: list[RunLine]
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
    chosen: list[tuple[Place, ListedRun]] = []
    rest, looked_at = wanted, 0
    for _ in range(ROUNDS):
        walk = run_walks.walk(session, rest)
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
    """Return all runs that match, within two limits.

    Args:
        session: reads the index in batches.
        wanted: `before`, `limit` and `looked_at` are ignored.
        most: most runs returned.
        looked_at: most runs examined, to within one batch.

    """
    chosen: dict[int, None] = {}
    seen = 0
    for rows in _batches(session, wanted):
        if seen >= looked_at:
            return SweepResult(run_ids=list(chosen), is_all=False)
        seen += len(rows)
        chosen.update((row.id, None) for row in _fitting(session, rows, wanted))
        if len(chosen) > most:
            return SweepResult(run_ids=list(chosen)[:most], is_all=False)
    return SweepResult(run_ids=list(chosen), is_all=True)


def count(session: Session, wanted: RunSearch, *, most: int, looked_at: int) -> RunCount:
    """Count the runs that match, within the limits of `sweep`.

    The database counts them, unless it has to search messages or later runs, or read several jobs.
    """
    if wanted.text is not None or wanted.job_ids is not None or wanted.unresolved:
        found = sweep(session, wanted, most=most, looked_at=looked_at)
        return RunCount(number=len(found.run_ids), is_all=found.is_all)
    is_known_to_index = wanted.job_id is None and not run_walks.has_rest(wanted)
    limit = most + 1 if is_known_to_index else looked_at
    examined = run_walks.candidates(session, wanted).limit(limit).subquery()
    matches = of(session).sum_of(case((and_(true(), *_conditions(examined, wanted)), 1), else_=0))
    counted, matching = session.execute(select(func.count(), matches).select_from(examined)).one()
    return RunCount(number=min(matching, most), is_all=counted < limit and matching <= most)


def _batches(session: Session, wanted: RunSearch) -> Iterator[Sequence[ListedRun]]:
    """Yield batches of runs along an index, newest first."""
    if run_walks.is_along_partitions(wanted):
        runs = newest_runs.stream(session, run_walks.selection(wanted, before=None))
        while batch := list(islice(runs, AT_ONCE)):
            yield batch
        return
    rest = replace(wanted, before=None, limit=AT_ONCE, looked_at=AT_ONCE)
    while True:
        walk = run_walks.walk(session, rest)
        yield [row for _, row in walk.rows]
        if walk.end is None:
            return
        rest = replace(rest, before=walk.end)


def _fitting(session: Session, rows: Sequence[ListedRun], wanted: RunSearch) -> list[ListedRun]:
    fitting = [row for row in rows if _fits(row, wanted)]
    if wanted.unresolved:
        resolved = reruns.superseded(session, [row.id for row in fitting])
        fitting = [row for row in fitting if row.id not in resolved]
    if wanted.text is None:
        return fitting
    with_text = run_messages.with_text(session, [row.id for row in fitting], wanted.text)
    return [row for row in fitting if row.id in with_text]


def _lines(session: Session, chosen: Sequence[tuple[Place, ListedRun]]) -> list[RunLine]:
    # Runs deleted in between are missing.
    return run_messages.by_ids(session, [run.id for _, run in chosen])


def _conditions(examined: Subquery, wanted: RunSearch) -> list[ColumnElement[bool]]:
    """Return what `_fits` checks, for the database."""
    columns, found = examined.c, list[ColumnElement[bool]]()
    if wanted.app_ids is not None:
        found.append(columns.app_id.in_(wanted.app_ids))
    if wanted.statuses:
        found.append(columns.status.in_(wanted.statuses))
    if wanted.kind is not None:
        found.append(columns.kind == wanted.kind)
    if wanted.address is not None:
        found.append(columns.address == wanted.address)
    if wanted.since_ms is not None:
        found.append(columns.due_at >= wanted.since_ms)
    if wanted.until_ms is not None:
        found.append(columns.due_at < wanted.until_ms)
    return found


def _fits(row: ListedRun, wanted: RunSearch) -> bool:
    if isinstance(row, IndexedRun):
        # The index has checked it all.
        return True
    is_in_time = (wanted.since_ms is None or row.due_at >= wanted.since_ms) and (
        wanted.until_ms is None or row.due_at < wanted.until_ms
    )
    if isinstance(row, DatedRun):
        return is_in_time
    return (
        is_in_time
        and (wanted.app_ids is None or row.app_id in wanted.app_ids)
        and (not wanted.statuses or row.status in wanted.statuses)
        and wanted.kind in (None, row.kind)
        and wanted.address in (None, row.address)
    )
