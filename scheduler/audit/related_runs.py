"""Audits runs that depend on others: shards of a tick, runs of child jobs, and fixed delays.

A child's run counts as missing only if the parent already had this child when its tick ended;
which children a parent had earlier is not recorded.

The ticks of a fixed delay depend on when runs end, so they cannot be recomputed. The first tick
after a start is known. Each later tick is at least the delay after the one before, whose runs have
all ended by then. The watermark is always a tick that was run or skipped.

A run may start late because its executor was full or absent. What counts against a job's late
limit is how long no scheduler could send it, or its app was paused: if that is over the limit and
the policy is to skip such runs, it must not start at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.completion.end import tick_end
from warren.scheduler.membership.uptime import due_times
from warren.scheduler.schedules.misfire import SKIPPING
from warren.sql.batch import chunks
from warren.sql.jobs import due_jobs
from warren.sql.models import History
from warren.sql.models.job_tables import LATE_LIMIT_SECONDS
from warren.sql.registry.uptimes import Downtime
from warren.sql.run_status import RunStatus
from warren.sql.runs import tick_rows
from warren.sql.runs.run_rows import TickRun
from warren.sql.runs.tick_rows import DelayedTick, JobRange, TickRow
from warren.sql.runs.ticks import Tick, tick_of


@dataclass(frozen=True, slots=True)
class LateStartRule:
    """The spans in which nothing could be sent, for a job that skips runs delayed by them.

    `changes` are the job's, in order: the limit that was in force at the decision counts.
    """

    downtimes: Sequence[Downtime] = ()
    changes: Sequence[History] = ()

    @staticmethod
    def of(
        policy: str, downtimes: Sequence[Downtime], changes: Sequence[History]
    ) -> "LateStartRule":
        """Return the rule for a policy; a policy that makes up for missed runs forbids nothing."""
        return LateStartRule(downtimes if policy in SKIPPING else (), changes)

    def forbids(self, row: TickRow | DelayedTick) -> bool:
        """Whether the run started late although it should have been skipped."""
        if row.late_due_at is None:
            return False
        limit_ms = self._limit_ms(row.decided_at)
        each = (span for downtime in self.downtimes for span in due_times([downtime]))
        return any(
            span.from_ms <= row.late_due_at < span.over_ms - limit_ms
            and row.routed_at >= span.over_ms
            for span in (*each, *due_times(self.downtimes))
        )

    def _limit_ms(self, at_ms: int) -> int:
        """Return the limit in force at an instant; before the first change, the first one.

        A record of the end of a schedule has none.
        """
        known = [limit for limit in self.changes if limit.late_limit]
        before = [limit.late_limit for limit in known if limit.changed_at <= at_ms]
        first = known[0].late_limit if known else LATE_LIMIT_SECONDS
        return 1_000 * (before[-1] if before else first)


#: The longest time from a transaction's first read to its commit.
MAX_TRANSACTION_MS = 30_000
#: Children of one parent that are audited together; its ticks are read once for all of them.
CHILDREN_LIMIT = 100


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
    """Find ticks with fewer or more shards than they were split into."""
    broken = tick_rows.broken_shards(session, jobs, after_ms=bounds[0], until_ms=bounds[1])
    for job_id, tick, shards, total in broken:
        job = tallies.of(job_id)
        if job is None or tick <= tick_rows.purged_until(session, job_id):
            continue
        why = Why.SHARDS_MISCOUNTED(rows=shards, total=total)
        if shards < total:
            job.add_lost(tick, why)
        else:
            job.add_doubled(tick, why)


def audit_children(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find successful ticks that lack a child's run, and children's runs of other ticks."""
    for parent in tick_rows.parents(session):
        existing = filter(tallies.exists, parent.children)
        for child_ids in chunks(existing, CHILDREN_LIMIT):
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
    since_ms = parent.since_ms + MAX_TRANSACTION_MS
    rows = tick_rows.attempts(session, parent.id, after_ms=bounds[0], until_ms=bounds[1])
    for scheduled_at, runs_of_time in groupby(rows, lambda run: run.scheduled_at):
        runs = list(runs_of_time)
        repeats = [run for run in runs if run.rerun_of is not None]
        own = [run for run in runs if run.rerun_of is None]
        for tick, runs_of_tick in groupby(own, tick_of):
            _judge(tick, list(runs_of_tick), first_runs, since_ms, is_repeated=bool(repeats))
        if repeats and (heads := _heads_of_reruns(runs, since_ms)):
            first_runs.required[heads] = scheduled_at
    return first_runs


