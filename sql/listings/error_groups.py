"""Groups failed runs by job and by message, ignoring numbers in the message but exit codes.

The database groups their messages; reading those of thousands of runs would take longer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Select, String, Subquery, cast, func, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.dialects.supported import of
from warren.sql.instants import MINUTE_MS
from warren.sql.listings import newest_runs, run_messages, run_search
from warren.sql.listings.newest_runs import RunSelection
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import Run
from warren.sql.rows import among

_SECOND_MS = 1_000
#: Added to ids: as texts of the same length, they then sort like numbers.
_ID_OFFSET = 10**18


@dataclass(slots=True)
class ErrorGroup:
    """Runs of a job with the same message; `newest` is the id of the latest due one.

    `text` is the message with `#` for numbers but its exit code; due times are epoch milliseconds.
    """

    job_id: int
    text: str
    count: int
    first_due: int
    last_due: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroups:
    """Groups, the largest first, and how many runs they have.

    `is_all` is False if a limit left out others.
    """

    groups: list[ErrorGroup]
    runs: int
    is_all: bool


def read(session: Session, wanted: RunSearch, *, most: int, looked_at: int) -> ErrorGroups:
    """Return the groups of the newest runs that match, `most` at most.

    If a search has criteria that are in no index, `looked_at` runs are examined at most.
    """
    if run_search.is_along_partitions(wanted) and not run_search.has_rest(wanted):
        ids, is_all = _newest(session, run_search.selection(wanted), most)
        return _merged(session, [_grouped(session).join(ids, ids.c.id == Run.id)], is_all=is_all)
    swept = run_search.sweep(session, wanted, most=most, looked_at=looked_at)
    parts = [_grouped(session).where(among(Run.id, ids)) for ids in chunks(swept.run_ids)]
    return _merged(session, parts, is_all=swept.is_all)


def _newest(session: Session, wanted: RunSelection, most: int) -> tuple[Subquery, bool]:
    """Return a query of the ids of the newest runs, and whether no others match."""
    wanted = replace(wanted, app_ids=newest_runs.app_ids(session, wanted))
    is_all = _count(session, wanted, most + 1) <= most
    if not is_all:
        wanted = replace(wanted, since_ms=_start(session, wanted, most))
    newest = newest_runs.unordered(session, wanted).with_only_columns(Run.id)
    ids = newest.order_by(Run.due_at.desc(), Run.id.desc()).limit(most).subquery()
    return ids, is_all


def _start(session: Session, wanted: RunSelection, least: int) -> int:
    """Return a time since which at least `least` runs are due.

    There are fewer than twice as many, unless more than that are due within one second.
    """
    first = wanted.since_ms or 0

    def count(since_ms: int) -> int:
        return _count(session, replace(wanted, since_ms=max(since_ms, first)), 2 * least)

    latest = newest_runs.latest_due(session, wanted)
    few_ms, many_ms = 0, MINUTE_MS
    while (counted := count(latest - many_ms)) < least and latest - many_ms > first:
        few_ms, many_ms = many_ms, many_ms * 4
    while counted == 2 * least and many_ms - few_ms > _SECOND_MS:
        middle_ms = (few_ms + many_ms) // 2
        if (fewer := count(latest - middle_ms)) < least:
            few_ms = middle_ms
        else:
            many_ms, counted = middle_ms, fewer
    return max(latest - many_ms, first)


def _count(session: Session, wanted: RunSelection, limit: int) -> int:
    """Return how many runs there are, up to a limit."""
    runs = newest_runs.unordered(session, wanted).with_only_columns(Run.due_at).limit(limit)
    return session.execute(select(func.count()).select_from(runs.subquery())).scalar_one()


def _grouped(session: Session) -> Select[int, str | None, str, int, int, str]:
    """Return the SELECT of groups; `_merged` joins those that `without_numbers` makes equal.

    Its last column is due time and id of the newest run.
    """
    text = of(session).replace_all(run_messages.beginning(), "[0-9]+", run_messages.NUMBER)
    run_id = cast(Run.id + _ID_OFFSET, String(20))
    newest = func.max(cast(Run.due_at, String(20)) + "-" + run_id)
    return select(
        Run.job_id,
        func.substr(text, 1, 2 * run_messages.COMPARED_LIMIT).label("text"),
        run_messages.exit_code().label("code"),
        func.count(),
        func.min(Run.due_at),
        newest,
    ).group_by(Run.job_id, "text", "code")


def _merged(
    session: Session, parts: Iterable[Select[int, str | None, str, int, int, str]], *, is_all: bool
) -> ErrorGroups:
    groups: dict[tuple[int, str], ErrorGroup] = {}
    for part in parts:
        for job_id, message, code, count, first_due, newest in session.execute(part):
            text = run_messages.without_numbers(message or "", code)
            last_due, run_id = map(int, newest.split("-"))
            run_id -= _ID_OFFSET
            group = groups.get((job_id, text))
            if group is None:
                groups[job_id, text] = ErrorGroup(job_id, text, count, first_due, last_due, run_id)
                continue
            group.count += count
            group.first_due = min(group.first_due, first_due)
            group.last_due, group.newest = max((group.last_due, group.newest), (last_due, run_id))
    return ErrorGroups(
        groups=sorted(
            groups.values(), key=lambda group: (-group.count, -group.last_due, -group.newest)
        ),
        runs=sum(group.count for group in groups.values()),
        is_all=is_all,
    )
