"""Audits related runs: the shards of a tick, and the runs of child jobs.

A child's run counts as missing only if the parent already had this child when its tick ended;
which children a parent had earlier is not recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.completion.tick_end import tick_end
from warren.sql.batch import chunks
from warren.sql.runs import tick_rows
from warren.sql.runs.run_rows import TickRun
from warren.sql.runs.tick_rows import JobRange
from warren.sql.runs.ticks import Tick, tick_of

#: Longest time from a transaction's first read to its commit.
LONGEST_TRANSACTION_MS = 30_000
#: Children of one parent that are audited together; its ticks are read once for all of them.
CHILDREN_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Link:
    """A parent, its child, and the parent's runs that had started the child at the first read."""

    parent: str
    child: JobTally
    first_read: set[int]


@dataclass(slots=True)
class _FirstRuns:
    """Ids of the first runs of a parent's ticks, with their due times.

    For one of each group in `required` each child must have a run; for those in `forbidden` no
    child may have one.
    """

    required: dict[tuple[int, ...], int]
    forbidden: dict[int, int]


def audit_shards(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find ticks that have fewer or more shards than they were expanded into."""
    for row in tick_rows.broken_shards(session, jobs, after_ms=bounds[0], until_ms=bounds[1]):
        job = tallies.of(row.job_id)
        if job is None or row.scheduled_at <= tick_rows.purged_until(session, row.job_id):
            continue
        why = Why.SHARDS_MISCOUNTED(rows=row.shards, total=row.total)
        if row.shards < row.total:
            job.add_lost(row.scheduled_at, why)
        else:
            job.add_doubled(row.scheduled_at, why)


def audit_children(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find successful ticks that lack a child's run, and children's runs of other ticks."""
    for parent in tick_rows.parents(session):
        existing = filter(tallies.exists, parent.children)
        for child_ids in chunks(existing, CHILDREN_AT_ONCE):
            children = [child for child in map(tallies.of, child_ids) if child is not None]
            _audit_parent(session, parent, children, bounds)


def _audit_parent(
    session: Session,
    parent: tick_rows.Parent,
    children: Sequence[JobTally],
    bounds: tuple[int, int],
) -> None:
    if not children:
        return
    # One transaction writes the parent's end and the child's run. So whichever of the two an
    # earlier read has shown, a later read must show the other.
    links = [
        _Link(parent.name, child, tick_rows.child_origins(session, child.job_id, bounds))
        for child in children
    ]
    first_runs = _first_runs(session, parent, bounds)
    for link in links:
        _audit_link(session, link, first_runs, bounds)


def _audit_link(
    session: Session, link: _Link, first_runs: _FirstRuns, bounds: tuple[int, int]
) -> None:
    child, required, forbidden = link.child, first_runs.required, first_runs.forbidden
    for run_id in sorted(link.first_read & forbidden.keys()):
        child.add_doubled(forbidden[run_id], Why.PARENT_UNSUCCESSFUL(path=link.parent))
    missing = {heads for heads in required if link.first_read.isdisjoint(heads)}
    if not missing:
        return
    second_read = tick_rows.child_origins(session, child.job_id, bounds)
    purged_until = tick_rows.purged_until(session, child.job_id)
    for heads in sorted(missing):
        if second_read.isdisjoint(heads) and required[heads] > purged_until:
            child.add_lost(required[heads], Why.PARENT_SUCCEEDED(path=link.parent))


def _first_runs(session: Session, parent: tick_rows.Parent, bounds: tuple[int, int]) -> _FirstRuns:
    first_runs = _FirstRuns({}, {})
    since_ms = parent.since_ms + LONGEST_TRANSACTION_MS
    rows = tick_rows.attempts(session, parent.id, after_ms=bounds[0], until_ms=bounds[1])
    for scheduled_at, runs_of_time in groupby(rows, lambda run: run.scheduled_at):
        runs = list(runs_of_time)
        repeats = [run for run in runs if run.rerun_of is not None]
        own = [run for run in runs if run.rerun_of is None]
        for tick, runs_of_tick in groupby(own, tick_of):
            _judge(tick, list(runs_of_tick), first_runs, since_ms, is_repeated=bool(repeats))
        if repeats and (heads := _heads_of_mended(runs, since_ms)):
            first_runs.required[heads] = scheduled_at
    return first_runs


def _judge(
    tick: Tick, runs: list[TickRun], found: _FirstRuns, since_ms: int, *, is_repeated: bool
) -> None:
    """Note whether the children of a tick must have run, judged without its re-runs."""
    first, end = runs[0], tick_end(tick, runs)
    if (first.shard_index, first.attempt) != (0, 0):
        return
    if end is None or not end.succeeded:
        if not is_repeated:
            found.forbidden[first.id] = tick.scheduled_at
    # Of several shards, one that ran again may have ended after the others.
    elif end.finished_at > since_ms and not (is_repeated and first.shard_total > 1):
        found.required[first.id,] = tick.scheduled_at


def _heads_of_mended(runs: list[TickRun], since_ms: int) -> tuple[int, ...]:
    """Return first runs of which one must have started children; none if re-runs started none."""
    runs.sort(key=lambda run: (run.shard_index, run.origin_id, run.attempt))
    newest = {run.shard_index: run for run in runs}.values()
    end = tick_end(tick_of(runs[-1]), runs)
    if end is None or not end.succeeded or end.finished_at <= since_ms:
        return ()
    last_end = max(run.finished_at or 0 for run in newest)
    if all(run.without_children for run in newest if run.finished_at == last_end):
        return ()
    heads = {run.id for run in runs if (run.shard_index, run.attempt) == (0, 0)}
    return tuple(sorted(heads | {run.origin_id for run in runs if run.rerun_of is not None}))
