"""Audits fixed delays, whose ticks depend on when runs end and so cannot be recomputed.

The first tick after a start is known. Each later tick is at least the delay after the one before,
whose runs have all ended by then. The watermark is always a tick that was run or skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.audit.late_starts import LateStartRule
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.sql.jobs import parked
from warren.sql.run_status import RunStatus
from warren.sql.runs import tick_rows
from warren.sql.runs.tick_rows import DelayedTick


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
    """Count a span's ticks, and find those that break the rules above."""
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
    before = parked.watermarks(session)
    at_work = tick_rows.busy_jobs(session)
    after = parked.watermarks(session)
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
