"""The audit of fixed delays: their ticks cannot be computed, but they keep their distance.

The first tick after a start is known; each later one comes at least the delay after the one before
it, whose runs are all over by then; and the watermark is always a tick that was decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from scheduler.job_ledger import JobLedger, Ledgers
from sql import ledger, parked
from sql.rows import AnyRow
from sql.run_status import RunStatus


@dataclass(frozen=True, slots=True)
class DelaySpan:
    """A time in which a job was enabled with one delay: ticks after `after_ms`, to `until_ms`.

    `anchor_ms` is its first tick. `last_ms` is the watermark at its end, None when that is not
    looked at.
    """

    delay_ms: int
    anchor_ms: int
    after_ms: int
    until_ms: int
    last_ms: int | None


def audit_delays(session: Session, span: DelaySpan, job: JobLedger) -> None:
    """Hold a span's rows and skips against what always holds of them."""
    bounds = {"after_ms": span.after_ms, "until_ms": span.until_ms}
    rows = ledger.delayed_ticks(session, job.job_id, **bounds)
    skips = [
        skip.from_at
        for skip in ledger.skips(session, job.job_id)
        if span.after_ms < skip.from_at <= span.until_ms
    ]
    _count(job, rows, skips)
    known = {row.scheduled_at for row in rows} | set(skips)
    purged_until = ledger.purged_until(session, job.job_id)
    for tick in sorted(_expected(span) - known):
        job.due += 1
        if tick <= purged_until:
            job.purged += 1
        else:
            job.lose(tick)
    _check_distances(span, job, rows, skips)


def audit_waiting(session: Session, ledgers: Ledgers) -> None:
    """Find jobs that wait for the end of a tick although none is open: they wait for ever.

    Reading twice, it cannot be deceived by a job that goes on meanwhile: the watermark of one that
    has planned a tick in between has risen.
    """
    before = parked.watermarks(session)
    at_work = ledger.jobs_at_work(session)
    after = parked.watermarks(session)
    for job_id in sorted(before.keys() - at_work):
        if after.get(job_id) == before[job_id] and (job := ledgers.of(job_id)):
            job.lose(before[job_id], "over, and nothing sets the next one")


def _count(job: JobLedger, rows: Sequence[AnyRow], skips: Sequence[int]) -> None:
    cancelled = sum(row.status == RunStatus.CANCELLED for row in rows)
    job.due += len(rows) + len(skips)
    job.cancelled += cancelled
    job.fired += len(rows) - cancelled
    job.skipped += len(skips)


def _expected(span: DelaySpan) -> set[int]:
    """Return the ticks that must have been decided: the first, and the watermark."""
    return {
        tick
        for tick in (span.anchor_ms, span.last_ms)
        if tick is not None and span.after_ms < tick <= span.until_ms
    }


def _check_distances(
    span: DelaySpan, job: JobLedger, rows: Sequence[AnyRow], skips: Sequence[int]
) -> None:
    decided = [(row.scheduled_at, row.is_open, row.finished_at or 0) for row in rows]
    decided += [(tick, 0, 0) for tick in skips]
    last: tuple[int, int, int] | None = None
    for tick, is_open, finished_at in sorted(decided):
        if last is not None:
            last_tick, last_open, last_finished_at = last
            if tick - last_tick < span.delay_ms:
                job.double(tick, "nearer to the tick before it than the delay")
            elif last_open or last_finished_at > tick:
                job.double(tick, "the tick before it was not over")
        last = (tick, is_open, finished_at)