def _judge(
    tick: Tick, runs: list[TickRun], first_runs: _FirstRuns, since_ms: int, *, is_repeated: bool
) -> None:
    """Note whether the children of a tick must have run, ignoring its re-runs."""
    first, end = runs[0], tick_end(tick, runs)
    if (first.shard_index, first.attempt) != (0, 0):
        return
    if end is None or not end.succeeded:
        if not is_repeated:
            first_runs.forbidden[first.id] = tick.scheduled_at
    # Of several shards, one that ran again may have ended after the others.
    elif first.without_children:
        first_runs.forbidden[first.id] = tick.scheduled_at
    elif end.finished_at > since_ms and not (is_repeated and first.shard_total > 1):
        first_runs.required[first.id,] = tick.scheduled_at


def _heads_of_reruns(runs: list[TickRun], since_ms: int) -> tuple[int, ...]:
    """Return first runs, one of which must have started children; empty if no re-run had to."""
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


@dataclass(frozen=True, slots=True)
class DelaySpan:
    """A time in which a job was enabled with one delay: ticks in (`after_ms`, `until_ms`].

    `anchor_ms` is the first tick. `last_ms` is the watermark at the end; None = not checked.
    """

    delay_ms: int
    anchor_ms: int
    after_ms: int
    until_ms: int
    last_ms: int | None
    late_starts: LateStartRule


def audit_delays(session: Session, span: DelaySpan, job: JobTally) -> None:
    """Count a span's ticks, and find those that break the rules for fixed delays."""
    # Before the rows: a tick that is skipped meanwhile must not count as fired too.
    skips = [
        skip.from_at
        for skip in tick_rows.skips(session, job.job_id)
        if span.after_ms < skip.from_at <= span.until_ms
    ]
    bounds = {"after_ms": span.after_ms, "until_ms": span.until_ms}
    ticks = tick_rows.delayed_ticks(session, job.job_id, **bounds)
    # A tick that was planned and then skipped has a cancelled row and a skip.
    skipped = set(skips)
    rows = [
        row for row in ticks if row.status != RunStatus.CANCELLED or row.scheduled_at not in skipped
    ]
    _count(job, rows, skips)
    for row in rows:
        if span.late_starts.forbids(row):
            job.add_late(row.scheduled_at)
    known = {row.scheduled_at for row in rows} | set(skips)
    purged_until = tick_rows.purged_until(session, job.job_id)
    for tick in sorted(_expected(span) - known):
        job.due += 1
        if tick <= purged_until:
            job.purged += 1
        else:
            job.add_lost(tick)
    _check_distances(span, job, rows, skips)


def audit_waiting(session: Session, tallies: Tallies) -> None:
    """Find jobs that wait for the end of a tick although none is open: they would wait forever.

    Watermarks are read before and after: if one has risen, its job planned a tick meanwhile and is
    not stuck.
    """
    before = due_jobs.watermarks(session)
    at_work = tick_rows.busy_jobs(session)
    after = due_jobs.watermarks(session)
    for job_id in sorted(before.keys() - at_work):
        if after.get(job_id) == before[job_id] and (job := tallies.of(job_id)):
            job.add_lost(before[job_id], Why.NOTHING_SETS_NEXT())


def _count(job: JobTally, rows: Sequence[DelayedTick], skips: Sequence[int]) -> None:
    cancelled = sum(row.status == RunStatus.CANCELLED for row in rows)
    job.due += len(rows) + len(skips)
    job.cancelled += cancelled
    job.fired += len(rows) - cancelled
    job.skipped += len(skips)


def _expected(span: DelaySpan) -> set[int]:
    """Return the ticks that must have been run or skipped: the first, and the watermark."""
    return {
        tick
        for tick in (span.anchor_ms, span.last_ms)
        if tick is not None and span.after_ms < tick <= span.until_ms
    }


def _check_distances(
    span: DelaySpan, job: JobTally, rows: Sequence[DelayedTick], skips: Sequence[int]
) -> None:
    decided = [(row.scheduled_at, row.open_runs, row.finished_at or 0) for row in rows]
    decided += [(tick, 0, 0) for tick in skips]
    last: tuple[int, int, int] | None = None
    for tick, open_runs, finished_at in sorted(decided):
        if last is not None:
            last_tick, last_open, last_finished_at = last
            if tick - last_tick < span.delay_ms:
                job.add_doubled(tick, Why.TOO_NEAR())
            elif last_open or last_finished_at > tick:
                job.add_doubled(tick, Why.TICK_BEFORE_OPEN())
        last = (tick, open_runs, finished_at)
