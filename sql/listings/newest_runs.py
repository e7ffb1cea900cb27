"""The newest runs of some states and apps in one order, along `(status, job_group, due_at)`.

The index has the runs of a state and an app together, a part, by due time; no index has those of
all parts in one order. The newest run of each part, which the server finds by one step of the index
each, tells which few parts the newest runs of all can be in: 500 apps cost little more than one.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select, union_all
from sqlalchemy.orm import Session

from sql.dialects.hints import use_index
from sql.models import App, Run
from sql.rows import Query, fetch, query
from sql.run_status import RunStatus

#: Parts that are read one by one.
PARTS = 50
#: Each gives so many runs at least, and all of them together no more than that.
PART_ROWS, MOST = 5, 2_000
_INDEX = "i_status_due"

#: `due_at` and id of a run; the order goes by both, downwards.
Due = tuple[int, int]


class WalkedRun(NamedTuple):
    """A run that is looked at for a list."""

    id: int
    job_id: int
    kind: str
    address: str | None
    status: str
    due_at: int
    app_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Runs of these states and apps, None = all; due from `since_ms` up to `until_ms`, without it.

    `before` is the place behind which to look; None = from the newest on.
    """

    statuses: frozenset[RunStatus]
    app_ids: Collection[int] | None
    since_ms: int | None = None
    until_ms: int | None = None
    before: Due | None = None


class _Head(NamedTuple):
    due_at: int
    status: str
    app_id: int


@dataclass(frozen=True, slots=True)
class _Share:
    """What was read of one part or instant, and where that ended, None when nothing is left."""

    rows: Sequence[WalkedRun]
    end: Due | None


@dataclass(frozen=True, slots=True)
class Newest:
    """Runs with their places, newest first: all that there are up to `end`.

    `end` is the place behind which there may be more, None when there are no more. `looked_at` is
    how many runs were read for it.
    """

    rows: Sequence[tuple[Due, WalkedRun]]
    end: Due | None
    looked_at: int


def read(session: Session, wanted: Parts, *, limit: int) -> Newest:
    """Return the newest runs.

    Without `before` they are `limit` at least, if there are so many and that is no more than
    MOST / PARTS.
    """
    shares = _read(session, wanted, limit)
    # What lies behind the end of one share may come before what another one has there.
    end = max((share.end for share in shares if share.end is not None), default=None)
    rows = {row.id: ((row.due_at, row.id), row) for share in shares for row in share.rows}
    placed = sorted(rows.values(), key=lambda each: each[0], reverse=True)
    known = [one for one in placed if end is None or one[0] >= end]
    return Newest(known, end, sum(len(share.rows) for share in shares))


def _read(session: Session, wanted: Parts, limit: int) -> list[_Share]:
    app_ids = wanted.app_ids
    if app_ids is None:
        app_ids = session.execute(select(App.id)).scalars().all()
    parts = list(product((status.value for status in sorted(wanted.statuses)), sorted(app_ids)))
    if len(parts) <= PARTS:
        return _one_by_one(session, wanted, parts, limit)
    heads = _heads(session, wanted, app_ids)
    if len(heads) <= PARTS:
        return _one_by_one(session, wanted, [head[1:] for head in heads], limit)
    # So many parts have a run as young as this one: no older one is needed.
    oldest = heads[PARTS - 1].due_at
    fresh = [head[1:] for head in heads if head.due_at > oldest]
    tied = [head for head in heads if head.due_at == oldest]
    return [
        *_one_by_one(session, wanted, fresh, limit),
        _of_one_instant(session, wanted, tied, limit),
    ]


def _heads(session: Session, wanted: Parts, app_ids: Iterable[int]) -> list[_Head]:
    """Return the newest run of each part that has any, newest first."""
    statement = (
        use_index(query(_Head, Run, due_at=func.max(Run.due_at)), Run, _INDEX)
        .where(Run.status.in_(wanted.statuses), Run.app_id.in_(app_ids), *_times(wanted))
        .group_by(Run.status, Run.app_id)
    )
    if wanted.before is not None:
        due_at, run_id = wanted.before
        statement = statement.where(Run.due_at <= (due_at if run_id > 0 else due_at - 1))
    return sorted(fetch(session, _Head, statement), reverse=True)


def _one_by_one(
    session: Session, wanted: Parts, parts: Sequence[tuple[str, int]], limit: int
) -> list[_Share]:
    """Return the newest runs of each of few parts."""
    if not parts:
        return []
    each = max(PART_ROWS, min(limit, MOST // len(parts)))
    some = [_part(wanted, status, app_id).limit(each) for status, app_id in parts]
    found: dict[tuple[str, int], list[WalkedRun]] = {part: [] for part in parts}
    for row in map(
        WalkedRun._make, session.execute(union_all(*(select(part.subquery()) for part in some)))
    ):
        found[row.status, row.app_id].append(row)
    return [_share(rows, each, None) for rows in found.values()]


def _part(wanted: Parts, status: str, app_id: int) -> Query:
    return (
        use_index(query(WalkedRun, Run), Run, _INDEX)
        .where(Run.status == status, Run.app_id == app_id, *_times(wanted), *_behind(wanted))
        .order_by(Run.due_at.desc(), Run.id.desc())
    )


def _of_one_instant(session: Session, wanted: Parts, tied: Sequence[_Head], limit: int) -> _Share:
    """Return runs due in the instant that is the newest of many parts; all older ones are left."""
    due_at = tied[0].due_at
    statement = (
        use_index(query(WalkedRun, Run), Run, _INDEX)
        .where(
            Run.status.in_({head.status for head in tied}),
            Run.app_id.in_({head.app_id for head in tied}),
            Run.due_at == due_at,
            *_behind(wanted),
        )
        .order_by(Run.id.desc())
        .limit(limit)
    )
    return _share(fetch(session, WalkedRun, statement), limit, (due_at, 0))


def _share(rows: Sequence[WalkedRun], limit: int, rest: Due | None) -> _Share:
    """Return rows as a share; one that is not full ends at `rest`."""
    end = min((row.due_at, row.id) for row in rows) if len(rows) >= limit else rest
    return _Share(rows, end)


def _times(wanted: Parts) -> list[ColumnElement[bool]]:
    found = []
    if wanted.since_ms is not None:
        found.append(Run.due_at >= wanted.since_ms)
    if wanted.until_ms is not None:
        found.append(Run.due_at < wanted.until_ms)
    return found


def _behind(wanted: Parts) -> list[ColumnElement[bool]]:
    if wanted.before is None:
        return []
    due_at, run_id = wanted.before
    # Only the first condition can be the start of an index range.
    return [Run.due_at <= due_at, or_(Run.due_at < due_at, Run.id < run_id)]
