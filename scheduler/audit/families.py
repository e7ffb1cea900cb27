"""The audit of related runs: the shards of a tick, and the children of a parent.

A child's run is missed only where its parent has had this child since before the tick ended: who
was whose child at an earlier time is not kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from broker.reasons.codes import Why
from scheduler.audit.tally import JobTally, Tallies
from scheduler.completion.tick_end import TickEnd, tick_end
from sql.batch import chunks
from sql.runs import tick_rows
from sql.runs.tick_rows import JobRange
from sql.runs.ticks import Tick, tick_of

#: No unit of work takes longer from its reading to its commit.
LONGEST_UNIT_MS = 30_000
#: Children of one parent whose runs are held in memory together; its ticks are read once for them.
CHILDREN_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Link:
    """A job that is another's child; `early` are the parent's runs that it was first seen with."""

    parent: str
    child: JobTally
    early: set[int]


@dataclass(slots=True)
class _Heads:
    """First runs of a parent's ticks, with their due times.

    `owed` are those of ticks for which each child must have a run, `barred` those for which none
    may have one.
    """

    owed: dict[int, int]
    barred: dict[int, int]


def audit_shards(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find ticks that were expanded into shards of which one has no row, or is one too many."""
    found = tick_rows.broken_shards(session, jobs, after_ms=bounds[0], until_ms=bounds[1])
    for row in found:
        job = tallies.of(row.job_id)
        if job is None or row.scheduled_at <= tick_rows.purged_until(session, row.job_id):
            continue
        why = Why.SHARDS_MISCOUNTED(rows=row.shards, total=row.total)
        if row.shards < row.total:
            job.lose(row.scheduled_at, why)
        else:
            job.double(row.scheduled_at, why)


def audit_children(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find ticks that succeeded without a run of each child, and children's runs without one."""
    for parent in tick_rows.parents(session):
        there = filter(tallies.is_there, parent.children)
        for some in chunks(there, CHILDREN_AT_ONCE):
            children = [child for child in map(tallies.of, some) if child is not None]
            _audit_parent(session, parent, children, bounds)


def _audit_parent(
    session: Session,
    parent: tick_rows.Parent,
    children: Sequence[JobTally],
    bounds: tuple[int, int],
) -> None:
    if not children:
        return
    # A child's run is written together with its parent's end: so what was read first proves that
    # the other must be there in what is read after it.
    links = [
        _Link(parent.name, child, tick_rows.child_origins(session, child.job_id, bounds))
        for child in children
    ]
    heads = _heads(session, parent, bounds)
    for link in links:
        _audit_link(session, link, heads, bounds)


def _audit_link(session: Session, link: _Link, heads: _Heads, bounds: tuple[int, int]) -> None:
    child, early = link.child, link.early
    for head_id in sorted(early & heads.barred.keys()):
        child.double(heads.barred[head_id], Why.PARENT_UNSUCCESSFUL(path=link.parent))
    missing = heads.owed.keys() - early
    if not missing:
        return
    late = tick_rows.child_origins(session, child.job_id, bounds)
    purged_until = tick_rows.purged_until(session, child.job_id)
    for head_id in sorted(missing - late):
        if heads.owed[head_id] > purged_until:
            child.lose(heads.owed[head_id], Why.PARENT_SUCCEEDED(path=link.parent))


def _heads(session: Session, parent: tick_rows.Parent, bounds: tuple[int, int]) -> _Heads:
    heads = _Heads({}, {})
    since_ms = parent.since_ms + LONGEST_UNIT_MS
    for tick, end, head_id in _ticks(session, parent.id, bounds):
        if end is None or not end.succeeded:
            heads.barred[head_id] = tick.scheduled_at
        elif end.finished_at > since_ms:
            heads.owed[head_id] = tick.scheduled_at
    return heads


def _ticks(
    session: Session, job_id: int, bounds: tuple[int, int]
) -> Iterator[tuple[Tick, TickEnd | None, int]]:
    """Give a job's ticks whose first run is there, how they ended, and that run's id."""
    rows = tick_rows.attempts(session, job_id, after_ms=bounds[0], until_ms=bounds[1])
    for tick, attempts in groupby(rows, tick_of):
        found = list(attempts)
        if (found[0].shard_index, found[0].attempt) == (0, 0):
            yield tick, tick_end(tick, found), found[0].id
