"""The audit of what belongs together: the shards of a tick, and the children of its parent.

A child's run is missed only where its parent has had this child since before the tick ended: who
was whose child at an earlier time is not kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from scheduler.job_ledger import JobLedger, Ledgers
from scheduler.tick_end import TickEnd, tick_end
from sql import ledger
from sql.ticks import Tick, tick_of

#: No unit of work takes longer from its reading to its commit.
LONGEST_UNIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class _Link:
    """One job that is another's child, since `since_ms` at the latest."""

    parent: ledger.Parent
    child: JobLedger
    since_ms: int


@dataclass(slots=True)
class _Heads:
    """First runs of a parent's ticks, with their due times.

    `owed` are those of ticks for which each child must have a run, `barred` those for which none
    may have one.
    """

    owed: dict[int, int]
    barred: dict[int, int]


def audit_shards(
    session: Session, ledgers: Ledgers, bounds: tuple[int, int], *, job_id: int | None = None
) -> None:
    """Find ticks that were expanded into shards of which one has no row, or is one too many."""
    found = ledger.broken_shards(session, after_ms=bounds[0], until_ms=bounds[1], job_id=job_id)
    for row in found:
        job = ledgers.of(row.job_id)
        if job is None or row.scheduled_at <= ledger.purged_until(session, row.job_id):
            continue
        words = f"{row.shards} of {row.total} shards have a row"
        if row.shards < row.total:
            job.lose(row.scheduled_at, words)
        else:
            job.double(row.scheduled_at, words)


def audit_children(session: Session, ledgers: Ledgers, bounds: tuple[int, int]) -> None:
    """Find ticks that succeeded without a run of each child, and children's runs without one."""
    for parent in ledger.parents(session):
        for child_id in filter(ledgers.is_there, parent.children):
            if child := ledgers.of(child_id):
                link = _Link(parent, child, parent.since_ms + LONGEST_UNIT_MS)
                _audit_link(session, link, bounds)


def _audit_link(session: Session, link: _Link, bounds: tuple[int, int]) -> None:
    # A child's run is written together with its parent's end: so what was read first proves that
    # the other must be there in what is read after it.
    early = ledger.child_origins(session, link.child.job_id, bounds)
    heads = _heads(session, link, bounds)
    for head_id in sorted(early & heads.barred.keys()):
        link.child.double(heads.barred[head_id], f"{link.parent.name} has not succeeded")
    missing = heads.owed.keys() - early
    if not missing:
        return
    late = ledger.child_origins(session, link.child.job_id, bounds)
    purged_until = ledger.purged_until(session, link.child.job_id)
    for head_id in sorted(missing - late):
        if heads.owed[head_id] > purged_until:
            link.child.lose(heads.owed[head_id], f"{link.parent.name} succeeded")


def _heads(session: Session, link: _Link, bounds: tuple[int, int]) -> _Heads:
    heads = _Heads({}, {})
    for tick, end, head_id in _ticks(session, link.parent.id, bounds):
        if end is None or not end.succeeded:
            heads.barred[head_id] = tick.scheduled_at
        elif end.finished_at > link.since_ms:
            heads.owed[head_id] = tick.scheduled_at
    return heads


def _ticks(
    session: Session, job_id: int, bounds: tuple[int, int]
) -> Iterator[tuple[Tick, TickEnd | None, int]]:
    """Give a job's ticks whose first run is there, how they ended, and that run's id."""
    rows = ledger.attempts(session, job_id, after_ms=bounds[0], until_ms=bounds[1])
    for tick, attempts in groupby(rows, tick_of):
        found = list(attempts)
        if (found[0].shard_index, found[0].attempt) == (0, 0):
            yield tick, tick_end(tick, found), found[0].id
